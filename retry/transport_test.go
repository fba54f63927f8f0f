package retry_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

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
