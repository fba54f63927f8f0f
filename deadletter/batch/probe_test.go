package batch_test

import (
	"context"
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
