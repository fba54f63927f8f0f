package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// sdkError has the fields that SDKs give their errors.
type sdkError struct {
	StatusCode int
	Code       string
	Response   *http.Response
}

func (e *sdkError) Error() string { return fmt.Sprintf("%d %s", e.StatusCode, e.Code) }

// statusText is an error whose text is nothing but its status's.
type statusText int

func (e statusText) Error() string   { return http.StatusText(int(e)) }
func (e statusText) StatusCode() int { return int(e) }

// What an SDK makes of an answer counts in the function form like the answer in
// the transport.
func TestErrorsOfSDKs(t *testing.T) {
	t.Parallel()
	waits := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"300"}}}
	for name, c := range map[string]struct {
		err  error
		want breaker.State // after one call, with a threshold of 2
	}{
		"no credit":              {&sdkError{StatusCode: 429, Code: "insufficient_quota"}, breaker.Open},
		"no credit, wrapped":     {fmt.Errorf("summarise: %w", &sdkError{StatusCode: 400, Code: "billing_error"}), breaker.Open},
		"a bad key":              {&sdkError{StatusCode: 401}, breaker.Open},
		"a rate limit":           {&sdkError{StatusCode: 429, Code: "rate_limit_exceeded", Response: waits}, breaker.Closed},
		"a 400 about the key":    {&sdkError{StatusCode: 400, Code: "api_key_invalid"}, breaker.Open},
		"a text, typed":          {statusText(401), breaker.Open},
		"a text, typed, wrapped": {fmt.Errorf("ask: %w", statusText(402)), breaker.Open},
	} {
		b := newBreaker(t, breaker.Config{Threshold: 2, RepeatTrip: -1})
		if err := b.Do(t.Context(), func(context.Context) error { return c.err }); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
		if got := b.State(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}

	clk := newClock()
	start := clk.Now()
	b := newBreaker(t, breaker.Config{Threshold: 1, Jitter: -1, Clock: clk})
	_ = b.Do(t.Context(), func(context.Context) error { return &sdkError{StatusCode: 429, Response: waits} })
	if got := b.Stats().Until.Sub(start); got != 5*time.Minute {
		t.Errorf("open for %v, the server asked for 5m", got)
	}
	b = newBreaker(t, breaker.Config{Threshold: 1, Jitter: -1, Clock: clk})
	allow(t, b).Failure(&sdkError{StatusCode: 429, Response: waits})
	if got := b.Stats().Until.Sub(start); got != 5*time.Minute {
		t.Errorf("after Failure open for %v, the server asked for 5m", got)
	}
}

// A storm of errors that say no more than "Too Many Requests" is a storm: the
// same words as a proxy's refusal must not make it one.
func TestStatusTextsCount(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 500, 503, 504} {
		for _, err := range []error{
			statusText(status), errors.New(http.StatusText(status)),
			&url.Error{Op: "Post", URL: "https://model.test/", Err: statusText(status)},
		} {
			b := newBreaker(t, breaker.Config{Threshold: 2, RepeatTrip: -1})
			for range 2 {
				_ = b.Do(t.Context(), func(context.Context) error { return err })
			}
			if b.State() != breaker.Open {
				t.Errorf("%T %v: %v", err, err, b.State())
			}
		}
	}
}

// A proxy that wants to know who asks says nothing of the upstream, in whatever
// form it comes.
func TestProxyAuth(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*breaker.Breaker) error{
		"status": func(b *breaker.Breaker) error {
			return b.Do(t.Context(), func(context.Context) error { return &sdkError{StatusCode: 407} })
		},
		"text": func(b *breaker.Breaker) error {
			return b.Do(t.Context(), func(context.Context) error {
				return errors.New(http.StatusText(http.StatusProxyAuthRequired))
			})
		},
		"transport": func(b *breaker.Breaker) error {
			rt := breaker.NewTransport(trip(func(*http.Request) (*http.Response, error) { return answer(407, "{}"), nil }), b)
			_, err := send(t, rt, "http://model.test/", "{}")
			return err
		},
	} {
		b := newBreaker(t, breaker.Config{Threshold: 1})
		_ = call(b)
		if st := b.Stats(); b.State() != breaker.Closed || st.Ignored != 1 {
			t.Errorf("%s: %v, %d ignored", name, b.State(), st.Ignored)
		}
	}
}

// An answer that a layer below has judged is not judged by its status again.
func TestJudgedAnswers(t *testing.T) {
	t.Parallel()
	for class, want := range map[modelapi.Class]breaker.State{
		modelapi.Empty: breaker.Open, modelapi.Refused: breaker.Closed, modelapi.Truncated: breaker.Closed,
	} {
		b := newBreaker(t, breaker.Config{Threshold: 1})
		err := modelapi.Verdict{Class: class, Status: 200, Ended: true}.AsError()
		_ = b.Do(t.Context(), func(context.Context) error { return fmt.Errorf("ask: %w", err) })
		if b.State() != want {
			t.Errorf("%v: %v, want %v", class, b.State(), want)
		}
	}
}

// A web page under 200 is a failure of what stands before the upstream.
func TestStormOfWebPages(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, breaker.Config{Threshold: 3, RepeatTrip: -1})
	calls := 0
	rt := breaker.NewTransport(trip(func(*http.Request) (*http.Response, error) {
		calls++
		resp := answer(200, "<html><title>Please log in</title></html>")
		resp.Header.Set("Content-Type", "text/html")
		return resp, nil
	}), b)
	for range 10 {
		_, _ = send(t, rt, "http://model.test/", "{}")
	}
	if calls != 3 || b.State() != breaker.Open {
		t.Errorf("%d calls, %v", calls, b.State())
	}
}
