package budget_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, budget.Config{Limit: 1000, Headroom: -1})
		r := mustReserve(t, b, "", 600)
		r2 := mustReserve(t, b, "", 400)
		e := mustRefuse(t, b, "", 500, budget.ErrExhausted)
		equal(t, "outstanding", e.Outstanding, 2)
		if _, ok := e.RetryAt(); ok {
			t.Error("a time to retry although reservations are open")
		}
		var woken atomic.Int32
		for range 3 {
			go func() {
				if err := e.Await(t.Context()); err == nil {
					woken.Add(1)
				}
			}()
		}
		synctest.Wait()
		equal(t, "woken early", woken.Load(), int32(0))
		_ = r.Cancel(t.Context())
		synctest.Wait()
		equal(t, "woken by the settlement", woken.Load(), int32(3))
		if err := e.Await(t.Context()); err != nil { // what has lifted stays so
			t.Error(err)
		}

		// Nothing open: the window's end is the time, and the clock wakes.
		_ = r2.Reconcile(t.Context(), 1000)
		e = mustRefuse(t, b, "", 1, budget.ErrExhausted)
		at, ok := e.RetryAt()
		start := time.Now()
		if err := e.Await(t.Context()); err != nil || !ok || !time.Now().Equal(at) || time.Since(start) == 0 {
			t.Errorf("Await ended at %v with %v, want %v", time.Now(), err, at)
		}
		mustReserve(t, b, "", 1000)
	})
}

// An operator's correction wakes as well, and so does the caller's context.
func TestAwaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, budget.Config{Limit: 1000, Headroom: -1})
		_ = mustReserve(t, b, "", 1000).Reconcile(t.Context(), 1000)
		e := mustRefuse(t, b, "", 10, budget.ErrExhausted)
		done := make(chan error, 1)
		go func() { done <- e.Await(t.Context()) }()
		synctest.Wait()
		if err := b.Adjust(t.Context(), "", -10); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		mustReserve(t, b, "", 10)

		e = mustRefuse(t, b, "", 10, budget.ErrExhausted)
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if err := e.Await(ctx); err != gone {
			t.Errorf("Await = %v, want the context's cause", err)
		}
	})
}

// The text is for a morning's log: until when and why, in one line.
func TestRefusalTexts(t *testing.T) {
	t.Parallel()
	s := &shaky{Store: budget.NewMemory()}
	b := mustNew(t, budget.Config{Name: "day", Limit: 1000, Store: s, Clock: mockAt(noon), Owners: []budget.Owner{{Name: "a", Limit: 500}, {Name: "b"}}})
	r := mustReserve(t, b, "a", 450)
	texts := []string{mustRefuse(t, b, "a", 100, budget.ErrExhausted).Error()}
	_ = r.Reconcile(t.Context(), 450)
	_ = mustReserve(t, b, "b", 400).Reconcile(t.Context(), 400)
	texts = append(texts,
		mustRefuse(t, b, "b", 100, budget.ErrExhausted).Error(),
		mustRefuse(t, b, "a", 501, budget.ErrTooLarge).Error(),
		mustRefuse(t, b, "a", 0, budget.ErrEstimate).Error(),
		mustRefuse(t, b, "", 5, budget.ErrUnknownOwner).Error())
	s.fail(1)
	texts = append(texts, mustRefuse(t, b, "a", 1, budget.ErrStore).Error())
	equal(t, "texts", texts, []string{
		"budget: day: owner a: refused until one of 1 open reservations is settled: 450 of 500 of the owner's own are spent in 2026-05-04, 100 more asked for: exhausted",
		"budget: day: owner b: refused until 2026-05-05T00:00:00Z: 850 of 850 are spent in 2026-05-04, 100 more asked for: exhausted",
		"budget: day: owner a: asked for 501 of 500: the estimate exceeds the cap",
		"budget: day: owner a: asked for 0: the estimate or amount must be above 0 and at most 1<<53 (see WithEstimate)",
		"budget: day: \"\": unknown owner (see WithOwner)",
		"budget: day: owner a: refused until 2026-05-04T12:00:01Z: the store failed: connection refused",
	})
}

// What others have open does not help an owner whose own ceiling is reached.
func TestOutstandingOfTheOwner(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 1000, Clock: mockAt(noon), Owners: []budget.Owner{{Name: "a", Limit: 100}, {Name: "b"}}})
	_ = mustReserve(t, b, "a", 100).Reconcile(t.Context(), 100)
	mustReserve(t, b, "b", 500)
	e := mustRefuse(t, b, "a", 1, budget.ErrExhausted)
	at, ok := e.RetryAt()
	if e.Outstanding != 0 || !ok || !at.Equal(noon.Add(12*time.Hour)) {
		t.Errorf("%d outstanding, retry at %v, %v", e.Outstanding, at, ok)
	}
	e = mustRefuse(t, b, "b", 300, budget.ErrExhausted)
	equal(t, "outstanding of the pool", e.Outstanding, 1)
}
