package budget_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nightfuse/nightfuse/budget"
)

// broken is a store that answers nothing.
type broken struct{}

func (broken) Apply(context.Context, []*budget.Change) error { return errors.New("no store") }

func (broken) Load(context.Context, []string) ([]int64, error) {
	return nil, errors.New("no store")
}

// What is granted while the store fails is bounded also while others are busy
// telling the store of it, again and again in vain.
func TestLocalIsABoundForAll(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 10_000, Store: broken{}, OnStoreError: budget.Local(100)})
	var granted atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 20 {
				if _, err := b.Reserve(t.Context(), "", 10); err == nil {
					granted.Add(10)
				}
			}
		})
	}
	wg.Wait()
	equal(t, "granted", granted.Load(), int64(100))
}
