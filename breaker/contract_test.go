package breaker_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/internal/rtcontract"
)

// withBreaker is a transport with the breaker behind it.
type withBreaker struct {
	*breaker.Transport
	b *breaker.Breaker
}

func TestRoundTripperContract(t *testing.T) {
	t.Parallel()
	many := breaker.Config{Threshold: 1000, RepeatTrip: -1, StoreTimeout: time.Minute}
	refusing := func(t *testing.T, base http.RoundTripper) http.RoundTripper {
		b := newBreaker(t, breaker.Config{Cooldown: time.Hour})
		if err := b.Trip(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		return breaker.NewTransport(base, b)
	}
	calls := func(rt http.RoundTripper) int { return int(rt.(withBreaker).b.Stats().Admitted) }
	for name, s := range map[string]rtcontract.Subject{
		"closed": {
			New: func(t *testing.T, base http.RoundTripper) http.RoundTripper {
				b := newBreaker(t, many)
				return withBreaker{breaker.NewTransport(base, b), b}
			},
			Refusing: refusing,
			Calls:    calls,
		},
		"over files": {
			New: func(t *testing.T, base http.RoundTripper) http.RoundTripper {
				cfg := many
				cfg.Store = newFile(t, t.TempDir())
				b := newBreaker(t, cfg)
				return withBreaker{breaker.NewTransport(base, b), b}
			},
			Calls: calls,
		},
		"a group in shadow": {
			New: func(t *testing.T, base http.RoundTripper) http.RoundTripper {
				cfg := many
				cfg.Shadow = true
				return breaker.NewTransport(base, newGroup(t, cfg))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rtcontract.Run(t, s)
		})
	}
}
