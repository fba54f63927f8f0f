package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/retry"
)

// spent refuses until the window ends, or until something in flight settles.
type spent struct {
	until time.Time
	knows bool // nothing in flight: only the window's end helps
}

func (*spent) Error() string                { return "the day's budget is spent" }
func (*spent) RefusedBy() string            { return "budget" }
func (*spent) NotSent() bool                { return true }
func (e *spent) RetryAt() (time.Time, bool) { return e.until, e.knows }
func (e *spent) Await(ctx context.Context) error {
	select {
	case <-time.After(time.Until(e.until)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Hold is for minutes: a window that ends after it is not waited for at all,
// while a settlement in flight may come at any moment and is.
func TestHoldDoesNotWaitForABudgetWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		until time.Duration
		knows bool
		waits time.Duration
		done  bool
	}{
		{"the window ends after Hold", 2 * time.Hour, true, 0, false},
		{"the window ends within Hold", 30 * time.Minute, true, 30 * time.Minute, true},
		{"something in flight may give back", 2 * time.Hour, false, time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := mustNew(t, retry.Config{Hold: time.Hour})
				begin := time.Now()
				refusal := &spent{until: begin.Add(c.until), knows: c.knows}
				err := r.Do(t.Context(), func(context.Context) error {
					if time.Now().Before(refusal.until) {
						return refusal
					}
					return nil
				})
				equal(t, "waited", time.Since(begin), c.waits)
				if c.done != (err == nil) || !c.done && !errors.Is(err, refusal) {
					t.Errorf("err = %v", err)
				}
			})
		})
	}
}
