package retry_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/retry"
)

// R16: every status of 400..599 against a server that then says yes.
func TestEveryStatus(t *testing.T) {
	t.Parallel()
	retried := map[int]bool{408: true, 425: true, 429: true}
	for s := 500; s <= 599; s++ {
		retried[s] = s != 501 && s != 505 && s != 511
	}
	for s := 400; s <= 599; s++ {
		sc := newScript(failWith(s), good)
		r := mustNew(t, noWait(retry.Config{}))
		resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
		if err != nil {
			t.Errorf("%d: %v", s, err)
			continue
		}
		_ = resp.Body.Close()
		wantCalls, wantStatus := 1, s
		if retried[s] {
			wantCalls, wantStatus = 2, 200
		}
		equal(t, itoa(s)+": calls and status", []int{sc.calls(), resp.StatusCode}, []int{wantCalls, wantStatus})
		equal(t, itoa(s)+": bodies open", sc.leaked(), 0)
	}
}

func TestClassesOfFixedStatuses(t *testing.T) {
	t.Parallel()
	for _, s := range []int{100, 204, 301, 304, 400, 501} {
		sc := newScript(step{status: s})
		resp, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
		if err != nil {
			t.Errorf("%d: %v", s, err)
			continue
		}
		_ = resp.Body.Close()
		equal(t, itoa(s)+": calls and status", []int{sc.calls(), resp.StatusCode}, []int{1, s})
	}
}

// R15, T43: status, header, body and counts are there after the last attempt.
func TestTheErrorAfterTheLastAttempt(t *testing.T) {
	t.Parallel()
	srv := serve(t, newScript(step{status: 429, header: "X-Request-Id: req-7\nSet-Cookie: secret=1\nContent-Type: application/json",
		body: `{"error":{"message":"database unavailable","type":"tokens","code":"rate_limit_exceeded"}}`}))
	r := mustNew(t, noWait(retry.Config{Attempts: 3}))
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	resp, err := retry.NewTransport(base, r).RoundTrip(post(t, srv.URL, "{}"))
	if resp != nil || err == nil {
		t.Fatalf("RoundTrip = %v, %v", resp, err)
	}
	e := asError(t, err)
	equal(t, "calls, status", []int{e.Calls, e.Status}, []int{3, 429})
	equal(t, "code", e.Code, "rate_limit_exceeded")
	if !bytes.Contains(e.Body, []byte("rate_limit_exceeded")) {
		t.Errorf("body head %q", e.Body)
	}
	if e.Header.Get("X-Request-Id") != "req-7" || e.Header.Get("Set-Cookie") != "" {
		t.Errorf("header %v", e.Header)
	}
	for _, s := range []string{"429", "3 calls", "database unavailable", "rate_limit_exceeded"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in %q", s, err)
		}
	}
}

func TestALongBodyIsCutWithAMark(t *testing.T) {
	t.Parallel()
	sc := newScript(step{status: 503, header: "Content-Type: text/html", body: "<html>gateway " + strings.Repeat("é", 9000)})
	_, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
	e := asError(t, err)
	equal(t, "head", len(e.Body), 8<<10)
	if s := err.Error(); !strings.Contains(s, "<html>gateway") || !strings.HasSuffix(s, "...") || len(s) > 1000 {
		t.Errorf("text %q", s)
	}
}

// R07, T63: quota and billing codes are final on first sight.
func TestQuotaCodesAreFinal(t *testing.T) {
	t.Parallel()
	body := func(code string, pad int) string {
		return `{"error":{"type":"` + code + `","code":"` + code + `","message":"You exceeded"},"pad":"` + strings.Repeat("x", pad) + `"}`
	}
	for _, tc := range []struct {
		code  string
		pad   int
		calls int
	}{
		{"insufficient_quota", 0, 1},
		{"rate_limit_exceeded", 0, 4},
		{"insufficient_quota", 5 << 20, 1},
		{"rate_limit_exceeded", 5 << 20, 4},
	} {
		b := body(tc.code, tc.pad)
		sc := newScript(step{status: 429, header: "Content-Type: application/json", body: b})
		srv := serve(t, sc)
		r := mustNew(t, noWait(retry.Config{}))
		resp, err := client(t, r).Do(post(t, srv.URL, "{}"))
		equal(t, tc.code+": calls", sc.calls(), tc.calls)
		if tc.calls == 1 {
			noError(t, err)
			if got := readAll(t, resp); got != b {
				t.Errorf("%s: the caller reads %d bytes, want %d", tc.code, len(got), len(b))
			}
			equal(t, "failed", r.Stats().Failed, 1)
			continue
		}
		if e := asError(t, err); e.Code != tc.code {
			t.Errorf("code %q", e.Code)
		}
	}
}

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

