package retry

import (
	"context"
	"net/http"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/nils"
)

// loop is one item on its way through the attempts. It belongs to one
// goroutine at a time. In the function form it lives on the caller's stack, so
// nothing here may keep a pointer to it.
type loop struct {
	r     *Retrier
	ctx   context.Context // the caller's
	up    *call.Box       // the caller's; nil when there is none
	lazy  *call.Lazy      // the first attempt's context, where nobody has asked for its Box yet
	box   *call.Box       // the first attempt's, whose Item all share
	id    string
	limit *call.Limit
	out   *Outcome

	start   time.Duration // of the item, by tick
	fresh   bool          // it is that of the next attempt, too
	began   time.Time     // of the attempt in hand; zero where no hook will ask
	failed  time.Time     // of the first failure
	failing bool          // failed is set
	held    time.Duration

	calls    int  // sent
	charged  int  // failures that count against Attempts
	refund   bool // the last failure is charged and may turn out to be the outage's
	quick    int  // waits for a refusal in a row that took no time
	onces    int  // failures of the kind once
	dailies  int
	owed     bool // a call of the limit is taken for the next attempt
	owedMore bool // and a retry of the quota

	req   *http.Request // nil in the function form
	limer *limiter      // the attempt's time limit; nil when there is none
	last  failure       // what the last call met
	away  bool          // the attempt in hand was handed on and has not come back
	spent bool          // the request's body is gone: no further attempt, not even after a refusal
	over  bool          // left or ended

	notBefore time.Time // when the last answer asked to be called again
}

// begin starts the item.
func (l *loop) begin() {
	r := l.r
	l.start, l.fresh = r.tick(), !r.ownClock
	r.stats.items.Add(1)
	if b := l.up; b != nil {
		l.id, l.limit = b.ID, b.Limit
		l.out, _ = b.Outcome.(*Outcome)
	}
}

// leave is deferred: however the item is left, by a panic or Goexit too, what
// it holds is given back.
func (l *loop) leave() {
	l.stop()
	if l.over {
		return
	}
	l.over = true
	if l.away {
		l.sent()
		l.r.stats.window.call(l.r.tick())
	}
	l.giveBack()
	l.r.stats.failed.Add(1)
}

// stop ends the time limit of the attempt in hand.
func (l *loop) stop() {
	if l.limer != nil {
		l.limer.release()
		l.limer = nil
	}
}

// attempt starts an attempt of the function form and returns its context, or
// the item's end.
func (l *loop) attempt() (context.Context, error) {
	if err := l.ready(); err != nil {
		return nil, err
	}
	ctx := l.ctx
	var timer call.Timer
	if d := l.r.callTimeout; d > 0 {
		l.limer = &limiter{Context: ctx}
		l.limer.begin(&timeoutError{"no answer", d}, l.realStart())
		ctx, timer = l.limer, l.limer
	}
	if l.begins() {
		l.lazy = &call.Lazy{Context: ctx, Timer: timer}
		l.away = true
		return l.lazy, nil
	}
	b := l.open(ctx)
	b.Begin(l.calls + 1)
	b.Attempt.Timer = timer
	if l.up != nil || l.failing || l.held > 0 {
		b.Item.Pass() // a new one has met no refusal
	}
	return b, nil
}

// ready checks that an attempt may start.
func (l *loop) ready() error {
	if l.r.cfg.OnAttempt != nil {
		l.began = l.r.clock.Now()
	}
	if l.ctx.Err() != nil {
		return l.end(contextError(l.ctx))
	}
	if !l.owed {
		if !l.limit.Take(nil) {
			return l.end(errLimit)
		}
		l.owed = true
		l.r.cfg.Quota.pay()
	}
	return nil
}

// realStart is when the attempt that begins now does so, in real time.
func (l *loop) realStart() time.Time {
	if !l.fresh {
		return wall{}.Now()
	}
	l.fresh = false
	return l.r.epoch.Add(l.start) // the clock was read for the item just now
}

