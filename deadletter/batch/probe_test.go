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

// The cheapest of the first goes first, alone, and then all go.
func TestFirstGoesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		most, now := 0, 0
		rep, _ := e.run(list(
			batch.Item{ID: "long", Input: make([]byte, 900)}, batch.Item{ID: "short", Input: make([]byte, 9)},
			batch.Item{ID: "said", Input: make([]byte, 900), Estimate: 3}, batch.Item{ID: "other", Input: make([]byte, 90)},
		), func(context.Context, batch.Item) ([]byte, error) {
			e.mu.Lock()
			if now++; len(e.calls) == 1 {
				most = now
			}
			most = max(most, now)
			e.mu.Unlock()
			time.Sleep(time.Second)
			e.mu.Lock()
			defer e.mu.Unlock()
			if now--; len(e.calls) == 1 && now != 0 {
				t.Error("somebody went beside the first")
			}
			return []byte("fine"), nil
		})
		if e.calls[0] != "said" || most != 3 || rep.Seconds != 2 {
			t.Errorf("order %v, %d at once, %v s; want said alone, then three", e.calls, most, rep.Seconds)
		}
	})
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

// A probe that fails because of itself is dead at once. What may be the upstream's
// fault costs a second try, since another item is the next probe.
func TestProbesThatFail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		statuses []int
		calls    int
	}{
		{[]int{400, 404, 409, 410, 413, 414, 418, 422, 431, 451, 499, 501, 505}, 3},
		{[]int{408, 425, 429, 500, 502, 503, 529}, 4},
	} {
		for _, status := range tt.statuses {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.cfg.Workers = 1
				rep, _ := e.run(items(3), func(_ context.Context, it batch.Item) ([]byte, error) {
					if it.ID == "item-000" {
						return nil, statusError(status)
					}
					return []byte("fine"), nil
				})
				if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 3, Done: 2, Dead: 1, Calls: tt.calls}); diff != "" {
					t.Errorf("%d (-got +want):\n%s", status, diff)
				}
			})
		}
	}
}
