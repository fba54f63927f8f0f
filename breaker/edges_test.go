package breaker_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/internal/call"
)

// A Classify that panics is the caller's to see, and no permit is lost by it.
func TestClassifyPanics(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.Classify = func(*http.Response, error) breaker.Outcome { panic("mine") }
	b := newBreaker(t, cfg)
	panics := func(name string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s: the panic was swallowed", name)
			}
		}()
		f()
	}
	panics("function", func() {
		_ = b.Do(t.Context(), func(context.Context) error { return errors.New("no") })
	})
	for name, base := range map[string]trip{
		"answer": func(*http.Request) (*http.Response, error) { return answer(200, good), nil },
		"error":  func(*http.Request) (*http.Response, error) { return nil, errors.New("reset") },
	} {
		panics(name, func() { _, _ = send(t, breaker.NewTransport(base, b), "http://upstream.test/", "{}") })
	}
	if n := b.Stats().InFlight; n != 0 {
		t.Errorf("%d permits are out for good", n)
	}
}

// A job that names its owner once has still as many items as calls: each equal
// failure counts.
func TestJobIsNotOneItem(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.RepeatTrip = 3
	b := newBreaker(t, cfg)
	job := call.Setting(t.Context())
	job.Owner = "nightly"
	for range 3 {
		_ = b.Do(job, func(context.Context) error { return errors.New("upstream says no") })
	}
	wantState(t, b, breaker.Open)
}

// What the breaker does not let out because the caller has gone was not sent.
func TestEndedContextIsNotSent(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, plain(newClock()))
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	err := b.Do(ctx, func(context.Context) error { t.Error("called"); return nil })
	if !errors.Is(err, gone) || !errors.Is(err, context.Canceled) || !call.NotSent(err) {
		t.Errorf("err = %v", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://upstream.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	rt := breaker.NewTransport(trip(func(*http.Request) (*http.Response, error) { return answer(200, good), nil }), b)
	if _, err := rt.RoundTrip(req); !errors.Is(err, gone) || !call.NotSent(err) {
		t.Errorf("err = %v", err)
	}
}

// A proxy that wants a password is a matter of the request in both forms.
func TestProxyAuthIsIgnored(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, plain(newClock()))
	_, _ = send(t, breaker.NewTransport(trip(func(*http.Request) (*http.Response, error) { return answer(407, "{}"), nil }), b), "http://upstream.test/", "{}")
	wantState(t, b, breaker.Closed)
}
