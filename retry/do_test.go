package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/retry"
)

var errUpstream = errors.New("upstream is unwell")

// statusErr is an SDK's error.
type statusErr int

func (s statusErr) Error() string   { return fmt.Sprintf("status %d", int(s)) }
func (s statusErr) StatusCode() int { return int(s) }

func TestDoReturnsTheValueOfTheLastCall(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{}))
	n := 0
	v, err := retry.Do(t.Context(), r, func(context.Context) (string, error) {
		if n++; n < 3 {
			return "half", errUpstream
		}
		return "whole", nil
	})
	equal(t, "value", v, "whole")
	noError(t, err)
	s := r.Stats()
	equal(t, "calls", []uint64{s.Items, s.Done, s.Failed, s.Calls, s.Retries}, []uint64{1, 1, 0, 3, 2})
}

// The property behind every story of a lost night: no failure looks like a
// success.
func TestErrIsNilIfAndOnlyIfTheLastCallSucceeded(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	errs := []error{
		nil, errUpstream, statusErr(503), statusErr(400), statusErr(429), io.EOF, retry.Stop(errUpstream),
		retry.After(0, errUpstream), retry.After(time.Hour, errUpstream), refusal{}, context.Canceled, retry.After(0, nil),
	}
	for range 3000 {
		r := mustNew(t, noWait(retry.Config{Attempts: 1 + rnd.IntN(4)}))
		var last error
		calls := 0
		v, err := retry.Do(t.Context(), r, func(context.Context) (int, error) {
			calls++
			last = errs[rnd.IntN(len(errs))]
			return calls, last
		})
		if (err == nil) != (last == nil) {
			t.Fatalf("err = %v, the last call's = %v", err, last)
		}
		if err == nil && v != calls || err != nil && v != 0 {
			t.Fatalf("value = %d after %d calls with %v", v, calls, err)
		}
		if err != nil {
			e := asError(t, err)
			if !errors.Is(err, last) && e.Last != last {
				t.Fatalf("%v does not contain the last error %v", err, last)
			}
			if e.Cause == nil {
				t.Fatalf("%v has no cause", err)
			}
		}
		if s := r.Stats(); s.Items != 1 || s.Done+s.Failed+s.Refused != 1 || s.Working != 0 {
			t.Fatalf("stats = %v", r)
		}
	}
}

// refusal is a guard's no.
type refusal struct{ wake chan struct{} }

func (refusal) Error() string     { return "breaker is open" }
func (refusal) RefusedBy() string { return "breaker" }
func (refusal) NotSent() bool     { return true }
func (refusal) Retryable() bool   { return false }
func (r refusal) Await(ctx context.Context) error {
	if r.wake == nil {
		return errors.New("no use")
	}
	select {
	case <-r.wake:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// T77 googleapis/google-api-go-client#389: the zero value is bounded.
func TestTheZeroConfigMakesFourCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w waits
		r := mustNew(t, retry.Config{OnWait: w.add})
		n := 0
		err := r.Do(t.Context(), func(context.Context) error { n++; return errUpstream })
		e := asError(t, err)
		equal(t, "calls", []int{n, e.Calls, e.Attempts()}, []int{4, 4, 4})
		if !errors.Is(err, retry.ErrExhausted) || !errors.Is(err, errUpstream) {
			t.Errorf("error %v has not both cause and last", err)
		}
		for i, d := range w.delays() {
			if top := 1500 * time.Millisecond << i; d < 0 || d > top {
				t.Errorf("wait %d = %v, want at most %v", i, d, top)
			}
		}
	})
}

