package breaker_test

import (
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
)

// The four tests that the idea was first printed with.

func TestSketchOpensAtThreshold(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, plain(newClock()))
	fail(t, b, 2)
	wantState(t, b, breaker.Closed)
	fail(t, b, 1)
	refusal(t, b)
}

func TestSketchOpensOnARepeatedSignature(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.Threshold, cfg.RepeatTrip = 50, 2
	b := newBreaker(t, cfg)
	fail(t, b, 2)
	if got := refusal(t, b).Signature; got == "" {
		t.Fatal("the refusal does not say which signature tripped it")
	}
}

func TestSketchProbesOnceAfterTheCooldown(t *testing.T) {
	t.Parallel()
	clk := newClock()
	b := newBreaker(t, plain(clk))
	fail(t, b, 3)
	clk.Add(9 * time.Second)
	refusal(t, b)
	clk.Add(time.Second) // exactly at the end
	p := probe(t, b)
	refusal(t, b)
	p.Success()
	wantState(t, b, breaker.Closed)
}

func TestSketchDoublesTheCooldown(t *testing.T) {
	t.Parallel()
	clk := newClock()
	b := newBreaker(t, plain(clk))
	fail(t, b, 3)
	for _, want := range []time.Duration{10, 20, 40, 80, 80} {
		until := refusal(t, b).Until
		if got := until.Sub(clk.Now()); got != want*time.Second {
			t.Fatalf("cooldown = %v, want %v", got, want*time.Second)
		}
		clk.Set(until)
		probe(t, b).Failure(errUp)
	}
}
