package retry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/chain"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

type link = chain.Link

// Transport is an http.RoundTripper that repeats failed requests. It is made by
// [NewTransport] and safe for concurrent use.
type Transport struct {
	link
	r *Retrier
}

// NewTransport returns a transport that repeats what fails in base, nil for
// http.DefaultTransport, as r says. It must be built around breaker and budget
// and inside the dead letters; Err tells of a wrong order.
func NewTransport(base http.RoundTripper, r *Retrier) *Transport {
	return &Transport{link: chain.New(chain.Retry, r, r == nil, base), r: r}
}

// Unwrap returns the transport inside.
func (t *Transport) Unwrap() http.RoundTripper { return t.Base() }

// Err returns what is wrong with the chain from here down, nil when nothing is.
// Every RoundTrip returns it too, and sends nothing.
func (t *Transport) Err() error { return t.LinkErr() }

// CloseIdleConnections passes the call on.
func (t *Transport) CloseIdleConnections() { t.CloseIdle() }

// RoundTrip sends req until an attempt succeeds, or returns a *Error or a
// response as Config.Exhausted says. Final 4xx answers, and 501, 505 and 511,
// come back as they are. req is not modified and its body is closed. Inside
// another retry of this module it sends once.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.LinkErr(); err != nil {
		return chain.Refuse(req, err)
	}
	up := call.From(req.Context())
	if up != nil && up.Retried {
		return t.through(req, up)
	}
	t.r.watchForeign(req)
	s := &sender{t: t, req: req, loop: loop{r: t.r, ctx: req.Context(), up: up, req: req}}
	l := &s.loop
	l.begin()
	defer s.leave()
	if l.ctx.Err() != nil {
		_, err := chain.Refuse(req, l.end(contextError(l.ctx)))
		return s.failed(err)
	}
	if req.Body != nil && req.GetBody == nil {
		l.fresh = false // reading it may take its time
	}
	if err := s.load.fill(req, t.r.cfg.Attempts == 1 && t.r.cfg.Hold == 0); err != nil {
		l.last = failure{err: err}
		return s.failed(l.end(ErrFinal))
	}
	return s.run()
}

// through sends req once, for the retry above that owns the attempts.
func (t *Transport) through(req *http.Request, up *call.Box) (*http.Response, error) {
	if up.Limit == up.Counted {
		return t.Base().RoundTrip(req)
	}
	ctx, took, err := takeShare(req.Context(), up)
	if err != nil {
		return chain.Refuse(req, err)
	}
	resp, err := t.Base().RoundTrip(req.WithContext(ctx))
	took.settle(err)
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}

// sender takes one request through its attempts.
type sender struct {
	t    *Transport
	req  *http.Request
	loop loop
	load payload
	used bool    // the single body was given away
	cur  *answer // the response in hand, not yet returned or let go
	one  answer  // the first attempt's
	kept bool    // the item goes on in a stream
}

// leave is deferred: nothing is left behind by a panic or Goexit of the base or
// a hook.
func (s *sender) leave() {
	if s.cur != nil {
		s.cur.discard()
	}
	if s.load.single != nil && !s.used {
		_ = s.load.single.Close()
	}
	if !s.kept {
		s.loop.leave()
	}
}

func (s *sender) run() (*http.Response, error) {
	l := &s.loop
	for {
		if err := l.ready(); err != nil {
			return s.failed(err)
		}
		resp, f := s.send()
		if resp != nil {
			return resp, nil
		}
		l.unfold()
		now := l.r.clock.Now()
		l.spent = s.load.single != nil
		if l.spent && (f.kind == again || f.kind == once || f.kind == daily) && l.r.cfg.Attempts > 1 {
			f.kind, f.cause = final, ErrReplay
		}
		p, e := l.next(f, now)
		if e != nil {
			l.settle(e)
			return s.failed(e)
		}
		s.cur.discard()
		s.cur = nil
		if err := l.pause(p); err != nil {
			return s.failed(err)
		}
	}
}

// send makes one attempt. It returns a response that can be used, or a
// failure; then s.cur is the response it came with, if any.
func (s *sender) send() (*http.Response, failure) {
	l, r := &s.loop, s.t.r
	a := &s.one
	if a.Context != nil {
		a = new(answer)
	}
	a.idle = r.idle
	a.Context = l.ctx
	l.limer = &a.limiter // released by leave if the base does not come back
	var timer call.Timer
	if r.headers != nil {
		a.begin(r.headers, l.realStart())
		timer = &a.limiter
	}
	var box *call.Box
	var ctx context.Context
	if l.begins() {
		l.lazy = &a.lazy
		l.lazy.Context, l.lazy.Wire, l.lazy.Timer = &a.limiter, true, timer
		l.away = true
		ctx = l.lazy
	} else {
		box = l.open(&a.limiter)
		box.BeginWire(l.calls + 1)
		box.Attempt.Timer = timer
		ctx = box
	}
	out := s.req.WithContext(ctx)
	if l.calls > 0 {
		out.Header = s.req.Header.Clone()
	}
	if err := s.load.put(out); err != nil {
		l.stop()
		return nil, failure{kind: final, err: err, unsent: true}
	}
	s.used = true
	resp, err := s.t.Send(box, out)
	if err == nil && !a.lift() {
		_ = resp.Body.Close()
		err = a.Err()
	}
	if err != nil {
		return nil, l.met(err, r.clock.Now())
	}
	l.limer = nil // the response's from here on
	resp.Request = s.req
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// The connection is the caller's now, and its body can be written to.
		l.succeed()
		return resp, failure{}
	}
	a.resp, a.none = resp, resp.Body == http.NoBody
	if l.lazy != nil {
		box = l.lazy.Asked() // the guards below have, to share their view of the answer
	}
	a.view = modelapi.Watch(box, resp, r.clock.Now())
	a.body = resp.Body
	s.cur = a
	return s.judge(a)
}

