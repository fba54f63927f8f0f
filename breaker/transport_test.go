package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/internal/call"
)

// The verdicts of the package guide's table, one answer each.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	code := func(status int, code string) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) {
			return answer(status, fmt.Sprintf(`{"error":{"message":"no","type":%q,"code":%q}}`, code, code)), nil
		}
	}
	choice := func(content, finish string) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) {
			return answer(200, fmt.Sprintf(`{"choices":[{"message":{"role":"assistant","content":%q},"finish_reason":%q}]}`, content, finish)), nil
		}
	}
	type counts struct{ Success, Failure, Fatal, Ignored uint64 }
	success, failure, fatal, ignored := counts{Success: 1}, counts{Failure: 1}, counts{Failure: 1, Fatal: 1}, counts{Ignored: 1}
	for name, c := range map[string]struct {
		base func(*http.Request) (*http.Response, error)
		want counts
	}{
		"good":              {choice("fine", "stop"), success},
		"truncated":         {choice("fine but", "length"), ignored},
		"filtered":          {choice("", "content_filter"), ignored},
		"empty":             {choice("", "stop"), failure},
		"overloaded in 200": {code(200, "overloaded_error"), failure},
		"quota in 200":      {code(200, "insufficient_quota"), fatal},
		"304":               {code(304, ""), success},
		"400":               {code(400, "context_length_exceeded"), ignored},
		"401":               {code(401, "invalid_api_key"), fatal},
		"402":               {code(402, ""), fatal},
		"403":               {code(403, ""), failure},
		"404":               {code(404, ""), ignored},
		"408":               {code(408, ""), failure},
		"409":               {code(409, ""), ignored},
		"425":               {code(425, ""), failure},
		"429":               {code(429, "rate_limit_exceeded"), failure},
		"429 quota":         {code(429, "insufficient_quota"), fatal},
		"500":               {code(500, ""), failure},
		"501":               {code(501, ""), ignored},
		"505":               {code(505, ""), ignored},
		"529":               {code(529, "overloaded_error"), failure},
		"dying body":        {func(*http.Request) (*http.Response, error) { return dyingAnswer(), nil }, failure},
		"transport error":   {func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, failure},
		"budget refusal":    {func(*http.Request) (*http.Response, error) { return nil, refusedError{} }, ignored},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBreaker(t, plain(newClock()))
			roundTrip(t, breaker.NewTransport(trip(c.base), b))
			s := b.Stats()
			if diff := cmp.Diff(counts{s.Successes, s.Failures, s.Fatals, s.Ignored}, c.want); diff != "" {
				t.Errorf("counted (-got +want):\n%s", diff)
			}
			if want := c.want.Fatal > 0; (s.State == breaker.Open) != want {
				t.Errorf("state = %v", s.State)
			}
			if s.InFlight != 0 {
				t.Errorf("%d permits are still out", s.InFlight)
			}
		})
	}
}

// refusedError is what a guard further in says.
type refusedError struct{}

func (refusedError) Error() string     { return "budget: used up" }
func (refusedError) RefusedBy() string { return "budget" }
func (refusedError) NotSent() bool     { return true }

// Closing a good answer early is the caller's business.
func TestEarlyCloseIsSuccess(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, plain(newClock()))
	rt := breaker.NewTransport(trip(func(*http.Request) (*http.Response, error) { return answer(200, good), nil }), b)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Stats(); got.InFlight != 1 || got.Successes != 0 {
		t.Errorf("before the end: %d in flight, %d successes; want 1, 0", got.InFlight, got.Successes)
	}
	if resp.Request != req {
		t.Error("resp.Request is not the caller's request")
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if got := b.Stats(); got.InFlight != 0 || got.Successes != 1 {
		t.Errorf("after Close: %d in flight, %d successes; want 0, 1", got.InFlight, got.Successes)
	}
}

// A refused request is not sent, its body is closed once, and the box knows.
func TestRefusedRequest(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, plain(newClock()))
	fail(t, b, 3)
	rt := breaker.NewTransport(trip(func(*http.Request) (*http.Response, error) {
		t.Error("a refused request was sent")
		return nil, errUp
	}), b)
	body := &closer{Reader: strings.NewReader("x")}
	ctx := call.With(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example.com/", body)
	if err != nil {
		t.Fatal(err)
	}
	_, err = rt.RoundTrip(req)
	if call.RefusedBy(err) != "breaker" || !call.NotSent(err) || !errors.Is(err, breaker.ErrOpen) {
		t.Errorf("error %v is not a refusal by a breaker", err)
	}
	if at, ok := call.RetryAt(err); !ok || !at.Equal(start.Add(10*time.Second)) {
		t.Errorf("RetryAt = %v, %v", at, ok)
	}
	var aws interface{ RetryableError() bool }
	if !errors.As(err, &aws) || aws.RetryableError() {
		t.Error("the AWS SDK would retry this refusal")
	}
	if body.closed != 1 {
		t.Errorf("the request's body was closed %d times", body.closed)
	}
	if got := ctx.Item.Refusal(); got != err {
		t.Errorf("the box has the refusal %v", got)
	}

	// An ended context is no call either.
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errUp)
	body.closed = 0
	req, err = http.NewRequestWithContext(ended, http.MethodPost, "https://api.example.com/", body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.RoundTrip(req); !errors.Is(err, errUp) || body.closed != 1 {
		t.Errorf("with an ended context: %v, body closed %d times", err, body.closed)
	}
}

