package batch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// slowly yields the items with a pause before each and one at the end.
func slowly(pause time.Duration, its ...batch.Item) func(func(batch.Item) bool) {
	return func(yield func(batch.Item) bool) {
		for _, it := range its {
			time.Sleep(pause)
			if !yield(it) {
				return
			}
		}
		time.Sleep(pause)
	}
}

// A failed probe is not chosen again while others are still to be read.
func TestFailedProbeWaitsForTheIterator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(slowly(10*time.Second, batch.Item{ID: "a"}, batch.Item{ID: "b"}), func(context.Context, batch.Item) ([]byte, error) {
			if len(e.calls) == 1 {
				return nil, statusError(500)
			}
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(e.calls, []string{"a", "b", "a"}); diff != "" || rep.Exit != 0 {
			t.Errorf("%v, calls (-got +want):\n%s", rep, diff)
		}
	})
}

// The cheapest goes first, also where the first item was long in coming: a store
// was slow, or much was done already.
func TestCheapestAfterASlowStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(func(yield func(batch.Item) bool) {
			time.Sleep(2 * time.Second)
			for i := range 200 {
				if !yield(batch.Item{ID: fmt.Sprintf("item-%03d", i), Input: make([]byte, 1000-i)}) {
					return
				}
			}
		}, nil)
		if e.calls[0] != "item-199" {
			t.Errorf("%s went first", e.calls[0])
		}
	})
	// But it is not waited for: who comes first goes alone after a second.
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		begin := time.Now()
		var first time.Duration
		e.run(slowly(10*time.Second, batch.Item{ID: "a", Input: []byte("long")}, batch.Item{ID: "b"}), func(context.Context, batch.Item) ([]byte, error) {
			if len(e.calls) == 1 {
				first = time.Since(begin)
			}
			return []byte("fine"), nil
		})
		if e.calls[0] != "a" || first < 11*time.Second || first > 12*time.Second {
			t.Errorf("%v, the first after %v", e.calls, first)
		}
	})
}

// While no probe succeeds the others wait: none of them stands in the queue of a
// pacer and is the breaker's next probe unasked, or brings home its refusal.
func TestProbesUntilOneSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Hold, e.cfg.Workers = time.Hour, 16
		f := &fuse{after: 5, cooldown: 2 * time.Second}
		begin, most, now := time.Now(), 0, 0
		down := func() bool { return time.Since(begin) < 4*time.Minute }
		rep, err := e.run(items(40), func(ctx context.Context, it batch.Item) ([]byte, error) {
			e.mu.Lock()
			if now++; down() {
				most = max(most, now)
			}
			e.mu.Unlock()
			time.Sleep(time.Second) // in the queue of a pacer
			err := f.do(ctx, it.ID, func() error {
				if down() {
					return statusError(503)
				}
				return nil
			})
			e.mu.Lock()
			now--
			e.mu.Unlock()
			return []byte("fine"), err
		})
		if rep.Exit != 0 || rep.Done != 40 || most != 1 {
			t.Errorf("%d at once during the outage: %v, %v", most, rep, err)
		}
	})
	// Without a breaker nobody says when an outage is over: the letters get the
	// items before they fill the memory.
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Patience = -1
		read := 0
		rep, err := e.run(func(yield func(batch.Item) bool) {
			for it := range items(2000) {
				if read++; !yield(it) {
					return
				}
				if n := e.letters.Stats().Dead; read > int(n)+520 {
					t.Errorf("%d items were read with %d letters", read, n)
					return
				}
			}
		}, func(context.Context, batch.Item) ([]byte, error) { return nil, statusError(503) })
		if rep.Exit != batch.ExitDead || rep.Dead != 2000 || rep.Calls != 2256 {
			t.Errorf("%v, %v", rep, err)
		}
	})
}
