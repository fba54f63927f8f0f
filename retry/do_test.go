package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/retry"
)

var errUpstream = errors.New("upstream is unwell")

// statusErr is an SDK's error.
type statusErr int

func (s statusErr) Error() string { return fmt.Sprintf("status %d", int(s)) }

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
		retry.After(0, errUpstream), retry.After(time.Hour, errUpstream),
		refusal{},
		context.Canceled, retry.After(0, nil),
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
