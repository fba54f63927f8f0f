package budget

import (
	"net/http"
	"time"

	"github.com/nightfuse/nightfuse/internal/chain"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// A PacedTransport lets each request wait for its turn, and learns from the
// answers. Owner and estimate come from [WithOwner] and [WithEstimate], else
// from PacerConfig.Estimate, which is asked only when tokens matter. It is
// safe for concurrent use.
type PacedTransport struct {
	link
	pacer *Pacer
}

// NewPacedTransport returns a transport whose requests to base wait for p; nil
// is http.DefaultTransport. Its place is around the breaker's and the
// budget's, so that a worker which has waited still learns that the breaker
// has opened, and inside of retry's. A nil p or a wrong order is told by Err,
// and by every RoundTrip.
func NewPacedTransport(base http.RoundTripper, p *Pacer) *PacedTransport {
	return &PacedTransport{link: chain.New(chain.Pacer, p, p == nil, base), pacer: p}
}

// Unwrap returns the transport inside.
func (t *PacedTransport) Unwrap() http.RoundTripper { return t.Base() }

// Err returns what is wrong with the chain from here down, nil if nothing is.
func (t *PacedTransport) Err() error { return t.LinkErr() }

// CloseIdleConnections passes the call on to the transport inside.
func (t *PacedTransport) CloseIdleConnections() { t.CloseIdle() }

// RoundTrip implements [http.RoundTripper].
func (t *PacedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	in, box, through, err := t.Start(req)
	if err != nil {
		return nil, err
	}
	if through {
		return t.Base().RoundTrip(req)
	}
	p := t.pacer
	tokens := box.Estimate
	if tokens == 0 && p.sizes {
		if tokens, in, err = estimate(p.estimate, in); err != nil {
			return chain.Refuse(req, &unsent{err})
		}
	}
	s, err := p.Wait(box, tokens)
	if err != nil {
		return chain.Refuse(req, refused(box, err))
	}
	resp, err := t.Send(box, in)
	if err != nil {
		if sent(req.Context(), err) {
			p.Observe(s, modelapi.StatusOf(err), nil, 0)
		} else {
			p.Cancel(s)
		}
		return nil, err
	}
	resp.Request = req
	// The status and the headers speak now; a stream may take minutes to end.
	status := resp.StatusCode
	p.Observe(s, status, resp.Header, 0)
	now := p.clock.Now()
	modelapi.Watch(box, resp, now).OnEnd(func(v modelapi.Verdict) {
		if n := Usage(v.Usage).Total(); v.HasUsage && n > 0 {
			p.Settle(s, n)
		}
		switch v.Class {
		case modelapi.RateLimited, modelapi.Overloaded, modelapi.QuotaPerDay:
			if v.InBody {
				p.Observe(s, v.Effective(), nil, v.Wait)
			} else if v.Waits {
				p.lengthen(now.Add(min(v.Wait, maxHold)), status)
			}
		}
	})
	return resp, nil
}

// lengthen holds the key for what only the body of a refusal says (Gemini).
func (p *Pacer) lengthen(until time.Time, status int) {
	p.mu.Lock()
	longer := until.After(p.hold) && until.After(p.now())
	if longer {
		p.holdUntil(until)
	}
	p.mu.Unlock()
	if longer {
		p.emit(PacerEvent{Kind: PacerHeld, Until: until, Status: status})
	}
}
