package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/retry"
)

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
				resp.Body = &greeting{drip: d, r: strings.NewReader(": hello\n\n")}
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

		// Silent from the begin: nothing was handed on.
		n := 0
		silent := roundTrip(func(req *http.Request) (*http.Response, error) {
			n++
			resp := respond(req, step{status: 200, header: "Content-Type: text/event-stream"}, func() {})
			resp.ContentLength, resp.Body = -1, &drip{ctx: req.Context(), every: time.Hour}
			return resp, nil
		})
		resp, err = retry.NewTransport(silent, r).RoundTrip(post(t, "http://upstream/", "{}"))
		equal(t, "response and calls", []any{resp == nil, n}, []any{true, 4})
		if !errors.As(err, &to) || !errors.Is(err, retry.ErrExhausted) {
			t.Errorf("error %v", err)
		}
	})
}

// greeting is a body that says something before it drips.
type greeting struct {
	*drip
	r *strings.Reader
}

func (g *greeting) Read(p []byte) (int, error) {
	if g.r.Len() > 0 {
		return g.r.Read(p)
	}
	return g.drip.Read(p)
}

// notSent is the error of a call that never left.
type notSent struct{}

func (notSent) Error() string { return "nobody to call" }
func (notSent) NotSent() bool { return true }

// almost takes nearly all of an attempt's time.
func almost(ctx context.Context) error {
	select {
	case <-time.After(attemptLimit - 1):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Each attempt has all of its time, whatever went before it in the item.
func TestEveryAttemptHasAllOfItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, retry.Config{AttemptTimeout: attemptLimit, Base: 2 * attemptLimit, Rand: func() float64 { return 0.9 }})
		n := 0
		noError(t, r.Do(t.Context(), func(ctx context.Context) error {
			if n++; n < 3 {
				return notSent{}
			}
			return almost(ctx)
		}))
		equal(t, "attempts", n, 3)
	})
}

func TestReadingTheRequestsBodyTakesNothingFromTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		body, far := io.Pipe()
		go func() {
			time.Sleep(2 * attemptLimit)
			_ = far.Close()
		}()
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			_ = req.Body.Close()
			if err := almost(req.Context()); err != nil {
				return nil, err
			}
			return respond(req, good, func() {}), nil
		})
		r := mustNew(t, retry.Config{AttemptTimeout: attemptLimit, Attempts: 2})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream/", body)
		noError(t, err)
		resp, err := retry.NewTransport(base, r).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		equal(t, "calls", r.Stats().Calls, 1)
	})
}