// T79 hashicorp/go-retryablehttp#215: Classify reads the body, and so does the
// caller afterwards.
func TestClassifyReadsTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sc := newScript(step{status: 418, body: "wait 7"}, step{status: 418, body: "no use"})
		r := mustNew(t, retry.Config{Classify: func(req *http.Request, resp *http.Response, err error) retry.Decision {
			if req == nil || err != nil || resp == nil {
				t.Errorf("Classify(%v, %v, %v)", req, resp, err)
				return retry.Decision{}
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
			}
			if string(b) == "wait 7" {
				return retry.Decision{Action: retry.Again, Wait: 7 * time.Second}
			}
			return retry.Decision{Action: retry.GiveUp}
		}})
		start := time.Now()
		resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
		noError(t, err)
		equal(t, "body", readAll(t, resp), "no use")
		if d := time.Since(start); d < 7*time.Second {
			t.Errorf("waited %v", d)
		}
		equal(t, "bodies open", sc.leaked(), 0)
	})
}

func TestClassifyMayAcceptOrRefuse(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		act   retry.Action
		step  step
		calls int
		bad   bool
	}{
		{"accept an empty answer", retry.Accept, step{status: 200, body: `{"choices":[]}`}, 1, false},
		{"no acceptance of a 503", retry.Accept, failWith(503), 4, true},
		{"refuse a good one", retry.Again, good, 4, true},
		{"give a good one up", retry.GiveUp, good, 1, true},
	} {
		sc := newScript(tc.step)
		r := mustNew(t, noWait(retry.Config{Classify: func(*http.Request, *http.Response, error) retry.Decision {
			return retry.Decision{Action: tc.act}
		}}))
		resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
		if resp != nil {
			_ = resp.Body.Close()
		}
		equal(t, tc.name+": calls", sc.calls(), tc.calls)
		if (err != nil) != tc.bad {
			t.Errorf("%s: error %v", tc.name, err)
		}
		equal(t, tc.name+": bodies open", sc.leaked(), 0)
	}
}

