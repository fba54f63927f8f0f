package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
)

// A hook gets the letter that the store has, whatever way it came: with its id,
// its state, and what earlier failures have left.
func TestHookGetsTheStoredLetter(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	item := func() context.Context { return deadletter.WithItem(t.Context(), "item", "kind", "test") }
	for name, fail := range map[string]func(q *deadletter.Queue){
		"Do": func(q *deadletter.Queue) {
			_ = q.Do(item(), []byte("p"), func(context.Context) error { return boom })
		},
		"Do without a name": func(q *deadletter.Queue) {
			_ = q.Do(t.Context(), []byte("p"), func(context.Context) error { return boom })
		},
		"Fail": func(q *deadletter.Queue) { _ = q.Fail(item(), []byte("p"), boom) },
		"Put": func(q *deadletter.Queue) {
			_ = q.Put(t.Context(), deadletter.Record{ItemID: "item", Payload: []byte("p"), Err: "a\xffb"})
		},
		"RoundTrip": func(q *deadletter.Queue) {
			rt := deadletter.NewTransport(rounds(func(*http.Request) (*http.Response, error) { return nil, boom }), q)
			_, _, _ = send(rt, request(t, t.Context(), "item", strings.NewReader("p")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := deadletter.NewMemory()
			var told []deadletter.Record
			q := newQueue(t, deadletter.Config{Store: store, OnDead: func(r deadletter.Record) { told = append(told, r) }})
			for n := 1; n <= 2; n++ {
				fail(q)
				if len(told) != n {
					t.Fatalf("told %d times of %d failures", len(told), n)
				}
				r := told[n-1]
				stored, err := store.Get(t.Context(), r.ID)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(r, stored); diff != "" || r.Failures != n || r.State != deadletter.Dead || string(r.Payload) != "p" {
					t.Errorf("failure %d: %s told %+v", n, diff, r)
				}
			}
		})
	}
}

// blind is a store that keeps letters and cannot read them.
type blind struct{ deadletter.Store }

func (blind) Get(context.Context, string) (deadletter.Record, error) {
	return deadletter.Record{}, deadletter.ErrCorrupt
}

// A letter that cannot be read back is told all the same.
func TestHookOfALetterThatCannotBeRead(t *testing.T) {
	t.Parallel()
	var told []deadletter.Record
	q := newQueue(t, deadletter.Config{
		Store: blind{deadletter.NewMemory()}, OnDead: func(r deadletter.Record) { told = append(told, r) },
	})
	if err := q.Fail(deadletter.WithItem(t.Context(), "item"), []byte("p"), errors.New("boom")); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0].ID != deadletter.ID("q", "item") || told[0].State != deadletter.Dead || told[0].Failures != 1 || string(told[0].Payload) != "p" {
		t.Errorf("told %+v", told)
	}
}

// What Redact makes look alike stays apart, and is found by its own name.
func TestRedactedNamesStayApart(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	q := newQueue(t, deadletter.Config{
		Store: store, ResolveOnSuccess: true, Redact: func(r *deadletter.Record) { r.ItemID = "customer" },
	})
	for _, item := range []string{"Ada", "Grace"} {
		if err := q.Fail(deadletter.WithItem(t.Context(), item), nil, errors.New("boom")); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.Do(deadletter.WithItem(t.Context(), "Ada"), nil, func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for item, want := range map[string]deadletter.State{"Ada": deadletter.Acked, "Grace": deadletter.Dead} {
		if r, err := q.Get(t.Context(), item); err != nil || r.State != want || r.ItemID != "customer" {
			t.Errorf("%s: %+v, %v", item, r, err)
		}
	}
}

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
