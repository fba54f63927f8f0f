package batch

import (
	"context"
	"errors"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
)

// hold is the time in which nothing is started because a guard refused.
type hold struct {
	by      string
	refusal error
	began   time.Time
	over    chan error // gets one value when the refusal may have lifted, or waiting is pointless
	cancel  context.CancelFunc
}

// errNoWaiting says that a refusal does not say when it lifts.
var errNoWaiting = errors.New("batch: the refusal offers no waiting")

// maxPause bounds the pause before a refusal is awaited that came at once after
// the one before it had lifted.
const maxPause = 30 * time.Second

func (l *loop) beginHold(by string, refusal error) {
	now := l.cfg.Clock.Now()
	at, said := call.RetryAt(refusal)
	if said && l.held+at.Sub(now) > l.cfg.Hold {
		// It would be waited for in vain.
		l.stop(by, refusal)
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	h := &hold{by: by, refusal: refusal, began: now, over: make(chan error, 1), cancel: cancel}
	l.hold, l.alone = h, true
	l.era++
	clk, spins := l.cfg.Clock, l.spins
	l.spins++
	go func() { h.over <- awaited(ctx, clk, refusal, spins) }()
}

// awaited returns when refusal may have lifted. Where spins came before it that
// had lifted in vain, it begins with a pause. An error says that waiting is
// pointless.
func awaited(ctx context.Context, clk Clock, refusal error, spins int) (err error) {
	guarded(func() {
		if spins > 0 {
			if err = sleep(ctx, clk, min(time.Second<<min(spins-1, 10), maxPause)); err != nil {
				return
			}
		}
		var waited bool
		if waited, err = call.Await(ctx, refusal); waited {
			return
		}
		err = errNoWaiting
		if at, said := call.RetryAt(refusal); said {
			err = sleep(ctx, clk, at.Sub(clk.Now()))
		}
	}, func(broke error) { err = broke })
	return err
}

// lift ends the hold: the cheapest item goes first, alone. An error says that
// waiting was pointless.
func (l *loop) lift(err error) {
	h := l.hold
	l.endHold()
	if err != nil && !l.stopped {
		l.stop(h.by, errors.Join(h.refusal, err))
	}
}

// endHold ends the hold. Its time is no time without a result for Patience: it has
// a known cause, and Hold bounds it.
func (l *loop) endHold() {
	now := l.cfg.Clock.Now()
	d := max(0, now.Sub(l.hold.began))
	l.held += d
	if l.lastDone = l.lastDone.Add(d); l.lastDone.After(now) {
		l.lastDone = now
	}
	l.hold.cancel()
	l.hold = nil
}

func sleep(ctx context.Context, clk Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-clk.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
