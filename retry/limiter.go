package retry

import (
	"context"
	"sync/atomic"
	"time"
)

// limiter is a cancellable context with one time limit at a time, first the
// attempt's, then that of each read. The limit is a runtime timer, whatever the
// Clock: it ends calls that are out in the real world, and it works in a
// synctest bubble as it is.
type limiter struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // nil until a limit was set
	armed  atomic.Bool // a limit was set and not lifted
	limit  atomic.Pointer[timeoutError]
	fired  atomic.Pointer[timeoutError]
}

// start makes the limiter's context below ctx.
func (l *limiter) start(ctx context.Context) {
	l.ctx, l.cancel = context.WithCancelCause(ctx)
}

// set arms the limit. Until it is lifted no other may be set.
func (l *limiter) set(e *timeoutError) {
	l.limit.Store(e)
	if l.timer == nil {
		l.timer = time.AfterFunc(e.d, func() { l.expire(l.limit.Load()) })
	} else {
		l.timer.Reset(e.d)
	}
	l.armed.Store(true)
}

// lift takes the limit away and keeps the context. It is false when the limit
// was first.
func (l *limiter) lift() bool { return !l.armed.Swap(false) || l.timer.Stop() }

// expire ends the context for the reason given.
func (l *limiter) expire(e *timeoutError) {
	l.fired.CompareAndSwap(nil, e)
	l.cancel(e)
}

// release ends limit and context.
func (l *limiter) release() {
	l.lift()
	l.cancel(nil)
}

// reason returns the limit's own error in place of err, what the call made of
// it. The caller's own cancel or deadline, where it came first, is left.
func (l *limiter) reason(err error) error {
	if e := l.fired.Load(); e != nil && context.Cause(l.ctx) == error(e) {
		return e
	}
	return err
}

// within returns ctx bounded by d on r's clock, and what releases it.
func (r *Retrier) within(ctx context.Context, d time.Duration) (context.Context, func()) {
	if !r.ownClock {
		ctx, cancel := context.WithTimeoutCause(ctx, d, errHold)
		return ctx, cancel
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := r.clock.After(d)
	gone := make(chan struct{})
	// The one helper there is: it ends with the wait it bounds.
	go func() {
		defer close(gone)
		select {
		case <-timer:
			cancel(errHold)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-gone
	}
}
