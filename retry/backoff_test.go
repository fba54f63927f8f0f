package retry_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/nightfuse/nightfuse/retry"
)

// T73 agenda/agenda#1748: the cap is final.
func TestWaitsStayWithinTheirBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const base, top = 100 * time.Millisecond, 7 * time.Second
		n := 0
		sum := time.Duration(0)
		over := 0
		r := mustNew(t, retry.Config{Attempts: 20_001, Base: base, Max: top, OnWait: func(w retry.Wait) {
			n++
			ceil := top
			if n < 10 {
				ceil = min(ceil, base<<(n-1))
			}
			if w.Delay < 0 || w.Delay > ceil {
				t.Errorf("wait %d = %v, want within [0, %v]", n, w.Delay, ceil)
			}
			if w.Delay > top/2 {
				over++
			}
			sum += w.Delay
		}})
		start := time.Now()
		_ = r.Do(t.Context(), func(context.Context) error { return errUpstream })
		equal(t, "waits", n, 20_000)
		equal(t, "time", time.Since(start), sum)
		if over < 9_600 || over > 10_400 {
			t.Errorf("%d of %d waits are above half the cap: this is no full jitter", over, n)
		}
	})
}

func TestFoolishRandomnessBreaksNoBound(t *testing.T) {
	t.Parallel()
	for _, u := range []float64{-1, 2, 1e300} {
		synctest.Test(t, func(t *testing.T) {
			var w waits
			r := mustNew(t, retry.Config{Rand: func() float64 { return u }, OnWait: w.add})
			_ = r.Do(t.Context(), func(context.Context) error { return errUpstream })
			for i, d := range w.delays() {
				if d < 0 || d > 1500*time.Millisecond<<i {
					t.Errorf("Rand = %v: wait %d = %v", u, i, d)
				}
			}
		})
	}
}

// T75 cenkalti/backoff#188: MaxElapsed counts from the first failure.
func TestALongFirstCallKeepsItsRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, retry.Config{MaxElapsed: 5 * time.Minute})
		n := 0
		err := r.Do(t.Context(), func(context.Context) error {
			if n++; n == 1 {
				time.Sleep(10 * time.Minute)
				return errUpstream
			}
			return nil
		})
		equal(t, "calls", n, 2)
		noError(t, err)
	})
}

func TestMaxElapsedIsAnUpperBound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			r := mustNew(t, retry.Config{Attempts: 1000, MaxElapsed: time.Minute, Rand: rnd.Float64})
			start := time.Now()
			err := r.Do(t.Context(), func(context.Context) error { return errUpstream })
			if !errors.Is(err, retry.ErrElapsed) {
				t.Errorf("error %v", err)
			}
			if d := time.Since(start); d > time.Minute {
				t.Errorf("took %v", d)
			}
		})
	}
}

// OnWait comes when the timer exists, so a mock clock can be advanced from it.
func TestAMockClockIsAdvancedFromOnWait(t *testing.T) {
	t.Parallel()
	clk := clock.NewMock() // it starts at 1970, which is a time like any other
	r := mustNew(t, retry.Config{Clock: clk, OnWait: func(w retry.Wait) { clk.Add(w.Delay) }})
	n := 0
	err := r.Do(t.Context(), func(context.Context) error {
		if n++; n < 4 {
			return retry.After(time.Minute, errUpstream)
		}
		return nil
	})
	noError(t, err)
	if d := clk.Now().Sub(time.Unix(0, 0)); d < 3*time.Minute || d > 4*time.Minute {
		t.Errorf("the clock moved by %v", d)
	}
}

// A real deadline beside a mock clock says nothing about that clock, both ways
// round; a deadline of the clock does.
func TestDeadlinesOfAnotherClockAreNotCompared(t *testing.T) {
	t.Parallel()
	for _, at := range map[string]time.Time{"behind": time.Unix(0, 0), "ahead": time.Now().AddDate(50, 0, 0)} {
		clk := clock.NewMock()
		clk.Set(at)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r := mustNew(t, retry.Config{Clock: clk, OnWait: func(w retry.Wait) { clk.Add(w.Delay) }})
		n := 0
		err := r.Do(ctx, func(context.Context) error {
			if n++; n == 1 {
				return retry.After(time.Minute, errUpstream)
			}
			return nil
		})
		noError(t, err)
	}
	clk := clock.NewMock()
	ctx, cancel := clk.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r := mustNew(t, retry.Config{Clock: clk})
	err := r.Do(ctx, func(context.Context) error { return retry.After(time.Minute, statusErr(503)) })
	e := asError(t, err)
	equal(t, "status", e.Status, 503)
	if at, ok := e.RetryAt(); !ok || !at.Equal(time.Unix(60, 0)) || !errors.Is(err, retry.ErrHint) {
		t.Errorf("error %v, retry at %v", err, at)
	}
}

func TestAWaitBeyondTheDeadlineEndsNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := mustNew(t, retry.Config{Base: time.Minute, Max: time.Minute, Rand: func() float64 { return .5 }})
		start := time.Now()
		err := r.Do(ctx, func(context.Context) error { return errUpstream })
		equal(t, "time", time.Since(start), 0)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errUpstream) {
			t.Errorf("error %v", err)
		}
	})
}