// begins reports whether the next attempt is the first of an item that nobody
// has begun above: then its context can be a Lazy.
func (l *loop) begins() bool { return l.up == nil && l.box == nil && l.lazy == nil }

// unfold makes the first attempt's Box, which an item that goes on needs.
func (l *loop) unfold() {
	if l.lazy != nil {
		l.box, l.lazy = l.lazy.Box(), nil
	}
}

// open returns the Box of the next attempt.
func (l *loop) open(ctx context.Context) *call.Box {
	b := call.With(ctx)
	if l.box == nil {
		l.box = b
	}
	b.Item = l.box.Item
	b.Retried, b.Counted = true, b.Limit
	l.away = true
	return b
}

// sent counts the attempt in hand as a call.
func (l *loop) sent() {
	l.calls++
	if l.lazy != nil {
		l.box = l.lazy.Asked() // whoever asks later finds an item of its own
	}
	if l.box != nil {
		l.box.Item.Sent()
	}
	l.r.stats.calls.Add(1)
	if l.calls > 1 {
		l.r.stats.retries.Add(1)
	}
	l.owed, l.owedMore, l.away = false, false, false
}

// succeed ends the item well.
func (l *loop) succeed() {
	l.stop()
	l.sent()
	if l.r.cfg.OnAttempt != nil {
		l.onAttempt(Attempt{ID: l.id, N: l.calls, Start: l.began, Took: l.r.clock.Now().Sub(l.began), Request: l.req})
	}
	l.done(1)
}

// done settles an item that succeeded; calls are those not yet in the window.
func (l *loop) done(calls uint64) {
	now := l.r.tick()
	l.over = true
	if l.up != nil {
		l.box.Item.Fail(nil) // nobody else reads a new one
	}
	l.r.stats.done.Add(1)
	l.r.stats.window.end(now, true, now-l.start, calls)
	l.out.note(l.calls, nil)
}

// fail takes the error of a function's attempt, waits, and returns nil for
// another attempt or the item's end.
func (l *loop) fail(err error) error {
	err = nils.Error(err)
	now := l.r.clock.Now()
	n, e := l.next(l.met(err, now), now)
	if e != nil {
		return l.finish(e)
	}
	return l.pause(n)
}

// met says what the error of the attempt in hand means, and ends its time
// limit.
func (l *loop) met(err error, now time.Time) failure {
	l.unfold()
	over := l.limer != nil && l.limer.over() != nil
	if over {
		err = l.limer.reason(err)
	}
	l.stop()
	f := judgeError(l.ctx, l.box.Item, err, now)
	if over && f.kind == ended && l.ctx.Err() == nil {
		f.kind = again // it was our context that ended
	}
	if f.unsent {
		l.away = false // whatever Classify does
	}
	f, _ = l.r.classify(l.req, nil, err, f)
	return f
}

// unsent reports whether err says that the attempt never left the process.
func unsent(err error) bool { return call.NotSent(err) || call.RefusedBy(err) != "" }

// next settles an attempt's failure: what to wait before another attempt, or
// the item's end, which is still to be finished.
func (l *loop) next(f failure, now time.Time) (pause, *Error) {
	l.away = false
	if !f.unsent {
		l.sent()
		l.r.stats.window.call(l.r.tick())
	}
	if f.hinted {
		l.r.stats.hints.Add(1)
	}
	p, cause := l.decide(f, now)
	if f.kind != refused && (f.kind != ended || l.last.err == nil) {
		l.last = f
		l.notBefore = time.Time{}
		if f.hinted && f.hint > 0 {
			l.notBefore = now.Add(f.hint)
		}
	}
	if l.r.cfg.OnAttempt != nil || l.r.cfg.Logger != nil {
		l.tell(f, p, cause, now)
	}
	if cause == nil && l.ctx.Err() != nil {
		cause = contextError(l.ctx) // a hook may have cancelled
	}
	if cause != nil {
		return p, l.error(cause)
	}
	return p, nil
}