// R01, R02, R03, R04, R05, T35, T37, T39: every hint form, as a wait.
func TestEveryHintForm(t *testing.T) {
	t.Parallel()
	// The bubble's clock starts at a whole second, so that dates are exact.
	const none = -1
	for _, tc := range []struct {
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
			sc := newScript(failWith(429, h), good)
			r := mustNew(t, retry.Config{})
			resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
			took := time.Since(now)
			if tc.final {
				e := asError(t, err)
				equal(t, tc.name+": calls", sc.calls(), 1)
				equal(t, tc.name+": time", took, 0)
				if !errors.Is(err, retry.ErrHint) || !e.NotBefore.Equal(now.Add(tc.want)) || e.Status != 429 {
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

// R08, T61: our transport twice in one client, and a loop of somebody else.
func TestLayersDoNotMultiply(t *testing.T) {
	t.Parallel()
	sc := newScript(failWith(429))
	srv := serve(t, sc)
	inner, outer := mustNew(t, noWait(retry.Config{})), mustNew(t, noWait(retry.Config{}))
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	c := &http.Client{Transport: retry.NewTransport(retry.NewTransport(base, inner), outer)}
	_, err := c.Do(post(t, srv.URL, "{}"))
	equal(t, "calls", []int{sc.calls(), asError(t, err).Calls}, []int{4, 4})

	// The function form around the client.
	three := mustNew(t, noWait(retry.Config{Attempts: 3}))
	_, err = retry.Do(t.Context(), three, func(ctx context.Context) (string, error) {
		resp, err := c.Do(post(t, srv.URL, "{}").WithContext(ctx))
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		return "", statusErr(resp.StatusCode)
	})
	equal(t, "calls", []int{sc.calls(), asError(t, err).Calls}, []int{7, 3})

	// A hand-made loop of 3: counted, and stopped by the limit.
	loop := func(ctx context.Context) {
		for range 3 {
			resp, err := c.Do(post(t, srv.URL, "{}").WithContext(ctx))
			if err == nil {
				_ = resp.Body.Close()
			}
		}
	}
	before := outer.Stats()
	loop(t.Context())
	equal(t, "counted", outer.Stats().Sub(before).Calls, 12)
	equal(t, "calls", sc.calls(), 19)
	loop(retry.WithLimit(t.Context(), 4))
	equal(t, "calls", sc.calls(), 23)
}

// R09, T53: the same bytes on every attempt, with keep-alive and without it.
func TestBodiesAreSentAgain(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", 1<<18) + "!" // one byte above 4 MiB
	for _, keep := range []bool{true, false} {
		for _, tc := range []struct {
			name  string
			body  func() io.Reader
			want  string
			calls int
		}{
			{"GetBody", func() io.Reader { return strings.NewReader("hello") }, "hello", 4},
			{"unknown length", func() io.Reader { return io.NopCloser(io.LimitReader(strings.NewReader("hello"), 5)) }, "hello", 4},
			{"nil", func() io.Reader { return nil }, "", 4},
			{"too large to keep", func() io.Reader { return io.NopCloser(io.LimitReader(strings.NewReader(big), 1<<30)) }, big, 1},
		} {
			sc := newScript(failWith(503))
			srv := serve(t, sc)
			base := &http.Transport{DisableKeepAlives: !keep}
			r := mustNew(t, noWait(retry.Config{}))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, tc.body())
			if err != nil {
				t.Fatal(err)
			}
			_, err = (&http.Client{Transport: retry.NewTransport(base, r)}).Do(req)
			base.CloseIdleConnections()
			equal(t, fmt.Sprintf("%s, keep-alive %v: calls", tc.name, keep), sc.calls(), tc.calls)
			for _, h := range sc.seen() {
				if h.body != tc.want {
					t.Errorf("%s, keep-alive %v: the server got %d bytes, want %d", tc.name, keep, len(h.body), len(tc.want))
				}
			}
			if tc.calls == 1 && !errors.Is(err, retry.ErrReplay) {
				t.Errorf("%s: error %v does not say that the body cannot be sent again", tc.name, err)
			}
			equal(t, tc.name+": reported", asError(t, err).Calls, tc.calls)
		}
	}
}

// R10, T51: rejected answers are drained and closed before the wait.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	sc := newScript(step{status: 503, body: strings.Repeat("x", 20<<10)})
	srv := serve(t, sc)
	var conns atomic.Int32
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			conns.Add(1)
		}
	}}
	r := mustNew(t, noWait(retry.Config{Attempts: 10}))
	req := post(t, srv.URL, "{}")
	_, err := client(t, r).Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	equal(t, "calls", []int{asError(t, err).Calls, sc.calls()}, []int{10, 10})
	equal(t, "new connections", conns.Load(), 1)
}

// T49 hashicorp/go-retryablehttp#98: a failed item leaves the pool alone.
func TestThePoolIsLeftAlone(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if fails.Load() {
			w.WriteHeader(503)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, goodBody)
	}))
	c := client(t, mustNew(t, noWait(retry.Config{})))
	var conns atomic.Int32
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			conns.Add(1)
		}
	}}
	once := func() {
		req := post(t, srv.URL, "{}")
		resp, err := c.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
		if err == nil {
			readAll(t, resp)
		}
	}
	for range 8 {
		once()
	}
	fails.Store(true)
	once()
	fails.Store(false)
	for range 8 {
		once()
	}
	equal(t, "connections", conns.Load(), 1)
}

