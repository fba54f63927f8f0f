// Package chain_test holds the whole chain to what its parts promise one by
// one: the contract of a RoundTripper, and whole nights on a fake clock.
package chain_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/rtcontract"
	"github.com/nightfuse/nightfuse/retry"
)

// must returns what a constructor has made.
func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The layers as the contract wants them: ample limits, and no wait in real
// time.

func budgeted(t *testing.T, base http.RoundTripper) http.RoundTripper {
	day, err := budget.New(budget.Config{Limit: budget.MaxAmount})
	return budget.NewTransport(base, must(t, day, err))
}

func guarded(t *testing.T, base http.RoundTripper) http.RoundTripper {
	up, err := breaker.New(breaker.Config{StoreTimeout: time.Minute})
	return breaker.NewTransport(base, must(t, up, err))
}

func paced(t *testing.T, base http.RoundTripper) http.RoundTripper {
	pace, err := budget.NewPacer(budget.PacerConfig{Requests: budget.MaxAmount})
	return budget.NewPacedTransport(base, must(t, pace, err))
}

const attempts = 3

func retried(t *testing.T, base http.RoundTripper) http.RoundTripper {
	again, err := retry.New(retry.Config{Attempts: attempts, Rand: func() float64 { return 0 }})
	return retry.NewTransport(base, must(t, again, err))
}

func lettered(t *testing.T, base http.RoundTripper) http.RoundTripper {
	letters, err := deadletter.New(deadletter.Config{Name: "contract", Store: deadletter.NewMemory()})
	return deadletter.NewTransport(base, must(t, letters, err))
}

// spent is a budget's transport that refuses everything.
func spent(t *testing.T, base http.RoundTripper) http.RoundTripper {
	day, err := budget.New(budget.Config{Limit: 1 << 40})
	must(t, day, err)
	if err := day.Adjust(t.Context(), "", 1<<40); err != nil {
		t.Fatal(err)
	}
	return budget.NewTransport(base, day)
}

// open is a breaker's transport that refuses everything.
func open(t *testing.T, base http.RoundTripper) http.RoundTripper {
	up, err := breaker.New(breaker.Config{Cooldown: time.Hour})
	must(t, up, err)
	if err := up.Trip(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	return breaker.NewTransport(base, up)
}

type layer = func(*testing.T, http.RoundTripper) http.RoundTripper

// over puts layers on one another, innermost first.
func over(layers ...layer) layer {
	return func(t *testing.T, rt http.RoundTripper) http.RoundTripper {
		for _, l := range layers {
			rt = l(t, rt)
		}
		return rt
	}
}

// Every transport by itself keeps the contract, and so do all of them together.
func TestRoundTripperContract(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]rtcontract.Subject{
		"budget":               {New: budgeted, Refusing: spent},
		"breaker":              {New: guarded, Refusing: open},
		"pacer":                {New: paced, Refusing: over(spent, paced)},
		"retry":                {New: retried, Refusing: over(open, retried), Attempts: attempts},
		"deadletter":           {New: lettered, Refusing: over(open, lettered)},
		"retry around breaker": {New: over(guarded, retried), Refusing: over(open, retried), Attempts: attempts},
		"chain": {
			New:      over(budgeted, guarded, paced, retried, lettered),
			Refusing: over(spent, guarded, paced, retried, lettered),
			Attempts: attempts,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rtcontract.Run(t, s)
		})
	}
}
