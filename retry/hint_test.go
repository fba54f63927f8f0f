package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/retry"
)

// R06: Gemini's wait stands in the body; a daily quota is tried once more.
func TestGeminiWaitsInTheBody(t *testing.T) {
	t.Parallel()
	body := func(quota string) string {
		return `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"q","details":[` +
			`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"` + quota + `"}]},` +
			`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}`
	}
	synctest.Test(t, func(t *testing.T) {
		sc := newScript(step{status: 429, header: "Content-Type: application/json", body: body("GenerateRequestsPerMinutePerProject")}, good)
		start := time.Now()
		resp, err := retry.NewTransport(sc, mustNew(t, retry.Config{})).RoundTrip(post(t, "http://upstream/", "{}"))
		noError(t, err)
		equal(t, "body", readAll(t, resp), goodBody)
		if d := time.Since(start); d < 34500*time.Millisecond || d > 36*time.Second {
			t.Errorf("waited %v", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := body("GenerateRequestsPerDayPerProject")
		sc := newScript(step{status: 429, header: "Content-Type: application/json", body: b})
		resp, err := retry.NewTransport(sc, mustNew(t, retry.Config{Attempts: 10})).RoundTrip(post(t, "http://upstream/", "{}"))
		noError(t, err)
		equal(t, "status", resp.StatusCode, 429)
		equal(t, "body", readAll(t, resp), b)
		equal(t, "calls", sc.calls(), 2)
	})
}

// R01, R02, R03, R04, R05, T35, T37, T39: every hint form, as a wait.
func TestEveryHintForm(t *testing.T) {
	t.Parallel()
	// The bubble's clock starts at a whole second, so that dates are exact.
	const none = -1
	for i, tc := range []struct {
		name   string
		header func(now time.Time) string
		want   time.Duration // the floor; none = no hint
		final  bool          // longer than MaxHint
	}{
		{"seconds", lines("Retry-After: 30"), 30 * time.Second, false},
		{"seconds in spaces", lines("Retry-After:   7  "), 7 * time.Second, false},
		{"a fraction", lines("Retry-After: 1.5"), 1500 * time.Millisecond, false},
		{"zero", lines("Retry-After: 0"), 0, false},
		{"negative", lines("Retry-After: -5"), none, false},
		{"words", lines("Retry-After: soon"), none, false},
		{"an exponent", lines("Retry-After: 1e3"), none, false},
		{"two lines", lines("Retry-After: 3\nRetry-After: 9"), 9 * time.Second, false},
		{"not a number", lines("Retry-After: NaN"), none, false},
		{"empty", lines("Retry-After: "), none, false},
		{"at the limit", lines("Retry-After: 120"), 2 * time.Minute, false},
		{"above the limit", lines("Retry-After: 121"), 121 * time.Second, true},
		{"a day", lines("Retry-After: 86400"), 24 * time.Hour, true},
		{"the last whole second", lines("Retry-After: 9223372036"), 9223372036 * time.Second, true},
		{"a second more than fits", lines("Retry-After: 9223372037"), 1<<63 - 1, true},
		{"the largest integer", lines("Retry-After: 9223372036854775807"), 1<<63 - 1, true},
		{"20 digits", lines("Retry-After: 99999999999999999999"), 1<<63 - 1, true},
		{"milliseconds", lines("Retry-After-Ms: 1500\nRetry-After: 2"), 1500 * time.Millisecond, false},
		{"milliseconds in fractions", lines("Retry-After-Ms: 1500.5"), 1500500 * time.Microsecond, false},
		{"Azure's milliseconds", lines("X-Ms-Retry-After-Ms: 2500\nRetry-After: 3"), 2500 * time.Millisecond, false},
		{"both milliseconds", lines("Retry-After-Ms: 100\nX-Ms-Retry-After-Ms: 2500"), 100 * time.Millisecond, false},
		{"banana", lines("Retry-After-Ms: banana\nRetry-After: 3"), 3 * time.Second, false},
		{"IMF-fixdate", dated(time.RFC1123, 90*time.Second), 90 * time.Second, false},
		{"RFC 850", dated(time.RFC850, 90*time.Second), 90 * time.Second, false},
		{"asctime", dated(time.ANSIC, 90*time.Second), 90 * time.Second, false},
		{"a date in the past", dated(time.RFC1123, -5*time.Second), 0, false},
		{"a date far ahead", dated(time.RFC1123, 3*time.Hour), 3 * time.Hour, true},
		{"the axis at zero", lines("X-Ratelimit-Remaining-Requests: 5\nX-Ratelimit-Reset-Requests: 1s\nX-Ratelimit-Remaining-Tokens: 0\nX-Ratelimit-Reset-Tokens: 12s"), 12 * time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			now := time.Now()
			h := tc.header(now)
			if d, ok := retry.ParseHint(headers(h), now); ok != (tc.want != none) || ok && d != tc.want {
				t.Errorf("%s: ParseHint = %v, %v", tc.name, d, ok)
			}
			status := []int{429, 503, 529, 500}[i%4] // a hint counts on every status that is retried
			sc := newScript(failWith(status, h), good)
			r := mustNew(t, retry.Config{})
			resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
			took := time.Since(now)
			if tc.final {
				e := asError(t, err)
				equal(t, tc.name+": calls", sc.calls(), 1)
				equal(t, tc.name+": time", took, 0)
				if !errors.Is(err, retry.ErrHint) || !e.NotBefore.Equal(now.Add(tc.want)) || e.Status != status {
					t.Errorf("%s: %v, not before %v", tc.name, err, e.NotBefore)
				}
				return
			}
			noError(t, err)
			_ = resp.Body.Close()
			floor := max(tc.want, 0)
			if took < floor || took > floor+1500*time.Millisecond {
				t.Errorf("%s: waited %v, want [%v, %v]", tc.name, took, floor, floor+1500*time.Millisecond)
			}
		})
	}
}

func lines(h string) func(time.Time) string { return func(time.Time) string { return h } }

func dated(layout string, d time.Duration) func(time.Time) string {
	return func(now time.Time) string {
		s := now.Add(d).UTC().Format(layout)
		return "Retry-After: " + strings.Replace(s, "UTC", "GMT", 1)
	}
}

// A property: never below the hint, whatever the randomness.
func TestNeverBelowTheHint(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var hints []time.Duration
			i := 0
			sc := roundTrip(func(req *http.Request) (*http.Response, error) {
				ms := rnd.IntN(120_000)
				hints = append(hints, time.Duration(ms)*time.Millisecond)
				return respond(req, failWith(503, fmt.Sprintf("Retry-After-Ms: %d", ms)), func() {}), nil
			})
			r := mustNew(t, retry.Config{Attempts: 8, Rand: rnd.Float64, OnWait: func(w retry.Wait) {
				top := hints[i] + min(30*time.Second, 1500*time.Millisecond<<i)
				if w.Delay < hints[i] || w.Delay > top {
					t.Errorf("hint %v, wait %v, want at most %v", hints[i], w.Delay, top)
				}
				i++
			}})
			_, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
			equal(t, "calls", asError(t, err).Calls, 8)
		})
	}
}