// R10: an error body that does not end does not block the retry.
func TestASlowErrorBodyDoesNotBlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			if n++; n == 2 {
				return respond(req, good, func() {}), nil
			}
			resp := respond(req, failWith(503), func() {})
			resp.ContentLength = -1
			resp.Body = &drip{ctx: req.Context(), every: 100 * time.Millisecond}
			return resp, nil
		})
		start := time.Now()
		resp, err := retry.NewTransport(base, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
		noError(t, err)
		_ = resp.Body.Close()
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("held up for %v", d)
		}
	})
}

// drip is a body that gives a byte now and then, as long as its context lives.
type drip struct {
	ctx   context.Context
	every time.Duration
	left  int // bytes until EOF; 0 = none, it never ends
}

func (d *drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(d.every):
		p[0] = ' '
		if d.left == 1 {
			return 1, io.EOF
		}
		if d.left > 1 {
			d.left--
		}
		return 1, nil
	case <-d.ctx.Done():
		return 0, context.Cause(d.ctx)
	}
}

func (d *drip) Close() error { return nil }

const sse = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n"

const sseEnd = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

// R11, T55 failsafe-go/failsafe-go#123: the attempt timeout never cuts a body.
func TestTheAttemptTimeoutNeverCutsABody(t *testing.T) {
	t.Parallel()
	for _, ct := range []string{"text/event-stream", "application/json", "application/octet-stream"} {
		synctest.Test(t, func(t *testing.T) {
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				resp := respond(req, step{status: 200, header: "Content-Type: " + ct}, func() {})
				resp.ContentLength = -1
				resp.Body = &slow{drip{ctx: req.Context(), every: 10 * time.Second}, strings.NewReader(map[bool]string{true: goodBody, false: sse + sseEnd}[ct == "application/json"])}
				return resp, nil
			})
			r := mustNew(t, retry.Config{AttemptTimeout: 5 * time.Second})
			start := time.Now()
			resp, err := retry.NewTransport(base, r).RoundTrip(post(t, "http://upstream/", "{}"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadAll(resp.Body)
			noError(t, err)
			_ = resp.Body.Close()
			if d := time.Since(start); d < time.Minute {
				t.Errorf("%s: the body took %v, which tests nothing", ct, d)
			}
			equal(t, ct+": done", r.Stats().Done, 1)
		})
	}
}

// slow is a body that gives one byte at a time.
type slow struct {
	drip
	r io.Reader
}

func (s *slow) Read(p []byte) (int, error) {
	if n, err := s.drip.Read(p[:1]); err != nil {
		return n, err
	}
	return s.r.Read(p[:1])
}

// R13: the attempt timeout gives every attempt its own time; the client's is
// for all of them, and reported calls are hits.
func TestTimeoutsOfAttemptsAndOfTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hits []time.Duration
		start := time.Now()
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			hits = append(hits, time.Since(start))
			<-req.Context().Done()
			return nil, context.Cause(req.Context())
		})
		r := mustNew(t, noWait(retry.Config{}))
		c := &http.Client{Transport: retry.NewTransport(base, r), Timeout: 150 * time.Millisecond}
		_, err := c.Do(post(t, "http://upstream/", "{}"))
		if err == nil {
			t.Fatal("no error")
		}
		equal(t, "hits", hits, []time.Duration{0})
		equal(t, "reported", r.Stats().Calls, 1)

		start, hits = time.Now(), nil
		r = mustNew(t, noWait(retry.Config{AttemptTimeout: 40 * time.Millisecond, Attempts: 3}))
		c = &http.Client{Transport: retry.NewTransport(base, r), Timeout: time.Minute}
		_, err = c.Do(post(t, "http://upstream/", "{}"))
		equal(t, "hits", hits, []time.Duration{0, 40 * time.Millisecond, 80 * time.Millisecond})
		equal(t, "reported", asError(t, err).Calls, 3)
		var to interface{ Timeout() bool }
		if !errors.Is(err, retry.ErrExhausted) || errors.Is(err, context.Canceled) || !errors.As(asError(t, err).Last, &to) {
			t.Errorf("error %v", err)
		}
	})
}

