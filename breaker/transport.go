package breaker

import (
	"context"
	"net/http"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/chain"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

type link = chain.Link

// Transport is an http.RoundTripper that asks a breaker before every request.
// Make it with NewTransport. Safe for concurrent use.
type Transport struct {
	link
	pick func(*http.Request) *Breaker
}

// NewTransport returns a transport around base, nil for http.DefaultTransport,
// that asks t, a Breaker or a Group. It is built around budget.NewTransport and
// inside budget.NewPacedTransport and retry.NewTransport; see Err.
//
// A refused request is not sent: the error is the *OpenError. The verdict is
// given when the answer ends: at the terminal event of a stream, EOF, a read
// error or Close, whichever is first.
func NewTransport[T *Breaker | *Group](base http.RoundTripper, t T) *Transport {
	tr := &Transport{link: chain.New(chain.Breaker, t, t == nil, base)}
	switch t := any(t).(type) {
	case *Breaker:
		tr.pick = func(*http.Request) *Breaker { return t }
	case *Group:
		tr.pick = t.pick
	}
	return tr
}

// Unwrap returns the transport inside.
func (t *Transport) Unwrap() http.RoundTripper { return t.Base() }

// Err returns what is wrong with the chain from here down, nil when nothing is.
// Every RoundTrip would return it, with nothing sent.
func (t *Transport) Err() error { return t.LinkErr() }

// CloseIdleConnections passes the call on to the transport inside.
func (t *Transport) CloseIdleConnections() { t.CloseIdle() }

// RoundTrip sends req if the breaker lets it.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	in, box, through, err := t.Start(req)
	if err != nil {
		return nil, err
	}
	if through {
		return t.Base().RoundTrip(req)
	}
	// The caller's own context: it knows who cancelled, and whether the item
	// had a box before this call made one.
	ctx := req.Context()
	b := t.pick(req)
	if call.From(ctx).Inside(b) {
		return t.Base().RoundTrip(req)
	}
	if ctx.Err() != nil {
		return chain.Refuse(req, call.Stopped(ctx, "breaker: not asked"))
	}
	p, err := b.Allow(ctx)
	if err != nil {
		if call.RefusedBy(err) != "" {
			box.Item.Refuse(err)
		}
		return chain.Refuse(req, err)
	}
	if p.Probe() {
		box = call.With(in.Context())
		box.Probe = true
		in = in.WithContext(box)
	}
	return t.send(ctx, b, p, req, in, box)
}

func (t *Transport) send(ctx context.Context, b *Breaker, p *Permit, req, in *http.Request, box *call.Box) (*http.Response, error) {
	returned := false
	defer p.settleUnwound(&returned)
	resp, err := t.Send(box, in)
	if err != nil {
		r := b.classified(ctx, err)
		returned = true
		p.Done(r)
		return nil, err
	}
	returned = true
	resp.Request = req
	view := modelapi.Watch(box, resp, b.clock.Now())
	view.OnEnd(func(v modelapi.Verdict) {
		judged := false
		defer p.settleUnwound(&judged)
		r := judgeAnswer(ctx, v)
		if b.cfg.Classify != nil {
			if o := b.cfg.Classify(resp, v.Err); o != Auto {
				r.Outcome = o
			}
			if r.Err == nil && (r.Outcome == Failure || r.Outcome == Fatal) {
				r.Err = v.AsError()
			}
		}
		judged = true
		p.Done(r)
	})
	return resp, nil
}
