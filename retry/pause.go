package retry

import (
	"context"
	"time"
)

// pause is what comes between two attempts.
type pause struct {
	wait time.Duration
	why  reason
	held bool // wait is what is left of Hold, and the refusal itself tells when it is over
}

// decide says what to wait after f, or why the item ends.
func (l *loop) decide(f failure, now time.Time) (p pause, end error) {
	c := &l.r.cfg
	switch f.kind {
	case refused:
		return l.hold(f, now)
	case ended:
		if l.ctx.Err() != nil {
			return p, contextError(l.ctx)
		}
		return p, f.err
	}
	l.charged++
	l.refund = true
	if !l.failing {
		l.failing, l.failed = true, now
	}
	cause := f.cause
	if cause == nil {
		cause = ErrFinal
	}
	switch f.kind {
	case once:
		if l.onces++; l.onces > 1 {
			return p, cause
		}
	case daily:
		if l.dailies++; l.dailies > 1 {
			return p, cause
		}
	case final:
		return p, cause
	}
	if l.charged >= c.Attempts {
		return p, ErrExhausted
	}

	own := jitter(ceiling(c.Base, c.Max, l.charged), l.r.random())
	p = pause{wait: own}
	if f.hinted {
		if f.hint > c.MaxHint {
			l.r.stats.hintEnds.Add(1)
			return p, ErrHint
		}
		// A floor and our own jitter on top of it: never earlier than asked,
		// not all at once, and a hint of 0 is no hot loop.
		p.wait = plus(f.hint, own)
		if f.hint > 0 {
			p.why = forHint
		}
	}
	if c.MaxElapsed > 0 {
		left := c.MaxElapsed - (now.Sub(l.failed) - l.held)
		if f.hinted && f.hint > left {
			l.r.stats.hintEnds.Add(1)
			return p, ErrHint
		}
		if p.wait > left {
			return p, ErrElapsed
		}
	}
	if left, ok := l.left(now); ok {
		if f.hinted && f.hint >= left {
			l.r.stats.hintEnds.Add(1)
			return p, ErrHint
		}
		if p.wait >= left {
			return p, errDeadline
		}
	}
	// Taken when it is decided, so that sleepers are counted.
	if !l.owed && !l.limit.Take(nil) {
		return p, errLimit
	}
	l.owed = true
	if !l.owedMore && !c.Quota.take() {
		l.r.stats.quotaEnds.Add(1)
		return p, ErrQuota
	}
	l.owedMore = true
	return p, nil
}

// errDeadline is the cause when the caller's deadline comes before the next
// attempt.
var errDeadline = &wrapped{"the caller's deadline comes before the next attempt", context.DeadlineExceeded}

type wrapped struct {
	text string
	err  error
}

func (w *wrapped) Error() string { return w.text }
func (w *wrapped) Unwrap() error { return w.err }

// left returns the time to the caller's deadline. A deadline that has passed
// while the context lives is another clock's: a real one beside a fake clock.
func (l *loop) left(now time.Time) (time.Duration, bool) {
	d, ok := l.ctx.Deadline()
	if !ok {
		return 0, false
	}
	left := d.Sub(now)
	if left <= 0 && l.r.ownClock {
		return 0, false
	}
	return left, true
}

// pause waits, and returns nil for another attempt or the item's end.
func (l *loop) pause(p pause) error {
	r := l.r
	r.stats.waiting[p.why].Add(1)
	defer r.stats.waiting[p.why].Add(-1)
	if p.held {
		return l.await(p)
	}
	var timer <-chan time.Time
	if p.wait > 0 {
		timer = r.clock.After(p.wait)
	}
	if r.cfg.OnWait != nil {
		l.onWait(p)
	}
	if timer != nil {
		select {
		case <-timer:
		case <-l.ctx.Done():
		}
	}
	if l.ctx.Err() != nil {
		return l.end(contextError(l.ctx))
	}
	return nil
}