// A silent stream is ended by IdleTimeout; a slow reader is not.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := func(d *drip) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				resp := respond(req, step{status: 200, header: "Content-Type: text/event-stream"}, func() {})
				resp.ContentLength, d.ctx = -1, req.Context()
				resp.Body = d
				return resp, nil
			})
		}
		r := mustNew(t, retry.Config{IdleTimeout: time.Minute, AttemptTimeout: time.Second})
		resp, err := retry.NewTransport(base(&drip{every: time.Hour}), r).RoundTrip(post(t, "http://upstream/", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = io.ReadAll(resp.Body)
		equal(t, "time", time.Since(start), time.Minute)
		var to interface{ Timeout() bool }
		if !errors.As(err, &to) || !errors.Is(err, retry.ErrBody) {
			t.Errorf("error %v", err)
		}
		_ = resp.Body.Close()

		resp, err = retry.NewTransport(base(&drip{every: 59 * time.Second}), r).RoundTrip(post(t, "http://upstream/", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(time.Hour)
			if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
		}
		_ = resp.Body.Close()
		equal(t, "working", r.Stats().Working, 0)
	})
}

// R17: an error object under 200 counts as what it stands for.
func TestAnErrorUnder200(t *testing.T) {
	t.Parallel()
	bad := func(code string) step {
		return step{status: 200, header: "Content-Type: application/json", body: `{"error":{"code":` + code + `,"message":"upstream said no"}}`}
	}
	sc := newScript(bad("429"), good)
	r := mustNew(t, noWait(retry.Config{}))
	resp, err := client(t, r).Do(post(t, serve(t, sc).URL, "{}"))
	noError(t, err)
	equal(t, "body", readAll(t, resp), goodBody)
	equal(t, "calls", sc.calls(), 2)

	sc = newScript(bad("400"))
	_, err = client(t, r).Do(post(t, serve(t, sc).URL, "{}"))
	e := asError(t, err)
	equal(t, "calls, status", []int{sc.calls(), e.Calls, e.Status}, []int{1, 1, 400})
	if !errors.Is(err, retry.ErrBody) {
		t.Errorf("error %v", err)
	}
}

