package budget

import (
	"net/http"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/chain"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// link is what all transports of the module share.
type link = chain.Link

// A Transport reserves for every request and settles when its answer ends: at
// the last event of a stream, EOF, a read error or Close of the body,
// whichever comes first, and before that Read or Close returns. The bytes pass
// as they come. A body that is never closed stays spent. It is safe for
// concurrent use.
//
// Owner and estimate come from [WithOwner] and [WithEstimate], else the only
// owner and Config.Estimate; the cost from Config.Charge. A refusal is a
// [*RefusedError], and nothing is sent.
type Transport struct {
	link
	budget *Budget
}

// NewTransport returns a transport that spends b's units through base; nil is
// http.DefaultTransport. It is the innermost of the module's transports:
// around it go those of breaker, [NewPacedTransport], retry and deadletter. A
// nil b or a wrong order is told by Err, and by every RoundTrip.
func NewTransport(base http.RoundTripper, b *Budget) *Transport {
	return &Transport{link: chain.New(chain.Budget, b, b == nil, base), budget: b}
}

// Unwrap returns the transport inside.
func (t *Transport) Unwrap() http.RoundTripper { return t.Base() }

// Err returns what is wrong with the chain from here down, nil if nothing is.
func (t *Transport) Err() error { return t.LinkErr() }

// CloseIdleConnections passes the call on to the transport inside.
func (t *Transport) CloseIdleConnections() { t.CloseIdle() }

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	in, box, through, err := t.Start(req)
	if err != nil {
		return nil, err
	}
	if through {
		return t.report(req)
	}
	b := t.budget
	units := box.Estimate
	if units == 0 {
		if units, in, err = estimate(b.estimate, in); err != nil {
			return chain.Refuse(req, &unsent{err})
		}
	}
	r, err := b.Reserve(box, box.Owner, units)
	if err != nil {
		return chain.Refuse(req, refused(box, err))
	}
	answered := false
	defer func() {
		if !answered {
			r.keep() // the base panicked or ended the goroutine
		}
	}()
	resp, err := t.Send(box, in)
	answered = true
	if err != nil {
		defer r.keep() // a Charge that panics
		c := Call{Request: req, Estimate: units, Sent: sent(req.Context(), err), Status: modelapi.StatusOf(err), Err: err}
		r.settle(b.charge(c))
		return nil, err
	}
	resp.Request = req
	status := resp.StatusCode
	modelapi.Watch(box, resp, b.clock.Now()).OnEnd(func(v modelapi.Verdict) {
		defer r.keep()
		c := Call{
			Request: req, Estimate: units, Sent: true, Status: status, Err: v.Err,
			Usage: Usage(v.Usage), HasUsage: v.HasUsage, Complete: v.Ended && !v.InBody,
		}
		if status < 300 && !v.InBody && !(c.HasUsage && c.Usage.Total() > 0) {
			b.noUsage(r)
		}
		r.settle(b.charge(c))
	})
	return resp, nil
}

// report passes a call on that a Do of the same budget has reserved, and tells
// that Do what the answer says.
func (t *Transport) report(req *http.Request) (*http.Response, error) {
	resp, err := t.Base().RoundTrip(req)
	box := call.From(req.Context())
	if err != nil || resp == nil || resp.Body == nil || box == nil || box.Used == nil {
		return resp, err
	}
	status := resp.StatusCode
	modelapi.Watch(box, resp, t.budget.clock.Now()).OnEnd(func(v modelapi.Verdict) {
		box.Used.See(t.budget.charge(Call{
			Request: req, Estimate: box.Estimate, Sent: true, Status: status, Err: v.Err,
			Usage: Usage(v.Usage), HasUsage: v.HasUsage, Complete: v.Ended && !v.InBody,
		}))
	})
	return resp, nil
}

// unsent marks an error before anything was sent.
type unsent struct{ error }

func (e *unsent) Unwrap() error { return e.error }
func (e *unsent) NotSent() bool { return true }
