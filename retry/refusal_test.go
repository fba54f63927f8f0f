package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/retry"
)

// refusal is a guard's no.
type refusal struct{ wake chan struct{} }

func (refusal) Error() string { return "breaker is open" }

func (refusal) RefusedBy() string { return "breaker" }

func (refusal) NotSent() bool { return true }

func (refusal) Retryable() bool { return false }

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

func (refusedUntil) Error() string { return "pacer: full" }

func (refusedUntil) RefusedBy() string { return "pacer" }

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

// A body that cannot be sent again is gone after a refusal too: no waiting, and
// never an empty body in its place.
func TestHoldAndBodies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		size  int
		calls int // of the base
	}{
		{"kept", 5, 2},
		{"too large to keep", 5 << 20, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			wake := make(chan struct{})
			close(wake)
			want := strings.Repeat("x", tc.size)
			n := 0
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				defer req.Body.Close()
				if n++; n == 1 {
					return nil, refusal{wake}
				}
				b, err := io.ReadAll(req.Body)
				if err != nil || string(b) != want {
					t.Errorf("%s: %d bytes, %v", tc.name, len(b), err)
				}
				return respond(req, good, func() {}), nil
			})
			req := post(t, "http://upstream/", "")
			req.Body, req.GetBody, req.ContentLength = io.NopCloser(strings.NewReader(want)), nil, -1
			resp, err := retry.NewTransport(base, mustNew(t, retry.Config{Attempts: 1, Hold: time.Hour})).RoundTrip(req)
			equal(t, tc.name+": calls", n, tc.calls)
			if err == nil {
				_ = resp.Body.Close()
			} else if asError(t, err).RefusedBy() != "breaker" {
				t.Errorf("%s: %v", tc.name, err)
			}
		})
	}
}
