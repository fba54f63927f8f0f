package deadletter_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
)

// Hooks hold no lock, come one at a time and in order, and what goes wrong in
// one is counted and stops none of the others.
func TestHooksInOrder(t *testing.T) {
	t.Parallel()
	var (
		q     *deadletter.Queue
		told  []string
		depth int
	)
	put := func(item string) {
		if err := q.Put(t.Context(), deadletter.Record{ItemID: item, Payload: []byte(item)}); err != nil && !errors.Is(err, deadletter.ErrTooLarge) {
			t.Error(err)
		}
	}
	hook := func(r deadletter.Record) {
		depth++
		defer func() { depth-- }()
		if depth != 1 {
			t.Error("a hook runs inside another")
		}
		told = append(told, r.ItemID)
		switch r.ItemID {
		case "first":
			put("inside")
			put("inside, and above the limit")
		case "panics":
			panic("hook")
		case "exits":
			put("after the exit")
			runtime.Goexit()
		}
		_ = q.Stats()
	}
	q = newQueue(t, deadletter.Config{
		MaxPayload: 20,
		OnDead:     hook,
		OnLost: func(l deadletter.Loss) {
			if l.Err.ItemID != l.Record.ItemID || !errors.Is(l.Err, deadletter.ErrTooLarge) {
				t.Errorf("told of the loss %+v", l)
			}
			hook(l.Record)
		},
	})
	put("first")
	put("panics")
	var wg sync.WaitGroup
	wg.Go(func() { put("exits") })
	wg.Wait()
	put("last")
	want := []string{"first", "inside", "inside, and above the limit", "panics", "exits", "after the exit", "last"}
	if diff := cmp.Diff(told, want); diff != "" {
		t.Error(diff)
	}
	if n := q.Stats().HookPanics; n != 2 {
		t.Errorf("%d hook panics, want 2", n)
	}

	told = nil
	for i := range 32 {
		wg.Go(func() { put(fmt.Sprint("item ", i)) })
	}
	wg.Wait()
	if len(told) != 32 {
		t.Errorf("%d of 32 told: %q", len(told), told)
	}
}
