package retry_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

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

// A property over random scripts, in every mode: a good answer comes out if and
// only if the last call got one; calls reported are calls made; nothing is left
// open.
func TestWhateverHappensFailuresLookLikeFailures(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(11, 12))
	steps := []step{
		good, good, failWith(400), failWith(429), failWith(500), failWith(503, "Retry-After: 1"), failWith(501), failWith(503, "Retry-After: 3600"),
		{err: io.ErrUnexpectedEOF},
		{err: refusal{}},
		{err: errors.New("odd")},
		{status: 200, header: "Content-Type: application/json", body: `{"choices":[]}`},
		{status: 200, header: "Content-Type: application/json", body: `{"error":{"code":429,"message":"no"}}`},
		{status: 200, header: "Content-Type: application/json", body: `{"choices":[{"finish_reason":"stop","mess`},
		{status: 200, header: "Content-Type: text/event-stream", body: sse + sseEnd},
		{status: 200, header: "Content-Type: text/event-stream", body: sse},
	}
	synctest.Test(t, func(t *testing.T) {
		for range 3000 {
			var script []step
			for range 1 + rnd.IntN(5) {
				script = append(script, steps[rnd.IntN(len(steps))])
			}
			sc := newScript(script...)
			reported := 0
			r := mustNew(t, retry.Config{
				Attempts: 1 + rnd.IntN(5), Exhausted: retry.Exhausted(rnd.IntN(3)),
				OnAttempt: func(a retry.Attempt) { reported = a.N },
			})
			ctx, out := retry.WithOutcome(t.Context())
			req := post(t, "http://upstream/", "{}").WithContext(ctx)
			if rnd.IntN(2) == 0 {
				req.Header.Set("X-Stainless-Retry-Count", "0")
			}
			resp, err := retry.NewTransport(sc, r).RoundTrip(req)
			var body string
			status := 0
			if err == nil {
				var b []byte
				status = resp.StatusCode
				b, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				body = string(b)
			}
			last := script[min(sc.calls(), len(script))-1]
			fine := last.body == goodBody || last.body == sse+sseEnd
			if got := err == nil && status < 400; got != fine || fine && body != last.body {
				t.Fatalf("%+v: got %d %q, %v", script, status, body, err)
			}
			if (out.Err() == nil) != fine || !out.Ended() {
				t.Fatalf("%+v: outcome %v", script, out.Err())
			}
			refused := 0
			for _, st := range script[:min(sc.calls(), len(script))] {
				if st.err == (refusal{}) {
					refused++
				}
			}
			s := r.Stats()
			if want := sc.calls() - refused; int(s.Calls) != want || reported != want || out.Calls() != want {
				t.Fatalf("%+v: %d calls in the stats, %d told, %d in the outcome, want %d", script, s.Calls, reported, out.Calls(), want)
			}
			if s.Done+s.Failed+s.Refused != 1 || s.Working != 0 || sc.leaked() != 0 {
				t.Fatalf("%+v: %v, %d bodies open", script, r, sc.leaked())
			}
		}
	})
}
