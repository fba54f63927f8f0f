package retry_test

import (
	"net/http"
	"testing"

	"github.com/nightfuse/nightfuse/internal/rtcontract"
	"github.com/nightfuse/nightfuse/retry"
)

func TestRoundTripperContract(t *testing.T) {
	t.Parallel()
	retriers := func(t *testing.T, base http.RoundTripper) (http.RoundTripper, *retry.Retrier) {
		r := mustNew(t, noWait(retry.Config{Attempts: 3}))
		return retry.NewTransport(base, r), r
	}
	counted := func(rt http.RoundTripper) int { return int(rt.(calls).r.Stats().Calls) }
	t.Run("by itself", func(t *testing.T) {
		t.Parallel()
		rtcontract.Run(t, rtcontract.Subject{
			New: func(t *testing.T, base http.RoundTripper) http.RoundTripper {
				rt, r := retriers(t, base)
				return calls{rt.(*retry.Transport), r}
			},
			Refusing: func(t *testing.T, base http.RoundTripper) http.RoundTripper {
				rt, _ := retriers(t, refuser{base})
				return rt
			},
			Attempts: 3,
			Calls:    counted,
		})
	})
	t.Run("without time limits", func(t *testing.T) {
		t.Parallel()
		rtcontract.Run(t, rtcontract.Subject{
			New: func(t *testing.T, base http.RoundTripper) http.RoundTripper {
				return retry.NewTransport(base, mustNew(t, noWait(retry.Config{Attempts: 2, AttemptTimeout: -1, Exhausted: retry.ExhaustedError})))
			},
			Attempts: 2,
		})
	})
	t.Run("a single attempt", func(t *testing.T) {
		t.Parallel()
		rtcontract.Run(t, rtcontract.Subject{
			New: func(t *testing.T, base http.RoundTripper) http.RoundTripper {
				return retry.NewTransport(base, mustNew(t, retry.Config{Attempts: 1, IdleTimeout: -1}))
			},
		})
	})
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		rtcontract.Run(t, rtcontract.Subject{
			New: func(t *testing.T, base http.RoundTripper) http.RoundTripper {
				inner, _ := retriers(t, base)
				outer, r := retriers(t, inner)
				return calls{outer.(*retry.Transport), r}
			},
			Attempts: 3,
			Calls:    counted,
		})
	})
}

// calls is a Transport that knows its Retrier.
type calls struct {
	*retry.Transport
	r *retry.Retrier
}

// refuser is a base that refuses.
type refuser struct{ http.RoundTripper }

func (refuser) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return nil, refusal{}
}