// T73 agenda/agenda#1748: the cap is final.
func TestWaitsStayWithinTheirBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const base, top = 100 * time.Millisecond, 7 * time.Second
		n := 0
		sum := time.Duration(0)
		over := 0
		r := mustNew(t, retry.Config{Attempts: 100_001, Base: base, Max: top, OnWait: func(w retry.Wait) {
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
		equal(t, "waits", n, 100_000)
		equal(t, "time", time.Since(start), sum)
		if over < 49_000 || over > 51_000 {
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

// T47 avast/retry-go#110: the stop marker ends any mode.
func TestStopEndsAtOnce(t *testing.T) {
	t.Parallel()
	for name, classify := range map[string]func() retry.Config{
		"many attempts": func() retry.Config { return retry.Config{Attempts: 1 << 30} },
	} {
		r := mustNew(t, classify())
		n := 0
		err := r.Do(t.Context(), func(context.Context) error {
			n++
			return fmt.Errorf("page 3: %w", retry.Stop(errUpstream))
		})
		equal(t, name+": calls", n, 1)
		if !errors.Is(err, errUpstream) || !errors.Is(err, retry.ErrFinal) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if retry.Stop(nil) != nil {
		t.Error("Stop(nil) is not nil")
	}
}

func TestAfterIsAFloor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, retry.Config{})
		start := time.Now()
		n := 0
		err := r.Do(t.Context(), func(context.Context) error {
			if n++; n == 1 {
				return retry.After(30*time.Second, errUpstream)
			}
			return nil
		})
		noError(t, err)
		if d := time.Since(start); d < 30*time.Second || d > 31500*time.Millisecond {
			t.Errorf("waited %v, want 30s and up to 1.5s on top", d)
		}
	})
}

// T45 cenkalti/backoff#181: cause and last are found however it ended.
func TestBothCauseAndLastAreFound(t *testing.T) {
	t.Parallel()
	cause := errors.New("the operator said stop")
	for _, tc := range []struct {
		name string
		cfg  retry.Config
		end  time.Duration // when the context is cancelled; 0 = never
		want error
	}{
		{"attempts", retry.Config{Attempts: 2}, 0, retry.ErrExhausted},
		{"elapsed", retry.Config{Attempts: 50, MaxElapsed: time.Minute}, 0, retry.ErrElapsed},
		{"context", retry.Config{Attempts: 50, Base: time.Hour, Max: time.Hour}, time.Second, cause},
		{"context's error", retry.Config{Attempts: 50, Base: time.Hour, Max: time.Hour}, time.Second, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if tc.end > 0 {
					time.AfterFunc(tc.end, func() { cancel(cause) })
				}
				err := mustNew(t, tc.cfg).Do(ctx, func(context.Context) error { return errUpstream })
				if !errors.Is(err, tc.want) || !errors.Is(err, errUpstream) {
					t.Errorf("error %v: want both %v and %v in it", err, tc.want, errUpstream)
				}
			})
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

// R12: the wait is a select with the context.
func TestCancelEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, retry.Config{Base: time.Minute, Max: time.Minute, Rand: func() float64 { return 1 }})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		start := time.Now()
		err := r.Do(ctx, func(context.Context) error { return statusErr(503) })
		equal(t, "time", time.Since(start), 100*time.Millisecond)
		e := asError(t, err)
		equal(t, "status", []int{e.Status, e.StatusCode(), e.Calls}, []int{503, 503, 1})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, statusErr(503)) {
			t.Errorf("error %v", err)
		}
	})
}

func TestACancelledContextSendsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := mustNew(t, retry.Config{})
	err := r.Do(ctx, func(context.Context) error { t.Error("called"); return nil })
	if e := asError(t, err); e.Calls != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// A hook may cancel: the context is looked at again after it.
func TestAHookMayCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := mustNew(t, retry.Config{OnAttempt: func(retry.Attempt) { cancel() }})
	n := 0
	err := r.Do(ctx, func(context.Context) error { n++; return errUpstream })
	equal(t, "calls", n, 1)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
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

func TestStatusesOfSDKErrors(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{400: 1, 401: 1, 404: 1, 408: 4, 409: 1, 425: 4, 429: 4, 500: 4, 501: 1, 503: 4, 505: 1, 511: 1, 520: 4, 529: 4} {
		r := mustNew(t, noWait(retry.Config{}))
		n := 0
		err := r.Do(t.Context(), func(context.Context) error { n++; return fmt.Errorf("sdk: %w", statusErr(status)) })
		equal(t, itoa(status)+": calls", n, want)
		equal(t, itoa(status)+": status", asError(t, err).Status, status)
	}
}

func TestARefusalWithoutHoldEndsTheItemUnsent(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{}))
	n := 0
	err := r.Do(t.Context(), func(context.Context) error { n++; return refusal{} })
	e := asError(t, err)
	equal(t, "calls", []int{n, e.Calls}, []int{1, 0})
	equal(t, "refused by", []string{e.RefusedBy(), call.RefusedBy(err)}, []string{"breaker", "breaker"})
	equal(t, "refused", r.Stats().Refused, 1)
	if e.Last != nil || !errors.Is(err, refusal{}) {
		t.Errorf("error %v: last %v", err, e.Last)
	}
}

func TestARefusalAfterAFailureKeepsTheFailure(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{}))
	n := 0
	err := r.Do(t.Context(), func(context.Context) error {
		if n++; n == 1 {
			return statusErr(503)
		}
		return refusal{}
	})
	e := asError(t, err)
	equal(t, "calls and status", []int{e.Calls, e.Status}, []int{1, 503})
	equal(t, "refused by", e.RefusedBy(), "breaker")
	if !errors.Is(err, statusErr(503)) || !errors.Is(err, refusal{}) {
		t.Errorf("error %v", err)
	}
}

