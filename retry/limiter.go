package retry

import (
	"context"
	"sync/atomic"
	"time"
)

// limiter is a cancellable context with a time limit that can be lifted. The
// limit is a runtime timer, whatever the Clock: it ends calls that are out in
// the real world, and it works in a synctest bubble as it is.
type limiter struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	fired  atomic.Pointer[timeoutError]
}

// limit returns a context below ctx that ends after d; d <= 0 sets no limit.
func limit(ctx context.Context, what string, d time.Duration) *limiter {
	l := &limiter{}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	if d > 0 {
		l.timer = time.AfterFunc(d, func() { l.expire(&timeoutError{what, d}) })
	}
	return l
}

// expire ends the context for the reason given.
func (l *limiter) expire(e *timeoutError) {
	l.fired.CompareAndSwap(nil, e)
	l.cancel(e)
}

// lift takes the time limit away and keeps the context. It is false when the
// limit was first.
func (l *limiter) lift() bool {
	if l.timer == nil {
		return true
	}
	return l.timer.Stop()
}

// release ends both.
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
