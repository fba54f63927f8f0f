package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
)

// sony/gobreaker#105, and cancelled callers that opened a circuit against a
// healthy server.
func TestCallersCancelIsNeutral(t *testing.T) {
	t.Parallel()
	clk := newClock()
	b := newBreaker(t, plain(clk))
	ctx, cancel := context.WithCancel(t.Context())
	fail(t, b, 1)
	var permits []*breaker.Permit
	for range 12 {
		p, err := b.Allow(ctx)
		if err != nil {
			t.Fatal(err)
		}
		permits = append(permits, p)
	}
	cancel()
	// A driver that only mentions the cancel in its text is caught by the context.
	for i, p := range permits {
		switch i % 3 {
		case 0:
			p.Done(breaker.Result{Err: fmt.Errorf("call: %w", context.Canceled)})
		case 1:
			p.Failure(errors.New("pq: canceling statement due to user request"))
		default:
			p.Failure(context.Canceled)
		}
	}
	if got := b.Stats(); got.State != breaker.Closed || got.Streak != 1 || got.Ignored != 12 {
		t.Errorf("after 12 cancels: %v, streak %d, ignored %d; want closed, 1, 12", got.State, got.Streak, got.Ignored)
	}

	fail(t, b, 2)
	clk.Add(10 * time.Second)
	ctx, cancel = context.WithCancel(t.Context())
	p, err := b.Allow(ctx)
	if err != nil || !p.Probe() {
		t.Fatalf("Allow = %v, %v; want a probe", p, err)
	}
	cancel()
	p.Failure(ctx.Err())
	probe(t, b)
}

// A time limit that a layer above sets cancels the context, too, but is an
// upstream that did not answer in time; so is the caller's own deadline.
func TestTimeLimitsAreFailures(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.Threshold = 10
	b := newBreaker(t, cfg)
	end := func(ctx context.Context) error {
		return b.Do(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}
	limited, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Millisecond, func() { cancel(limitError{}) })
	if err := end(limited); !errors.Is(err, limitError{}) {
		t.Errorf("Do = %v", err)
	}
	_ = b.Do(limited, func(context.Context) error { t.Error("called with an ended context"); return nil })
	p := allow(t, b)
	late, err := b.Allow(limited)
	if err != nil {
		t.Fatal(err)
	}
	late.Failure(errors.New("pq: canceling statement due to user request"))
	p.Ignore()
	deadline, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := end(deadline); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Do = %v", err)
	}
	if got := b.Stats(); got.Failures != 3 || got.Ignored != 1 {
		t.Errorf("%d failures, %d ignored; want 3, 1", got.Failures, got.Ignored)
	}
	// Where it ended before the call, nothing was asked.
	if err := end(deadline); !errors.Is(err, context.DeadlineExceeded) || b.Stats().Admitted != 4 {
		t.Errorf("Do with an ended context = %v, %d admitted", err, b.Stats().Admitted)
	}
}

type limitError struct{}

func (limitError) Error() string { return "no answer in time" }
func (limitError) Timeout() bool { return true }