// A client that replaces errors by texts does not hide a refusal.
func TestARefusalBehindATextIsFoundInTheBox(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{}))
	n := 0
	err := r.Do(t.Context(), func(ctx context.Context) error {
		n++
		call.From(ctx).Item.Refuse(refusal{})
		return errors.New("request failed")
	})
	equal(t, "calls", n, 1)
	equal(t, "refused by", asError(t, err).RefusedBy(), "breaker")
}

func TestHoldWaitsForTheRefusalsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{})
		r := mustNew(t, noWait(retry.Config{Hold: time.Hour}))
		time.AfterFunc(10*time.Minute, func() {
			if w := r.Stats().Waiting.Breaker; w != 1 {
				t.Errorf("waiting for the breaker: %d", w)
			}
			close(wake)
		})
		n := 0
		start := time.Now()
		err := r.Do(t.Context(), func(context.Context) error {
			if n++; n == 1 {
				return refusal{wake}
			}
			return nil
		})
		noError(t, err)
		equal(t, "time", time.Since(start), 10*time.Minute)
		s := r.Stats()
		equal(t, "calls, holds, working, waiting", []int64{int64(s.Calls), int64(s.Holds), s.Working, s.Waiting.Breaker}, []int64{1, 1, 0, 0})
	})
}

func TestHoldIsABoundOnEveryClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := mustNew(t, retry.Config{Hold: time.Hour})
		err := r.Do(t.Context(), func(context.Context) error { return refusal{make(chan struct{})} })
		equal(t, "time", time.Since(start), time.Hour)
		equal(t, "refused by", asError(t, err).RefusedBy(), "breaker")
	})
	synctest.Test(t, func(t *testing.T) {
		clk := clock.NewMock()
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			synctest.Wait()
			clk.Add(time.Hour)
		})
		r := mustNew(t, retry.Config{Hold: time.Hour, Clock: clk})
		err := r.Do(t.Context(), func(context.Context) error { return refusal{make(chan struct{})} })
		equal(t, "refused by", asError(t, err).RefusedBy(), "breaker")
	})
}

// The item that was a breaker's probe must not pay for the outage.
func TestAFailureBeforeARefusalIsNotCharged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, noWait(retry.Config{Attempts: 2, Hold: time.Hour}))
		n := 0
		err := r.Do(t.Context(), func(context.Context) error {
			n++
			if n == 21 {
				return nil
			}
			if n%2 == 1 {
				return statusErr(503) // the probe
			}
			wake := make(chan struct{})
			time.AfterFunc(time.Minute, func() { close(wake) })
			return refusal{wake}
		})
		noError(t, err)
		equal(t, "calls", r.Stats().Calls, 11)
	})
}

// refusedUntil offers no waiting of its own, only a time.
type refusedUntil struct{ at time.Time }

func (refusedUntil) Error() string                { return "pacer: full" }
func (refusedUntil) RefusedBy() string            { return "pacer" }
func (r refusedUntil) RetryAt() (time.Time, bool) { return r.at, true }

func TestHoldByRetryAt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := mustNew(t, retry.Config{Hold: time.Hour})
		n := 0
		err := r.Do(t.Context(), func(context.Context) error {
			if n++; n == 1 {
				return refusedUntil{start.Add(20 * time.Minute)}
			}
			return nil
		})
		noError(t, err)
		equal(t, "time", time.Since(start), 20*time.Minute)
		// Too far away: known at once.
		err = r.Do(t.Context(), func(context.Context) error { return refusedUntil{time.Now().Add(2 * time.Hour)} })
		equal(t, "refused by", asError(t, err).RefusedBy(), "pacer")
		equal(t, "time", time.Since(start), 20*time.Minute)
	})
}

// guard is a test's guard.
type guard func(context.Context, func(context.Context) error) error

func (g guard) Do(ctx context.Context, fn func(context.Context) error) error { return g(ctx, fn) }

func TestGuardsStandOutermostFirst(t *testing.T) {
	t.Parallel()
	var order []string
	named := func(s string) retry.Guard {
		return guard(func(ctx context.Context, fn func(context.Context) error) error {
			order = append(order, s)
			return fn(ctx)
		})
	}
	r := mustNew(t, noWait(retry.Config{}))
	n := 0
	v, err := retry.Do(t.Context(), r, func(context.Context) (int, error) {
		order = append(order, "fn")
		if n++; n == 1 {
			return 0, errUpstream
		}
		return 7, nil
	}, named("pace"), named("up"), named("day"))
	noError(t, err)
	equal(t, "value", v, 7)
	one := []string{"pace", "up", "day", "fn"}
	equal(t, "order", order, append(one, one...))
}