// R04: a hint of 0 for ever grows as the plain backoff would.
func TestAZeroHintIsNoHotLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sc := newScript(failWith(429, "Retry-After: 0"))
		r := mustNew(t, retry.Config{Attempts: 5, Base: time.Second, Rand: func() float64 { return 1 }})
		start := time.Now()
		_, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
		equal(t, "calls", []int{asError(t, err).Calls, sc.calls()}, []int{5, 5})
		equal(t, "time", time.Since(start), 15*time.Second)
	})
}

// T41 envoyproxy/envoy#24316: a hint beyond the time left ends the item now.
func TestAHintBeyondTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		sc := newScript(failWith(503, "Retry-After: 100"))
		start := time.Now()
		_, err := retry.NewTransport(sc, mustNew(t, retry.Config{})).RoundTrip(post(t, "http://upstream/", "{}").WithContext(ctx))
		equal(t, "time", time.Since(start), 0)
		e := asError(t, err)
		equal(t, "status", e.Status, 503)
		if !errors.Is(err, retry.ErrHint) || !e.NotBefore.Equal(start.Add(100*time.Second)) {
			t.Errorf("error %v", err)
		}
	})
}

// R14: one hint for 32 workers, many instants, none too early; a seed repeats
// the run.
func TestWorkersWithOneHintSpread(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T) map[time.Duration]int {
		at := make(map[time.Duration]int)
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			start := time.Now()
			sc := roundTrip(func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				if time.Since(start) == 0 {
					return respond(req, failWith(429, "Retry-After: 10"), func() {}), nil
				}
				at[time.Since(start)]++
				return respond(req, good, func() {}), nil
			})
			r := mustNew(t, retry.Config{Rand: rand.New(rand.NewPCG(8, 9)).Float64})
			rt := retry.NewTransport(sc, r)
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					resp, err := rt.RoundTrip(post(t, "http://upstream/", "{}"))
					noError(t, err)
					_ = resp.Body.Close()
				})
			}
			wg.Wait()
		})
		return at
	}
	at := run(t)
	for d := range at {
		if d < 10*time.Second {
			t.Errorf("a second call after %v", d)
		}
	}
	if len(at) < 24 {
		t.Errorf("%d distinct instants, want at least 24", len(at))
	}
	equal(t, "instants of the second run", run(t), at)
}
