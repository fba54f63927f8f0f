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
	from := r.clock.Now()
	if r.cfg.OnWait != nil {
		l.onWait(p)
	}
	ctx, release := r.within(l.ctx, p.wait)
	waited, err := call.Await(ctx, refusal)
	if !waited {
		err = l.until(ctx, refusal, from, p.wait)
	}
	took := r.clock.Now().Sub(from)
	if l.quick++; took > 0 {
		l.quick = 0
	}
	if l.quick > 1 && err == nil {
		// It says "now" and refuses, again and again: no hot loop.
		select {
		case <-r.clock.After(max(jitter(ceiling(r.cfg.Base, r.cfg.Max, 1), r.random()), time.Millisecond)):
		case <-ctx.Done():
		}
		took = r.clock.Now().Sub(from)
	}
	release()
	l.held += max(took, 1)
	if l.ctx.Err() != nil {
		return l.end(contextError(l.ctx))
	}
	if err != nil {
		return l.end(refusal)
	}
	return nil
}

// until waits for a refusal that offers no waiting of its own but a time.
func (l *loop) until(ctx context.Context, refusal error, now time.Time, left time.Duration) error {
	at, ok := call.RetryAt(refusal)
	if !ok {
		return errHold
	}
	d := at.Sub(now)
	if d > left {
		return errHold
	}
	if d <= 0 {
		// It says "now" and has just refused: our own backoff, no hot loop.
		d = max(jitter(ceiling(l.r.cfg.Base, l.r.cfg.Max, 1), l.r.random()), time.Millisecond)
	}
	select {
	case <-l.r.clock.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errHold is the cause of a context that Hold has ended.
var errHold = errors.New("retry: held for as long as Hold allows")