type closer struct {
	io.Reader
	closed int
}

func (c *closer) Close() error { c.closed++; return nil }

// The function form around a client that has the transport asks once, and both
// tell the guards further in that this call is the probe.
func TestFormsNest(t *testing.T) {
	t.Parallel()
	for _, grouped := range []bool{false, true} {
		clk := newClock()
		g := newGroup(t, plain(clk))
		b := g.Get("api.example.com")
		probes := 0
		base := trip(func(req *http.Request) (*http.Response, error) {
			if call.From(req.Context()).Probe {
				probes++
			}
			return answer(200, good), nil
		})
		rt := breaker.NewTransport(base, b)
		if grouped {
			rt = breaker.NewTransport(base, g)
		}

		fail(t, b, 3)
		clk.Add(10 * time.Second)
		err := b.Do(t.Context(), func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://API.example.com/", strings.NewReader("{}"))
			if err != nil {
				return err
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return errors.Join(err, resp.Body.Close())
		})
		if err != nil {
			t.Fatal(err)
		}
		if s := b.Stats(); s.Successes != 1 || s.Admitted != 4 || probes != 1 {
			t.Errorf("group %v: %d successes of %d admitted, %d marked probes; want 1 of 4, 1", grouped, s.Successes, s.Admitted, probes)
		}

		// The transport alone marks its probe as well, and only that.
		if err := b.Trip(t.Context(), "again"); err != nil {
			t.Fatal(err)
		}
		clk.Set(refusal(t, b).Until)
		roundTrip(t, rt)
		roundTrip(t, rt)
		if s := b.Stats(); s.Successes != 3 || probes != 2 {
			t.Errorf("group %v: %d successes, %d marked probes; want 3, 2", grouped, s.Successes, probes)
		}
	}
}

func TestTransportAroundNothing(t *testing.T) {
	t.Parallel()
	var b *breaker.Breaker
	var g *breaker.Group
	for _, rt := range []*breaker.Transport{breaker.NewTransport(nil, b), breaker.NewTransport(nil, g)} {
		if rt.Err() == nil {
			t.Error("Err says nothing about a transport around nothing")
		}
		if _, err := send(t, rt, "https://api.example.com/", "x"); err == nil {
			t.Error("it sends")
		}
	}
	inner := breaker.NewTransport(http.DefaultTransport, newBreaker(t, breaker.Config{}))
	if inner.Err() != nil || inner.Unwrap() != http.DefaultTransport {
		t.Errorf("Err = %v, Unwrap = %v", inner.Err(), inner.Unwrap())
	}
	inner.CloseIdleConnections()
}

// Classify decides, and Auto leaves it to the table.
func TestClassify(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.Classify = func(resp *http.Response, err error) breaker.Outcome {
		switch {
		case resp != nil && resp.StatusCode == 404:
			return breaker.Failure
		case resp != nil && resp.StatusCode == 200:
			return breaker.Fatal // its headers say so, perhaps
		case errors.Is(err, errUp):
			return breaker.Fatal
		}
		return breaker.Auto
	}
	b := newBreaker(t, cfg)
	status := 404
	rt := breaker.NewTransport(trip(func(*http.Request) (*http.Response, error) { return answer(status, "{}"), nil }), b)
	roundTrip(t, rt)
	status = 400
	roundTrip(t, rt)
	if got := b.Stats(); got.Streak != 1 || got.Ignored != 1 {
		t.Errorf("streak %d, ignored %d; want 1, 1", got.Streak, got.Ignored)
	}
	status = 200
	roundTrip(t, rt)
	if got := refusal(t, b); got.Signature == "" || !strings.HasPrefix(got.Reason, "fatal: 200 OK") {
		t.Errorf("refused because of %q, signature %q", got.Reason, got.Signature)
	}
	b = newBreaker(t, cfg)
	if err := b.Do(t.Context(), func(context.Context) error { return errUp }); err != errUp {
		t.Errorf("Do = %v, want fn's own error", err)
	}
	wantState(t, b, breaker.Open)
}

func (laterError) Error() string              { return "not now" }
func (laterError) RetryAt() (time.Time, bool) { return start.Add(time.Minute), true }
