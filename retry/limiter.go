package retry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
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

	// The attempt's limit stands still while guards keep the call waiting.
	mu    sync.Mutex
	holds int
	until time.Time     // when it runs out; zero when it is over or there is none
	left  time.Duration // of it, while holds > 0
}

var _ call.Timer = (*limiter)(nil)

// start makes the limiter's context below ctx.
func (l *limiter) start(ctx context.Context) {
	l.ctx, l.cancel = context.WithCancelCause(ctx)
}

// begin arms the attempt's limit, the first one.
func (l *limiter) begin(e *timeoutError) {
	l.until = wall{}.Now().Add(e.d)
	l.set(e)
}

// arrive lifts the attempt's limit. It is false when the limit was first.
func (l *limiter) arrive() bool {
	l.mu.Lock()
	still := l.holds > 0 && !l.until.IsZero()
	l.until = time.Time{}
	l.mu.Unlock()
	if still {
		l.armed.Store(false)
		return true
	}
	return l.lift()
}

// Hold stops the attempt's limit for a guard that keeps the call waiting.
func (l *limiter) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holds++; l.holds > 1 || l.until.IsZero() {
		return
	}
	if !l.timer.Stop() {
		l.until = time.Time{} // it has just run out
		return
	}
	l.left = l.until.Sub(wall{}.Now())
}

// Go lets it run on.
func (l *limiter) Go() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holds--; l.holds > 0 || l.until.IsZero() {
		return
	}
	l.until = wall{}.Now().Add(l.left)
	l.timer.Reset(l.left)
}

// set arms a limit. Until it is lifted no other may be set.
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
	l.arrive()
	l.cancel(nil)
}

// over reports whether the limit ended the context. The caller's own cancel or
// deadline, where it came first, is another matter.
func (l *limiter) over() bool {
	e := l.fired.Load()
	return e != nil && context.Cause(l.ctx) == error(e)
}

// reason returns the limit's own error in place of err, what the call made of
// it. A call that was not sent has met no limit for calls.
func (l *limiter) reason(err error) error {
	if l.over() && !unsent(err) {
		return l.fired.Load()
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
