package retry_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/retry"
)

// slowly makes a base whose answers come byte by byte.
func slowly(st step, every time.Duration) roundTrip {
	return func(req *http.Request) (*http.Response, error) {
		resp := respond(req, st, func() {})
		resp.ContentLength = -1
		resp.Body = &slow{drip{ctx: req.Context(), every: every}, strings.NewReader(st.body)}
		return resp, nil
	}
}

// A final 4xx comes back as it came, however slowly: what has come in the time
// for judging is judged, and the rest is handed on.
func TestASlowFinalAnswerIsNotCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, config := range []retry.Config{{}, {IdleTimeout: -1}, {Exhausted: retry.ExhaustedResponse}} {
			bad := step{status: 401, header: "Content-Type: application/json", body: `{"error":{"message":"bad key","code":"invalid_api_key"}}`}
			r := mustNew(t, config)
			start := time.Now()
			resp, err := retry.NewTransport(slowly(bad, 300*time.Millisecond), r).RoundTrip(post(t, "http://upstream/", "{}"))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "status and time", []any{resp.StatusCode, time.Since(start)}, []any{401, 2 * time.Second})
			equal(t, "body", readAll(t, resp), bad.body)
			s := r.Stats()
			equal(t, "calls, failed, working", []int64{int64(s.Calls), int64(s.Failed), s.Working}, []int64{1, 1, 0})
		}
	})
}

// The same for the last answer of an item that wants responses, and for one
// whose body has not begun; a silent rest ends at IdleTimeout.
func TestASilentFinalAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			n++
			return slowly(failWith(503), time.Hour)(req)
		})
		r := mustNew(t, noWait(retry.Config{Attempts: 2, Exhausted: retry.ExhaustedResponse, IdleTimeout: time.Minute}))
		start := time.Now()
		resp, err := retry.NewTransport(base, r).RoundTrip(post(t, "http://upstream/", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "status, calls, time", []any{resp.StatusCode, n, time.Since(start)}, []any{503, 2, 4 * time.Second})
		start = time.Now()
		_, err = io.ReadAll(resp.Body)
		if to := (interface{ Timeout() bool })(nil); err == nil || !asTimeout(err, &to) {
			t.Errorf("reading: %v", err)
		}
		equal(t, "time", time.Since(start), time.Minute)
		_ = resp.Body.Close()

		// A reader that does not read leaves nothing behind: the bubble ends.
		resp, err = retry.NewTransport(slowly(failWith(404), time.Hour), r).RoundTrip(post(t, "http://upstream/", "{}"))
		noError(t, err)
		_ = resp.Body.Close()
	})
}

func asTimeout(err error, to *interface{ Timeout() bool }) bool {
	t, ok := err.(interface{ Timeout() bool })
	*to = t
	return ok
}

// A panic of the base's body reaches whoever waits for the bytes.
func TestABodyThatPanicsWhileItIsJudged(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(){"panic": func() { panic("body") }, "exit": exit} {
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			resp := respond(req, failWith(404), func() {})
			resp.Body = io.NopCloser(readerFunc(func([]byte) (int, error) { read(); return 0, nil }))
			return resp, nil
		})
		func() {
			defer func() {
				if v := recover(); (v == any("body")) != (name == "panic") {
					t.Errorf("%s: panic %v", name, v)
				}
			}()
			resp, err := retry.NewTransport(base, mustNew(t, retry.Config{})).RoundTrip(post(t, "http://upstream/", "{}"))
			noError(t, err)
			if _, err = io.ReadAll(resp.Body); err == nil {
				t.Errorf("%s: the body ends like a good one", name)
			}
		}()
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Text passes as it comes; only JSON is held, also where no type was told.
func TestTextPassesAsItComes(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"Content-Type: text/plain; charset=utf-8", ""} {
		synctest.Test(t, func(t *testing.T) {
			text := strings.Repeat("token ", 10)
			n := 0
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				n++
				return slowly(step{status: 200, header: header, body: text}, 30*time.Second)(req)
			})
			r := mustNew(t, retry.Config{})
			start := time.Now()
			resp, err := retry.NewTransport(base, r).RoundTrip(post(t, "http://upstream/", "{}"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d > 30*time.Second {
				t.Errorf("%q: the first byte came after %v", header, d)
			}
			equal(t, "rest", readAll(t, resp), text[1:])
			equal(t, "calls and done", []int{n, int(r.Stats().Done)}, []int{1, 1})
		})
	}
	sc := newScript(step{status: 200, body: ` {"choices":[]}`}, step{status: 200, body: "\ufeff" + goodBody})
	r := mustNew(t, noWait(retry.Config{}))
	resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "body", readAll(t, resp), "\ufeff"+goodBody)
	equal(t, "calls", sc.calls(), 2)
}