// judge looks at a response. It returns it when it can be used.
func (s *sender) judge(a *answer) (*http.Response, failure) {
	l, r, resp := &s.loop, s.t.r, a.resp
	good := resp.StatusCode < 400
	held := false
	switch {
	case !good:
		size := otherLimit
		if a.view.JSONLike() {
			size = jsonLimit
		}
		a.holdFailed(size)
		held = true
	case a.bodiless():
		a.hold(0)
		return s.accept(a), failure{}
	case resp.StatusCode >= 200 && resp.StatusCode <= 299 && !a.view.Streaming() && (a.view.JSONLike() || a.view.MayBePage()):
		a.hold(jsonLimit)
		held = true
	case resp.StatusCode >= 200 && resp.StatusCode <= 299 && s.req.Method == http.MethodPost && a.view.Events():
		a.peek()
	}
	if good && a.err != nil && a.first == 0 {
		// Nothing was handed on: as if the connection had died before.
		l.unfold()
		f := judgeError(l.ctx, l.box.Item, a.err, r.clock.Now())
		if f.kind != ended {
			f = failure{
				kind: again, cause: ErrBody, status: resp.StatusCode,
				err: &answerError{status: resp.StatusCode, body: "the body ended too early", err: a.err},
			}
		}
		a.record(&f)
		f, _ = r.classify(s.req, a.copy(), a.err, f)
		return nil, f
	}

	v := a.view.Verdict()
	if a.first > 0 {
		v = a.opening(r.clock.Now())
	}
	v.Status = resp.StatusCode
	own := r.cfg.Validate != nil && good && held && a.whole
	if own && v.Err == nil && (v.Class == modelapi.Empty || v.Class == modelapi.Truncated || v.Class == modelapi.Refused) {
		v.Class = modelapi.OK // Validate decides in their place
	}
	if good && !a.whole && v.Class != modelapi.OK && v.Class != modelapi.Unjudged && !v.Ended && !v.InBody {
		v.Class = modelapi.Unjudged // what is missing may still come
	}
	f, bad := judgeAnswer(v)
	if !bad && own {
		f, bad = s.validate(a, v)
	} else if !bad && held && a.whole && placeholder(a.data) {
		f, bad = failure{
			kind: once, cause: ErrBody, status: resp.StatusCode,
			err: &answerError{status: resp.StatusCode, body: "a placeholder in place of an answer"},
		}, true
	}
	if r.cfg.Classify != nil {
		var act Action
		f, act = r.classify(s.req, a.copy(), nil, f)
		switch {
		case act == Accept && good:
			bad = false
		case !bad && (act == Again || act == GiveUp):
			bad = true
			f.status, f.err = resp.StatusCode, &answerError{status: resp.StatusCode, body: modelapi.RefusedByClassify}
		}
	}
	if bad {
		a.record(&f)
		return nil, f
	}
	return s.accept(a), failure{}
}

// validate asks the user's Validate.
func (s *sender) validate(a *answer, v modelapi.Verdict) (failure, bool) {
	err := s.t.r.cfg.Validate(a.copy(), a.data)
	if err == nil {
		return failure{}, false
	}
	f := failure{kind: once, cause: ErrBody, status: v.Status}
	if m := (*afterError)(nil); errors.As(err, &m) {
		f.kind, f.hint, f.hinted = again, m.d, true
	} else if ok, said := call.Retryable(err); said {
		f.kind = final
		if ok {
			f.kind = again
		}
	}
	f.err = &answerError{status: v.Status, body: "refused by Validate", err: err}
	return f, true
}

// copy is the response that hooks may read.
func (a *answer) copy() *http.Response {
	c := *a.resp
	c.Header = a.resp.Header.Clone()
	c.Body = io.NopCloser(bytes.NewReader(a.data))
	return &c
}

// accept returns the response of an attempt that succeeded, or whose verdict
// comes with its body.
func (s *sender) accept(a *answer) *http.Response {
	l := &s.loop
	if a.whole {
		s.cur = nil
		l.succeed()
		a.restore()
		return a.resp
	}
	l.sent()
	l.r.stats.window.call(l.r.tick())
	if l.r.cfg.OnAttempt != nil {
		now := l.r.clock.Now()
		l.onAttempt(Attempt{ID: l.id, N: l.calls, Start: l.began, Took: now.Sub(l.began), Request: l.req, Status: a.resp.StatusCode})
	}
	s.cur, s.kept = nil, true // not before: the hook may end the goroutine
	end := &a.flowing().stream
	end.l, end.a = l, a
	a.restore()
	a.view.OnEnd(end.settle)
	return a.resp
}

var _ http.RoundTripper = (*Transport)(nil)
