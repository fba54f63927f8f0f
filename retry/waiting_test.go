package retry_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/retry"
)

// waitHeld waits as a pacer does.
func waitHeld(ctx context.Context, d time.Duration) {
	a := call.From(ctx).Attempt
	a.Hold()
	defer a.Go()
	time.Sleep(d)
}

// The attempt's limit is for a call that is under way. What a guard keeps it
// waiting for is not counted, and what was left of the limit is left after it.
func TestWaitingInAGuardStopsTheAttemptsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, noWait(retry.Config{AttemptTimeout: 5 * time.Second, Attempts: 2}))
		work := func(ctx context.Context, d time.Duration) error {
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		for _, tc := range []struct {
			before, after time.Duration // a wait of an hour
			calls         uint64
		}{{0, 4 * time.Second, 1}, {2 * time.Second, 2 * time.Second, 1}, {2 * time.Second, 4 * time.Second, 2}} {
			for name, one := range map[string]func(context.Context) error{
				"one": func(ctx context.Context) error { waitHeld(ctx, time.Hour); return nil },
				"nested": func(ctx context.Context) error {
					a := call.From(ctx).Attempt
					a.Hold()
					waitHeld(ctx, time.Hour)
					a.Go()
					return nil
				},
				"request in a function": func(ctx context.Context) error {
					_, b := call.Wire(post(t, "http://upstream/", "{}").WithContext(ctx))
					waitHeld(b, time.Hour)
					return nil
				},
			} {
				before := r.Stats()
				calls := 0
				fn := func(ctx context.Context) error {
					calls++
					if err := work(ctx, tc.before); err != nil {
						return err
					}
					if err := one(ctx); err != nil {
						return err
					}
					return work(ctx, tc.after)
				}
				start := time.Now()
				err := r.Do(t.Context(), fn)
				_, trip := retry.NewTransport(roundTrip(func(req *http.Request) (*http.Response, error) {
					if err := fn(req.Context()); err != nil {
						return nil, err
					}
					return respond(req, good, func() {}), nil
				}), r).RoundTrip(post(t, "http://upstream/", "{}"))
				equal(t, name+": calls", r.Stats().Sub(before).Calls, 2*tc.calls)
				if good := tc.calls == 1; (err == nil) != good || (trip == nil) != good {
					t.Errorf("%s %v: %v, %v after %v", name, tc, err, trip, time.Since(start))
				}
			}
		}
	})
}

// A wait that ends after the answer has come sets no limit for its body.
func TestAWaitThatOutlivesItsAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, retry.Config{AttemptTimeout: 5 * time.Second})
		st := step{status: 200, header: "Content-Type: text/event-stream", body: sse + sseEnd}
		resp, err := retry.NewTransport(roundTrip(func(req *http.Request) (*http.Response, error) {
			go waitHeld(req.Context(), time.Minute)
			synctest.Wait()
			return slowly(st, 20*time.Second)(req)
		}), r).RoundTrip(post(t, "http://upstream/", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "body", readAll(t, resp), st.body)
	})
}

// An error that says that nothing was sent is no timeout of a call.
func TestNotSentIsNoTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, noWait(retry.Config{AttemptTimeout: time.Second}))
		stop := func(ctx context.Context) error { <-ctx.Done(); return call.Stopped(ctx, "a queue") }
		n := 0
		for name, err := range map[string]error{
			"function": r.Do(t.Context(), func(ctx context.Context) error { n++; return stop(ctx) }),
			"transport": func() error {
				_, err := retry.NewTransport(roundTrip(func(req *http.Request) (*http.Response, error) {
					n++
					return nil, stop(req.Context())
				}), r).RoundTrip(post(t, "http://upstream/", "{}"))
				return err
			}(),
		} {
			e := asError(t, err)
			if e.Calls != 0 || !e.NotSent() || !errors.Is(err, retry.ErrExhausted) || !call.NotSent(e.Last) {
				t.Errorf("%s: %v, last %v", name, err, e.Last)
			}
		}
		equal(t, "tries", n, 8)
		equal(t, "calls", r.Stats().Calls, 0)
	})
}

// A test may advance its clock by the Delay that OnWait is told.
func TestTheDelayOfARefusalIsWhatIsKnown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		refusal func(time.Time) error
		want    time.Duration
		done    bool
	}{
		"a time":              {func(now time.Time) error { return refusedUntil{now.Add(20 * time.Minute)} }, 20 * time.Minute, true},
		"a time and an Await": {func(now time.Time) error { return &awaited{refusedUntil{now.Add(20 * time.Minute)}} }, 20 * time.Minute, true},
		"now":                 {func(now time.Time) error { return refusedUntil{now} }, 750 * time.Millisecond, true},
		"no time":             {func(time.Time) error { return refusal{make(chan struct{})} }, time.Hour, false},
		"a time too far away": {func(now time.Time) error { return refusedUntil{now.Add(2 * time.Hour)} }, time.Hour, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			clk := clock.NewMock()
			var w waits
			r := mustNew(t, retry.Config{Hold: time.Hour, Clock: clk, Rand: func() float64 { return 0.5 }, OnWait: func(x retry.Wait) {
				w.add(x)
				clk.Add(x.Delay)
			}})
			n := 0
			err := r.Do(t.Context(), func(context.Context) error {
				if n++; n == 1 {
					return tc.refusal(clk.Now())
				}
				return nil
			})
			equal(t, name+": delays", w.delays(), []time.Duration{tc.want})
			if (err == nil) != tc.done {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// awaited offers a waiting of its own that is over at once.
type awaited struct{ refusedUntil }

func (*awaited) Await(context.Context) error { return nil }
