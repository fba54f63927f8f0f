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
