package breaker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/nightfuse/nightfuse/breaker"
)

var errUp = errors.New("upstream says no")

// start is when every fake clock of these tests begins.
var start = time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)

func newClock() *clock.Mock {
	clk := clock.NewMock()
	clk.Set(start)
	return clk
}

// plain is a configuration without chance and without storms, as the first
// sketch's tests assume it.
func plain(clk *clock.Mock) breaker.Config {
	cfg := breaker.Config{
		Name: "up", Threshold: 3, RepeatTrip: -1, Cooldown: 10 * time.Second, MaxCooldown: 80 * time.Second, Jitter: -1,
		StoreTimeout: time.Minute, // the disk of a busy machine can be slow
	}
	if clk != nil {
		cfg.Clock = clk
	}
	return cfg
}

func newBreaker(t testing.TB, cfg breaker.Config) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// allow returns a permit, or fails.
func allow(t testing.TB, b *breaker.Breaker) *breaker.Permit {
	t.Helper()
	p, err := b.Allow(t.Context())
	if err != nil {
		t.Fatalf("Allow: %v", err)
	}
	return p
}

// refusal returns the error of a call that must be refused.
func refusal(t testing.TB, b *breaker.Breaker) *breaker.OpenError {
	t.Helper()
	p, err := b.Allow(t.Context())
	var open *breaker.OpenError
	if !errors.As(err, &open) || !errors.Is(err, breaker.ErrOpen) {
		t.Fatalf("Allow = %v, %v; want an OpenError", p, err)
	}
	return open
}

// probe returns a permit that must be the probe.
func probe(t testing.TB, b *breaker.Breaker) *breaker.Permit {
	t.Helper()
	p := allow(t, b)
	if !p.Probe() {
		t.Fatal("the permit is not a probe")
	}
	return p
}

func fail(t testing.TB, b *breaker.Breaker, n int) {
	t.Helper()
	for range n {
		allow(t, b).Failure(errUp)
	}
}

func wantState(t testing.TB, b *breaker.Breaker, want breaker.State) {
	t.Helper()
	if got := b.State(); got != want {
		t.Fatalf("state = %v, want %v", got, want)
	}
}