func TestAGuardThatDoesNotCallIsNoSuccess(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{}))
	lazy := guard(func(context.Context, func(context.Context) error) error { return nil })
	v, err := retry.Do(t.Context(), r, func(context.Context) (string, error) { return "x", nil }, retry.Guard(lazy))
	if err == nil || v != "" {
		t.Errorf("Do = %q, %v", v, err)
	}
	if err := r.Do(t.Context(), func(context.Context) error { return nil }, nil); err == nil {
		t.Error("a nil guard is taken for one that said yes")
	}
	if _, err := retry.Do(t.Context(), nil, func(context.Context) (string, error) { return "x", nil }); err == nil {
		t.Error("a nil Retrier is taken for one that said yes")
	}
	var none *retry.Retrier
	if err := none.Do(t.Context(), func(context.Context) error { return nil }); err == nil {
		t.Error("a nil Retrier is taken for one that said yes")
	}
}

// T61, R08: only the outermost retries.
func TestANestedDoPassesStraightThrough(t *testing.T) {
	t.Parallel()
	outer, inner := mustNew(t, noWait(retry.Config{Attempts: 3})), mustNew(t, noWait(retry.Config{Attempts: 3}))
	n := 0
	err := outer.Do(t.Context(), func(ctx context.Context) error {
		_, err := retry.Do(ctx, inner, func(ctx context.Context) (int, error) {
			return 0, inner.Do(ctx, func(context.Context) error { n++; return errUpstream })
		})
		return err
	})
	equal(t, "calls", []int{n, asError(t, err).Calls}, []int{3, 3})
	equal(t, "inner items", inner.Stats().Items, 0)
}

func TestWithLimitBoundsCallsWhoeverRetries(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{Attempts: 3}))
	ctx := retry.WithLimit(t.Context(), 4)
	n := 0
	var err error
	for range 3 { // a loop of somebody else
		err = r.Do(ctx, func(context.Context) error { n++; return errUpstream })
	}
	equal(t, "calls", n, 4)
	e := asError(t, err)
	equal(t, "calls of the last", e.Calls, 0)
	if !errors.Is(err, retry.ErrExhausted) {
		t.Errorf("error %v", err)
	}
	// Refused calls are not counted, and an outer limit holds as well.
	ctx = retry.WithLimit(retry.WithLimit(t.Context(), 1), 10)
	for range 5 {
		_ = r.Do(ctx, func(context.Context) error { return refusal{} })
	}
	n = 0
	_ = r.Do(ctx, func(context.Context) error { n++; return errUpstream })
	equal(t, "calls", n, 1)
}

func TestWithOutcome(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{Attempts: 3}))
	ctx, out := retry.WithOutcome(t.Context())
	if out.Ended() || out.Err() != nil || out.Calls() != 0 {
		t.Error("an outcome before the item")
	}
	err := r.Do(ctx, func(context.Context) error { return errUpstream })
	equal(t, "error", out.Err() == err, true)
	equal(t, "calls", out.Calls(), 3)
	equal(t, "ended", out.Ended(), true)
	_ = r.Do(ctx, func(context.Context) error { return nil })
	noError(t, out.Err())
}

func TestAttemptTimeoutOfAFunction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, noWait(retry.Config{AttemptTimeout: time.Second}))
		n := 0
		start := time.Now()
		err := r.Do(t.Context(), func(ctx context.Context) error {
			if n++; n == 3 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		noError(t, err)
		equal(t, "time", time.Since(start), 2*time.Second)
		err = r.Do(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		var to interface{ Timeout() bool }
		if !errors.As(asError(t, err).Last, &to) || errors.Is(err, context.Canceled) {
			t.Errorf("error %v: an own time limit looks like the caller's cancel", err)
		}
	})
}

func TestPanicAndGoexitLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	r := mustNew(t, retry.Config{AttemptTimeout: time.Hour})
	func() {
		defer func() { equal(t, "panic", recover(), any("boom")) }()
		_ = r.Do(t.Context(), func(context.Context) error { panic("boom") })
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Do(t.Context(), func(ctx context.Context) error { exit(); return nil })
	}()
	<-done
	s := r.Stats()
	equal(t, "items, failed, working", []int64{int64(s.Items), int64(s.Failed), s.Working}, []int64{2, 2, 0})
}

func TestAHookThatPanicsLosesNothing(t *testing.T) {
	t.Parallel()
	r := mustNew(t, retry.Config{OnAttempt: func(retry.Attempt) { panic("hook") }})
	func() {
		defer func() { equal(t, "panic", recover(), any("hook")) }()
		_ = r.Do(t.Context(), func(context.Context) error { return errUpstream })
	}()
	s := r.Stats()
	equal(t, "items, calls, failed, working", []int64{int64(s.Items), int64(s.Calls), int64(s.Failed), s.Working}, []int64{1, 1, 1, 0})
}