// R18: an empty answer is a failure, tried once more.
func TestEmptyAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body string
		calls      int
		ok         bool
	}{
		{"choices []", `{"choices":[]}`, 2, false},
		{"no text", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":null}}]}`, 2, false},
		{"white space", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"  \n"}}]}`, 2, false},
		{"a tool call", `{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`, 1, true},
		{"a refusal", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":null,"refusal":"I cannot"}}]}`, 1, false},
		{"truncated", `{"choices":[{"finish_reason":"length","message":{"role":"assistant","content":"It so"}}]}`, 1, false},
		{"a placeholder", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"[No summary]"}}]}`, 2, false},
		{"dots", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"..."}}]}`, 2, false},
		{"an answer that speaks of one", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"Returns null when no summary is there."}}]}`, 1, true},
		{"a class", `{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"none"}}]}`, 1, true},
		{"a good one", goodBody, 1, true},
	} {
		sc := newScript(step{status: 200, header: "Content-Type: application/json", body: tc.body})
		r := mustNew(t, noWait(retry.Config{}))
		resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
		equal(t, tc.name+": calls", sc.calls(), tc.calls)
		if tc.ok {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
				continue
			}
			equal(t, tc.name+": body", readAll(t, resp), tc.body)
			continue
		}
		if resp != nil || !errors.Is(err, retry.ErrBody) {
			t.Errorf("%s: RoundTrip = %v, %v", tc.name, resp, err)
		}
		equal(t, tc.name+": done", r.Stats().Done, 0)
	}
	// Two of three are recovered by the second try.
	sc := newScript(step{status: 200, body: `{"choices":[]}`}, good)
	resp, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
	noError(t, err)
	_ = resp.Body.Close()
}

func TestValidateDecidesInPlaceOfTheRules(t *testing.T) {
	t.Parallel()
	errShort := errors.New("too short")
	for _, tc := range []struct {
		name, body string
		verdict    error
		calls      int
	}{
		{"yes to a truncated one", `{"choices":[{"finish_reason":"length","message":{"content":"It so"}}]}`, nil, 1},
		{"yes to an empty one", `{"choices":[]}`, nil, 1},
		{"no", goodBody, errShort, 2},
		{"stop", goodBody, retry.Stop(errShort), 1},
		{"after", goodBody, retry.After(0, errShort), 4},
	} {
		sc := newScript(step{status: 200, header: "Content-Type: application/json", body: tc.body})
		r := mustNew(t, noWait(retry.Config{Validate: func(resp *http.Response, body []byte) error {
			if string(body) != tc.body || resp.StatusCode != 200 {
				t.Errorf("%s: Validate gets %d %q", tc.name, resp.StatusCode, body)
			}
			return tc.verdict
		}}))
		resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
		equal(t, tc.name+": calls", sc.calls(), tc.calls)
		if tc.verdict == nil {
			noError(t, err)
			equal(t, tc.name+": body", readAll(t, resp), tc.body)
			continue
		}
		if !errors.Is(err, errShort) || !errors.Is(err, retry.ErrBody) {
			t.Errorf("%s: error %v", tc.name, err)
		}
	}
}

// A stream is judged as it passes: a bad one does not end like a good one.
func TestStreamsAreJudgedAsTheyPass(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, body string
		ok         bool
	}{
		{"good", sse + sseEnd, true},
		{"empty", sseEnd, false},
		{"an error event", sse + "data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n", false},
	} {
		sc := newScript(step{status: 200, header: "Content-Type: text/event-stream", body: tc.body})
		r := mustNew(t, noWait(retry.Config{}))
		ctx, out := retry.WithOutcome(t.Context())
		resp, err := client(t, r).Do(post(t, serve(t, sc).URL, "{}").WithContext(ctx))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		equal(t, tc.name+": bytes", string(b), tc.body)
		if (err == nil) != tc.ok || (out.Err() == nil) != tc.ok || !out.Ended() {
			t.Errorf("%s: read error %v, outcome %v", tc.name, err, out.Err())
		}
		s := r.Stats()
		equal(t, tc.name+": items, done, working", []int64{int64(s.Items), int64(s.Done), s.Working}, []int64{1, map[bool]int64{true: 1}[tc.ok], 0})
	}
}

// R19: certificate errors are final.
func TestCertificateErrorsAreFinal(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(newScript(good))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	defer srv.Close()
	var dials atomic.Int32
	base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	defer base.CloseIdleConnections()
	_, err := retry.NewTransport(base, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, srv.URL, "{}"))
	equal(t, "dials", dials.Load(), 1)
	var ce *tls.CertificateVerificationError
	if !errors.As(err, &ce) || !errors.Is(err, retry.ErrFinal) {
		t.Errorf("error %v", err)
	}
}

// R20: a POST on a connection that dies is an attempt like any other, with an
// Idempotency-Key too, which net/http would replay uncounted.
func TestPostOnADyingConnection(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var hits atomic.Int32
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				wg.Go(func() {
					defer conn.Close()
					br := bufio.NewReader(conn)
					for {
						req, err := http.ReadRequest(br)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, req.Body)
						if n := hits.Add(1); n == 2 {
							return // read, and closed without an answer
						}
						_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(goodBody), goodBody)
					}
				})
			}
		})
		r := mustNew(t, noWait(retry.Config{}))
		c := client(t, r)
		for range 2 {
			req := post(t, "http://"+ln.Addr().String(), "{}")
			if key != "" {
				req.Header.Set(key, "k1")
			}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
		}
		equal(t, key+": hits and reported", []int{int(hits.Load()), int(r.Stats().Calls)}, []int{3, 3})
		c.CloseIdleConnections()
		_ = ln.Close()
		wg.Wait()
	}
}

// T59 projectdiscovery/retryablehttp-go#493: redirects are the client's.
func TestRedirectsAreTheClients(t *testing.T) {
	t.Parallel()
	var bodies []string
	var mu sync.Mutex
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		mu.Lock()
		bodies = append(bodies, req.URL.Path+" "+string(b))
		mu.Unlock()
		if req.URL.Path == "/a" {
			http.Redirect(w, req, "/b", http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, goodBody)
	}))
	r := mustNew(t, noWait(retry.Config{}))
	resp, err := client(t, r).Do(post(t, srv.URL+"/a", "hello"))
	noError(t, err)
	readAll(t, resp)
	equal(t, "bodies", bodies, []string{"/a hello", "/b hello"})
	s := r.Stats()
	equal(t, "items, calls, done, working", []int64{int64(s.Items), int64(s.Calls), int64(s.Done), s.Working}, []int64{2, 2, 2, 0})
}

func TestExhaustedModes(t *testing.T) {
	t.Parallel()
	refuse := roundTrip(func(*http.Request) (*http.Response, error) { return nil, refusal{} })
	for _, tc := range []struct {
		name   string
		mode   retry.Exhausted
		sdk    bool
		base   http.RoundTripper
		status int // 0 = an error
	}{
		{"auto", retry.ExhaustedAuto, false, newScript(failWith(503)), 0},
		{"auto, a final answer", retry.ExhaustedAuto, false, newScript(failWith(404)), 404},
		{"auto, an SDK", retry.ExhaustedAuto, true, newScript(failWith(529)), 529},
		{"auto, an SDK and a final answer", retry.ExhaustedAuto, true, newScript(failWith(400)), 400},
		{"auto, an SDK and a refusal", retry.ExhaustedAuto, true, refuse, 503},
		{"auto, an SDK and an empty answer", retry.ExhaustedAuto, true, newScript(step{status: 200, body: `{"choices":[]}`}), 503},
		{"auto, an SDK and a dead connection", retry.ExhaustedAuto, true, newScript(step{err: io.ErrUnexpectedEOF}), 503},
		{"error, an SDK", retry.ExhaustedError, true, newScript(failWith(503)), 0},
		{"error, a refusal", retry.ExhaustedError, false, refuse, 0},
		{"response", retry.ExhaustedResponse, false, newScript(failWith(503)), 503},
		{"response, a refusal", retry.ExhaustedResponse, false, refuse, 503},
	} {
		r := mustNew(t, noWait(retry.Config{Exhausted: tc.mode}))
		req := post(t, "http://upstream/", "{}")
		if tc.sdk {
			req.Header.Set("X-Stainless-Retry-Count", "0")
		}
		resp, err := retry.NewTransport(tc.base, r).RoundTrip(req)
		if tc.status == 0 {
			if resp != nil || err == nil {
				t.Errorf("%s: RoundTrip = %v, %v", tc.name, resp, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		equal(t, tc.name+": status", resp.StatusCode, tc.status)
		equal(t, tc.name+": request", resp.Request == req, true)
		teller, told := resp.Body.(interface{ Err() error })
		stamped := resp.Header.Get("X-Should-Retry") == "false"
		if want := tc.sdk || tc.mode == retry.ExhaustedResponse; told != want || stamped != want {
			t.Errorf("%s: body tells %v, stamped %v, want both %v", tc.name, told, stamped, want)
		}
		if told {
			asError(t, teller.Err())
		}
		if b := readAll(t, resp); b == "" {
			t.Errorf("%s: no body", tc.name)
		}
		equal(t, tc.name+": done", r.Stats().Done, 0)
	}
}

// T81: an SDK's loop around our chain makes one pass when a guard refuses.
func TestAnSDKsLoopMakesOnePass(t *testing.T) {
	t.Parallel()
	passes := 0
	base := roundTrip(func(*http.Request) (*http.Response, error) { passes++; return nil, refusal{} })
	c := &http.Client{Transport: retry.NewTransport(base, mustNew(t, retry.Config{}))}
	var last *http.Response
	for n := range 3 { // retry on error, obey X-Should-Retry
		req := post(t, "http://upstream/", "{}")
		req.Header.Set("X-Stainless-Retry-Count", itoa(n))
		resp, err := c.Do(req)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = resp.Body.Close()
		last = resp
		if resp.Header.Get("X-Should-Retry") == "false" {
			break
		}
	}
	equal(t, "passes", passes, 1)
	equal(t, "status", last.StatusCode, 503)
}

func TestXShouldRetry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		step  step
		calls int
	}{
		{failWith(429, "X-Should-Retry: false"), 1},
		{failWith(400, "X-Should-Retry: true"), 4},
	} {
		sc := newScript(tc.step)
		resp, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
		if err == nil {
			_ = resp.Body.Close()
		}
		equal(t, itoa(tc.step.status)+": calls", sc.calls(), tc.calls)
	}
}

func TestForeignRetriesAreCountedAndReportedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := mustNew(t, noWait(retry.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	rt := retry.NewTransport(newScript(good), r)
	for _, h := range []struct{ k, v string }{
		{"X-Stainless-Retry-Count", "0"}, {"X-Stainless-Retry-Count", "1"}, {"X-Stainless-Retry-Count", "2"},
		{"Amz-Sdk-Request", "attempt=1; max=3"}, {"Amz-Sdk-Request", "ttl=20260101T000000Z; attempt=2; max=3"}, {"Amz-Sdk-Request", "attempt=x"},
	} {
		req := post(t, "http://upstream/", "{}")
		req.Header.Set(h.k, h.v)
		resp, err := rt.RoundTrip(req)
		noError(t, err)
		_ = resp.Body.Close()
	}
	equal(t, "counted", r.Stats().Foreign, 3)
	equal(t, "reported", strings.Count(log.String(), "calls multiply"), 1)
}

// No key of a URL or header is in an error's text.
func TestErrorTextsAreScrubbed(t *testing.T) {
	t.Parallel()
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("Post %q: connection reset, sent Authorization: Bearer sk-abcdefghijklmnopqrstuvwxyz123456", req.URL)
	})
	var log bytes.Buffer
	r := mustNew(t, noWait(retry.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	_, err := retry.NewTransport(base, r).RoundTrip(post(t, "http://upstream/v1?key=AIzaSyA1234567890abcdefghijklmnopqrstuv", "{}"))
	for what, s := range map[string]string{"error": err.Error(), "log": log.String()} {
		for _, secret := range []string{"AIzaSyA", "sk-abcdef"} {
			if strings.Contains(s, secret) {
				t.Errorf("the %s tells a secret: %s", what, s)
			}
		}
	}
}

func TestAWrongChainSendsNothing(t *testing.T) {
	t.Parallel()
	sc := newScript(good)
	rt := retry.NewTransport(sc, nil)
	if rt.Err() == nil {
		t.Error("no error for a nil Retrier")
	}
	body := &closing{Reader: strings.NewReader("x")}
	req := post(t, "http://upstream/", "")
	req.Body = body
	if _, err := rt.RoundTrip(req); err == nil {
		t.Error("a round trip without a Retrier")
	}
	equal(t, "calls, closes", []int{sc.calls(), body.count()}, []int{0, 1})
	if retry.NewTransport(nil, mustNew(t, retry.Config{})).Unwrap() != http.DefaultTransport {
		t.Error("a nil base is not http.DefaultTransport")
	}
}

// R21: the first attempt shares the caller's headers, later ones have copies,
// since the attempt before may still be read.
func TestLaterAttemptsHaveHeadersOfTheirOwn(t *testing.T) {
	t.Parallel()
	req := post(t, "http://upstream/", "{}")
	n := 0
	base := roundTrip(func(out *http.Request) (*http.Response, error) {
		if out == req {
			t.Error("the base gets the caller's request itself")
		}
		if n++; n > 1 {
			out.Header.Set("X-Attempt", itoa(n))
		}
		return respond(out, failWith(503), func() {}), nil
	})
	_, _ = retry.NewTransport(base, mustNew(t, noWait(retry.Config{}))).RoundTrip(req)
	equal(t, "attempts", n, 4)
	equal(t, "the caller's header", req.Header.Get("X-Attempt"), "")
}

// A body that cannot be sent again is closed also where it is not sent at all.
func TestASingleBodyIsClosedUnsent(t *testing.T) {
	t.Parallel()
	sc := newScript(good)
	body := &closing{Reader: strings.NewReader("x")}
	req := post(t, "http://upstream/", "").WithContext(retry.WithLimit(t.Context(), 0))
	req.Body, req.GetBody, req.ContentLength = body, nil, -1
	_, err := retry.NewTransport(sc, mustNew(t, retry.Config{Attempts: 1})).RoundTrip(req)
	equal(t, "calls, reported, closes", []int{sc.calls(), asError(t, err).Calls, body.count()}, []int{0, 0, 1})
}
