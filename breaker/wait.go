package breaker

import (
	"context"
	"time"
)

// Wait blocks until a call may pass: the breaker is closed, or a probe may go
// out. It is woken when the state changes, also by another process (within
// Refresh). Its error is the cause of ctx. It promises nothing: of many that
// wake at the end of a cooldown one becomes the probe, and the others are
// refused and may wait again.
func (b *Breaker) Wait(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.refresh(ctx)
		b.changes.Run()
		ph := b.phase.Load()
		if ph.err == nil {
			return nil
		}
		var wake <-chan time.Time
		changed := ph.changed
		left := ph.left(b.clock.Now())
		if left <= 0 {
			b.mu.Lock()
			granting := b.granting
			b.mu.Unlock()
			if granting == nil {
				return nil
			}
			changed = granting // a moment: StoreTimeout bounds it
		} else {
			if !b.private {
				left = min(left, b.cfg.Refresh)
			}
			wake = b.clock.After(left)
		}
		b.waiting.Add(1)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-wake:
		}
		b.waiting.Add(-1)
	}
}
