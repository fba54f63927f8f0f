package retry

import (
	"context"
	"errors"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
)

// hold says how long an item may wait for the refusal in f.
func (l *loop) hold(f failure, now time.Time) (p pause, end error) {
	left := l.r.cfg.Hold - l.held
	if left <= 0 || l.spent {
		return p, f.err
	}
	if at, ok := call.RetryAt(f.err); ok && call.RefusedBy(f.err) == "budget" && at.Sub(now) > left {
		// A budget names its window's end only when nothing in flight can
		// give anything back before: waiting is no use.
		return p, f.err
	}
	if l.refund {
		// The failure before a refusal was the outage's, not the item's.
		l.refund = false
		l.charged--
	}
	if dl, ok := l.left(now); ok && dl <= 0 {
		return p, f.err
	}
	p = pause{wait: left, held: true, why: forOther}
	switch call.RefusedBy(f.err) {
	case "breaker":
		p.why = forBreaker
	case "pacer":
		p.why = forPacer
	}
	l.r.stats.holds.Add(1)
	l.last.refusal = f.err
	return p, nil
}

// await waits for the end of a refusal, no longer than what is left of Hold.
func (l *loop) await(p pause) error {
	r, refusal := l.r, l.last.refusal
	ctx, release := r.within(l.ctx, p.wait)
	defer release()
	from := r.clock.Now()
	at, told := call.RetryAt(refusal)
	if told && !at.After(from) {
		// It says "now" and has just refused: our own backoff, no hot loop.
		at = from.Add(l.breath())
	}
	if r.cfg.OnWait != nil {
		known := p
		if told {
			known.wait = min(p.wait, at.Sub(from))
		}
		l.onWait(known)
	}
	waited, err := call.Await(ctx, refusal)
	switch {
	case waited:
	case told && at.Sub(from) <= p.wait:
		err = l.until(ctx, at)
	default:
		err = errHold
	}
	took := r.clock.Now().Sub(from)
	if l.quick++; took > 0 {
		l.quick = 0
	}
	if l.quick > 1 && err == nil {
		// It says "now" and refuses, again and again: no hot loop.
		select {
		case <-r.clock.After(l.breath()):
		case <-ctx.Done():
		}
		took = r.clock.Now().Sub(from)
	}
	l.held += max(took, 1)
	if l.ctx.Err() != nil {
		return l.end(contextError(l.ctx))
	}
	if err != nil {
		return l.end(refusal)
	}
	return nil
}

// breath is a first backoff that is never nothing.
func (l *loop) breath() time.Duration {
	return max(jitter(ceiling(l.r.cfg.Base, l.r.cfg.Max, 1), l.r.random()), time.Millisecond)
}

// until waits until at, for a refusal that offers no waiting of its own but a
// time. OnWait may have advanced the clock.
func (l *loop) until(ctx context.Context, at time.Time) error {
	d := at.Sub(l.r.clock.Now())
	if d <= 0 {
		return nil
	}
	select {
	case <-l.r.clock.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errHold is the cause of a context that Hold has ended.
var errHold = errors.New("retry: held for as long as Hold allows")
