package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/retry"
)

var _ expvar.Var = (*retry.Retrier)(nil)

func TestCallsPerDone(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{Attempts: 3}))
	if x := r.Stats().CallsPerDone(); !math.IsNaN(x) {
		t.Errorf("before any call: %v", x)
	}
	_ = r.Do(t.Context(), func(context.Context) error { return errUpstream })
	if x := r.Stats().CallsPerDone(); !math.IsInf(x, 1) {
		t.Errorf("nothing done: %v", x)
	}
	before := r.Stats()
	for range 4 {
		n := 0
		_ = r.Do(t.Context(), func(context.Context) error {
			if n++; n == 1 {
				return errUpstream
			}
			return nil
		})
	}
	equal(t, "since", r.Stats().Sub(before).CallsPerDone(), 2)
	equal(t, "in all", r.Stats().CallsPerDone(), 11.0/4)
}

// The window is 15 minutes, also on a clock that starts at 1970 or before it.
func TestTheWindowForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, noWait(retry.Config{Attempts: 2}))
		fail := func() { _ = r.Do(t.Context(), func(context.Context) error { return errUpstream }) }
		fail()
		for range 14 {
			time.Sleep(time.Minute)
			_ = r.Do(t.Context(), func(context.Context) error { return nil })
		}
		w := r.Stats().Recent
		equal(t, "done, failed, calls", []uint64{w.Done, w.Failed, w.Calls}, []uint64{14, 1, 16})
		time.Sleep(time.Minute)
		w = r.Stats().Recent
		equal(t, "done, failed, calls", []uint64{w.Done, w.Failed, w.Calls}, []uint64{14, 0, 14})
		time.Sleep(time.Hour)
		equal(t, "an hour later", r.Stats().Recent, retry.Recent{})
		s := r.Stats()
		equal(t, "in all", []uint64{s.Done, s.Failed, s.Calls}, []uint64{14, 1, 16})
	})
}

func TestQuantilesOfTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, retry.Config{})
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				_ = r.Do(t.Context(), func(context.Context) error {
					time.Sleep(time.Duration(i+1) * 10 * time.Millisecond)
					return nil
				})
			})
		}
		wg.Wait()
		w := r.Stats().Recent
		near := func(what string, got, want time.Duration) {
			if math.Abs(float64(got-want)) > 0.05*float64(want) {
				t.Errorf("%s = %v, want %v within 5 %%", what, got, want)
			}
		}
		near("p50", w.P50, 5*time.Second)
		near("p95", w.P95, 9500*time.Millisecond)
	})
}

func TestGauges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, retry.Config{Hold: time.Hour, Rand: func() float64 { return 1 }})
		wake := make(chan struct{})
		for _, err := range []error{errUpstream, retry.After(time.Minute, errUpstream), refusal{wake}, refusedUntil{time.Now().Add(time.Minute)}, errBudget{}} {
			n := 0
			go func() {
				_ = r.Do(t.Context(), func(context.Context) error {
					if n++; n == 1 {
						return err
					}
					return nil
				})
			}()
		}
		working := make(chan struct{})
		go func() {
			_ = r.Do(t.Context(), func(context.Context) error { <-working; return nil })
		}()
		synctest.Wait()
		s := r.Stats()
		equal(t, "working", s.Working, 1)
		equal(t, "waiting", s.Waiting, retry.Waiting{Backoff: 1, Hint: 1, Pacer: 1, Breaker: 1, Other: 1})
		close(wake)
		close(working)
		time.Sleep(2 * time.Hour)
		s = r.Stats()
		equal(t, "working", s.Working, 0)
		equal(t, "waiting", s.Waiting, retry.Waiting{})
		equal(t, "done", s.Done, 6)
	})
}

// errBudget is a refusal of another kind.
type errBudget struct{}

func (errBudget) Error() string     { return "budget: exhausted" }
func (errBudget) RefusedBy() string { return "budget" }
func (errBudget) Await(ctx context.Context) error {
	select {
	case <-time.After(time.Minute):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestStringIsJSONWithEveryNumber(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{Name: "night \"1\""}))
	_ = r.Do(t.Context(), func(context.Context) error { return errUpstream })
	var got map[string]any
	if err := json.Unmarshal([]byte(r.String()), &got); err != nil {
		t.Fatal(err)
	}
	equal(t, "name", got["name"], any("night \"1\""))
	equal(t, "calls per done of nothing", got["calls_per_done"], any(nil))
	n := 0
	for k, v := range r.Stats().All() {
		n++
		x, ok := got[k]
		if f, isNumber := x.(float64); !ok || isNumber && f != v && k != "recent_p50_seconds" {
			t.Errorf("%s = %v, want %v", k, x, v)
		}
	}
	equal(t, "numbers", len(got), n+1)
	for range r.Stats().All() {
		break // stopping early is allowed
	}
}

func TestHooksAreToldWhatHappens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var as []retry.Attempt
		var ws []retry.Wait
		r := mustNew(t, retry.Config{
			Attempts: 3, Hold: time.Hour, Rand: func() float64 { return 0.5 },
			OnAttempt: func(a retry.Attempt) { as = append(as, a) },
			OnWait:    func(w retry.Wait) { ws = append(ws, w) },
		})
		script := []error{statusErr(503), errBudget{}, retry.After(10*time.Second, errUpstream), nil}
		n := 0
		err := r.Do(t.Context(), func(context.Context) error { n++; return script[n-1] })
		noError(t, err)
		type row struct {
			N         int
			Status    int
			RefusedBy string
			Hint      time.Duration
			Again     bool
		}
		var rows []row
		for _, a := range as {
			rows = append(rows, row{a.N, a.Status, a.RefusedBy, a.Hint, a.Again})
			if (a.Err == nil) != (a.N == 3) {
				t.Errorf("attempt %d: error %v", a.N, a.Err)
			}
		}
		equal(t, "attempts", rows, []row{
			{1, 503, "", 0, true},
			{1, 0, "budget", 0, true},
			{2, 0, "", 10 * time.Second, true},
			{3, 0, "", 0, false},
		})
		type wait struct {
			Calls       int
			Delay, Hint time.Duration
			By          string
		}
		var waits []wait
		for _, w := range ws {
			waits = append(waits, wait{w.Calls, w.Delay, w.Hint, w.By})
		}
		equal(t, "waits", waits, []wait{
			{1, 750 * time.Millisecond, 0, "backoff"},
			{1, time.Hour, 0, "budget"},
			{2, 10*time.Second + 750*time.Millisecond, 10 * time.Second, "hint"},
		})
	})
}

func TestTheLastAttemptTellsWhyNoneFollows(t *testing.T) {
	t.Parallel()
	var last retry.Attempt
	r := mustNew(t, noWait(retry.Config{Attempts: 2, OnAttempt: func(a retry.Attempt) { last = a }}))
	_ = r.Do(t.Context(), func(context.Context) error { return errUpstream })
	if last.Again || !errors.Is(last.Cause, retry.ErrExhausted) || last.N != 2 {
		t.Errorf("the last attempt is told as %+v", last)
	}
}
