package breaker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
)

// One third 429 after 50 ms, the rest 200 after 2 s: the breaker stays closed,
// though of any twenty answers in a row the fast ones are refusals.
func TestFastRefusalsDoNotOutvoteSlowSuccesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(t, breaker.Config{})
		var calls atomic.Int32
		night(t, b, 32, 40, func(n int) error {
			calls.Add(1)
			if n%3 == 0 {
				time.Sleep(50 * time.Millisecond)
				return errUp
			}
			time.Sleep(2 * time.Second)
			return nil
		})
		if got := b.Stats(); got.Trips != 0 || calls.Load() != 32*40 {
			t.Errorf("%d trips in %d calls, want none in all", got.Trips, calls.Load())
		}
	})
}

// An upstream that only refuses opens it within Threshold and the calls out.
func TestOnlyRefusalsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, cfg := range []breaker.Config{{}, {RepeatTrip: -1}} {
			b := newBreaker(t, cfg)
			var calls atomic.Int32
			night(t, b, 32, 40, func(n int) error {
				calls.Add(1)
				time.Sleep(time.Duration(40+n%20) * time.Millisecond)
				return fmt.Errorf("refused: %w", errUp)
			})
			if n := calls.Load(); n < 32 || n > 32+31+10 {
				t.Errorf("%d calls went out, want 32 to 73", n)
			}
			wantState(t, b, breaker.Open)
		}
	})
}

// night has workers make calls until each has made its share or is refused.
func night(t *testing.T, b *breaker.Breaker, workers, each int, upstream func(n int) error) {
	turn := make(chan int, 1)
	turn <- 0
	done := make(chan struct{})
	for range workers {
		go func() {
			defer func() { done <- struct{}{} }()
			for range each {
				err := b.Do(t.Context(), func(context.Context) error {
					n := <-turn
					turn <- n + 1
					return upstream(n)
				})
				if errors.Is(err, breaker.ErrOpen) {
					return
				}
			}
		}()
	}
	for range workers {
		<-done
	}
}

// A server's hint lengthens an opening, up to MaxHint.
func TestHints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		header string
		want   time.Duration
	}{
		{"", 10 * time.Second},
		{"5", 10 * time.Second},
		{"120", 2 * time.Minute},
		{"86400", 10 * time.Minute},
		{start.Add(time.Minute).Format(http.TimeFormat), time.Minute},
	} {
		b := newBreaker(t, plain(newClock()))
		rt := breaker.NewTransport(trip(func(*http.Request) (*http.Response, error) {
			resp := answer(429, `{"error":{"code":"rate_limit_exceeded"}}`)
			if c.header != "" {
				resp.Header.Set("Retry-After", c.header)
			}
			return resp, nil
		}), b)
		for range 3 {
			roundTrip(t, rt)
		}
		if got := refusal(t, b).Until.Sub(start); got != c.want {
			t.Errorf("Retry-After %q: open for %v, want %v", c.header, got, c.want)
		}
	}

	// In the function form an error may say it.
	b := newBreaker(t, plain(newClock()))
	for range 3 {
		_ = b.Do(t.Context(), func(context.Context) error { return laterError{} })
	}
	if got := refusal(t, b).Until.Sub(start); got != time.Minute {
		t.Errorf("open for %v, want what RetryAt of the error says", got)
	}
}

type laterError struct{}

// A daily quota with a short hint is a failure at first, and final when it
// comes back; a burst of them is not "back".
func TestDailyQuota(t *testing.T) {
	t.Parallel()
	quota := `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota","details":[` +
		`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"31s"}]}}`
	cfg := breaker.Config{Clock: newClock(), Jitter: -1}
	b := newBreaker(t, cfg)
	rt := breaker.NewTransport(trip(func(*http.Request) (*http.Response, error) { return answer(429, quota), nil }), b)
	var bodies []io.ReadCloser
	for range 3 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.example.com/", bytes.NewReader(nil))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, resp.Body)
	}
	for _, body := range bodies {
		if _, err := io.Copy(io.Discard, body); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.Stats(); got.State != breaker.Closed || got.Failures != 3 {
		t.Fatalf("after a burst: %v, %d failures; want closed, 3", got.State, got.Failures)
	}
	roundTrip(t, rt)
	if got := refusal(t, b); !strings.HasPrefix(got.Reason, "fatal: ") || got.Until.Sub(start) != 31*time.Second {
		t.Errorf("it is open until %v: %s; want 31 s, fatal", got.Until, got.Reason)
	}
}
