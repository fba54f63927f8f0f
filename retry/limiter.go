package retry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
)

// limiter is the context of one attempt, below the caller's, with one time limit
// at a time: first the attempt's, then that of each read. The limit is a
// runtime timer, whatever the Clock: it ends calls that are out in the real
// world, and it works in a synctest bubble as it is.
//
// What ends and what it is ended by are made when somebody first looks: an
// attempt that nobody waits for needs neither.
type limiter struct {
	context.Context // the caller's

	seen atomic.Pointer[watched] // nil until somebody has looked

	mu    sync.Mutex
	timer *time.Timer   // nil until a limit was in force while somebody looked
	armed bool          // the timer is to end the attempt
	limit *timeoutError // the one in force; nil = none
	until time.Time     // when it runs out; for a read's only while nobody has looked
	whole bool          // it is the attempt's, not a read's
	holds int           // guards that keep the call waiting: the attempt's stands still
	left  time.Duration // of it, while holds > 0
	late  int           // runs of the timer that come too late for the limit they are of
	fired *timeoutError // the limit that ended the attempt
	gone  bool          // released
}

// watched is the context as somebody looks at it.
type watched struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

var (
	_ call.Timer      = (*limiter)(nil)
	_ context.Context = (*limiter)(nil)
)

// Done returns a channel that is closed when the attempt is over.
func (l *limiter) Done() <-chan struct{} { return l.look().ctx.Done() }

// Err returns nil until then.
func (l *limiter) Err() error {
	if s := l.seen.Load(); s != nil {
		return s.ctx.Err()
	}
	if err := l.Context.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen.Load() == nil && !l.gone && (l.limit == nil || l.rest() > 0) {
		return nil
	}
	return l.watch().ctx.Err()
}

// Value is the caller's, and what package context looks for.
func (l *limiter) Value(key any) any {
	if s := l.seen.Load(); s != nil {
		return s.ctx.Value(key)
	}
	return l.Context.Value(key)
}

// look returns the context that ends, made now if nobody has looked before, and
// with it the timer of the limit in force.
func (l *limiter) look() *watched {
	if s := l.seen.Load(); s != nil {
		return s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watch()
}

// watch is look for those who hold mu.
func (l *limiter) watch() *watched {
	if s := l.seen.Load(); s != nil {
		return s
	}
	s := new(watched)
	s.ctx, s.cancel = context.WithCancelCause(l.Context)
	l.seen.Store(s)
	switch {
	case l.gone:
		s.cancel(nil)
	case l.limit != nil:
		if d := l.rest(); d <= 0 {
			l.end()
		} else if !l.still() {
			l.arm(d)
		}
	}
	return s
}

// still reports whether the limit stands still. It is for those who hold mu, as
// are the four below.
func (l *limiter) still() bool { return l.whole && l.holds > 0 }

// rest returns what is left of the limit in force while nobody has looked.
func (l *limiter) rest() time.Duration {
	if l.still() {
		return l.left
	}
	return l.until.Sub(wall{}.Now())
}

func (l *limiter) arm(d time.Duration) {
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.expire)
	} else {
		l.timer.Reset(d)
	}
	l.armed = true
}

func (l *limiter) disarm() {
	if l.armed && !l.timer.Stop() {
		l.late++
	}
	l.armed = false
}

// end ends the context, which somebody has looked at, by the limit in force.
func (l *limiter) end() {
	if l.limit != nil && l.fired == nil {
		l.armed, l.fired = false, l.limit
		l.seen.Load().cancel(l.fired)
	}
}

// begin puts the attempt's limit in force, the first one; now is the real time.
func (l *limiter) begin(e *timeoutError, now time.Time) {
	l.limit, l.whole, l.until = e, true, now.Add(e.d)
}

// Hold stops the attempt's limit for a guard that keeps the call waiting.
func (l *limiter) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holds++; l.holds > 1 || !l.whole || l.fired != nil {
		return
	}
	if l.left = l.until.Sub(wall{}.Now()); l.left > 0 { // else it is over, and the timer is at it
		l.disarm()
	}
}

// Go lets it run on.
func (l *limiter) Go() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holds--; l.holds > 0 || !l.whole || l.fired != nil {
		return
	}
	l.until = wall{}.Now().Add(l.left)
	if l.seen.Load() != nil && l.left > 0 {
		l.arm(l.left)
	}
}

// set puts the limit of a read in force. Until it is lifted no other may be.
func (l *limiter) set(e *timeoutError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = e
	if l.seen.Load() != nil {
		l.arm(e.d)
	} else {
		l.until = wall{}.Now().Add(e.d)
	}
}

// lift takes the limit away and keeps the context. It is false when the limit
// was first.
func (l *limiter) lift() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disarm()
	l.limit, l.whole = nil, false
	return l.fired == nil
}

// expire is the timer's: it ends the context by the limit it was armed for.
func (l *limiter) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late > 0 {
		l.late--
		return
	}
	l.end()
}

// release ends limit and context.
func (l *limiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disarm()
	l.limit, l.whole, l.gone = nil, false, true
	if s := l.seen.Load(); s != nil {
		s.cancel(nil)
	}
}

// over returns the limit that ended the context, nil when none did. The
// caller's own cancel or deadline, where it came first, is another matter.
func (l *limiter) over() *timeoutError {
	l.mu.Lock()
	e := l.fired
	l.mu.Unlock()
	if e == nil || context.Cause(l) != error(e) {
		return nil
	}
	return e
}

// reason returns the limit's own error in place of err, what the call made of
// it. A call that was not sent has met no limit for calls.
func (l *limiter) reason(err error) error {
	if e := l.over(); e != nil && !unsent(err) {
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
