package breaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nightfuse/nightfuse/internal/hook"
)

// How long a store that failed is left alone.
const (
	firstBackoff = time.Second
	lastBackoff  = 30 * time.Second
)

// One goroutine at a time is in the store: whoever holds the lane. Everybody
// else goes on from memory, except one caller that may wait for the lane to
// have a probe granted, and those who called Trip or Reset. Results that arrive
// meanwhile are pending, and the lane's holder takes them along. A context that
// is given to the store is never the caller's own.

var (
	errDown  = errors.New("breaker: the store failed a moment ago and is left alone")
	errStuck = errors.New("breaker: an earlier operation of the store has not come back")
)

// exchanged is what one operation found and did.
type exchanged struct {
	rec   record
	eff   effect
	wrote bool
}

// fresh reports whether what is known need not be read again now.
func (b *Breaker) fresh() bool {
	if b.down.Load() {
		now := b.clock.Now()
		b.mu.Lock()
		defer b.mu.Unlock()
		return !b.usable(now) && !b.changes.Waits() // the way past here tells nothing
	}
	if b.unsure.Load() {
		return false
	}
	if b.numbers != nil {
		n, err := b.numbers.Seq(b.cfg.Name)
		return err == nil && n == b.seq.Load()
	}
	age := time.Duration(b.clock.Now().UnixNano() - b.looked.Load())
	return age >= 0 && age < b.cfg.Refresh
}

// usable reports whether the store may be asked. The lock is held.
func (b *Breaker) usable(now time.Time) bool {
	if !b.down.Load() {
		return true
	}
	wait := b.retryAt.Sub(now)
	return wait <= 0 || wait > b.backoff // the clock was set back
}

// refresh reads the store if that is due and nobody else is in it.
func (b *Breaker) refresh(ctx context.Context) {
	if b.private || b.fresh() {
		return
	}
	b.mu.Lock()
	if !b.enter(nil) {
		b.mu.Unlock()
		b.awaitLook()
		return
	}
	look := make(chan struct{})
	b.look, b.slowLook = look, false
	b.mu.Unlock()
	op, cancel := b.detached(ctx)
	_, _ = b.exchange(op, nil)
	cancel()
	b.mu.Lock()
	b.look = nil
	b.mu.Unlock()
	close(look)
	<-b.lane
	b.drain(ctx)
}

// awaitLook waits a moment for another caller's look at a store whose number
// says that somebody has written: what is in memory is then known to be old. A
// look that takes longer holds nobody up again.
func (b *Breaker) awaitLook() {
	b.mu.Lock()
	look, wait := b.look, b.numbers != nil && !b.slowLook && !b.down.Load()
	b.mu.Unlock()
	if look == nil || !wait {
		return
	}
	select {
	case <-look:
	case <-realClock{}.After(b.cfg.StoreTimeout / 10):
		b.mu.Lock()
		b.slowLook = b.look == look
		b.mu.Unlock()
	}
}

// drain writes what is pending unless somebody else is in the store, who will.
func (b *Breaker) drain(ctx context.Context) {
	for !b.private {
		b.mu.Lock()
		due := (len(b.pending) > 0 || b.diverged) && b.usable(b.clock.Now())
		b.mu.Unlock()
		if !due || !b.enter(nil) {
			return
		}
		op, cancel := b.detached(ctx)
		_, _ = b.exchange(op, nil)
		cancel()
		<-b.lane
	}
}

// transact has ev applied in the store, or in memory when the store fails.
func (b *Breaker) transact(ctx context.Context, ev event) (effect, error) {
	ctx, cancel := b.detached(ctx)
	defer cancel()
	if !b.enter(ctx.Done()) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.commit(ev), b.storeError(context.Cause(ctx))
	}
	defer func() { <-b.lane }()
	return b.exchange(ctx, &ev)
}

// detached is the context of one operation: the caller's cancel does not cut it
// off, since the outcome would not be known.
func (b *Breaker) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), b.cfg.StoreTimeout)
}

// enter takes the lane, waiting for it until giveUp; nil does not wait.
func (b *Breaker) enter(giveUp <-chan struct{}) bool {
	select {
	case b.lane <- struct{}{}:
		return true
	default:
	}
	if giveUp == nil {
		return false
	}
	select {
	case b.lane <- struct{}{}:
		return true
	case <-giveUp:
		return false
	}
}

// exchange has the pending events, and then ev if there is one, applied to what
// is stored, and takes over the result. When the store fails ev is applied in
// memory. The lane is held.
func (b *Breaker) exchange(ctx context.Context, ev *event) (effect, error) {
	b.mu.Lock()
	if !b.usable(b.clock.Now()) {
		defer b.mu.Unlock()
		if ev == nil {
			return effect{}, nil
		}
		return b.commit(*ev), b.storeError(errDown)
	}
	events := b.pending[:len(b.pending):len(b.pending)]
	mine, diverged := b.rec, b.diverged
	b.flying = true
	b.mu.Unlock()

	var seq uint64
	var err error
	if b.numbers != nil {
		// Before the operation: a write that comes between is seen later.
		seq, err = b.numbers.Seq(b.cfg.Name)
	}
	var out exchanged
	if err == nil {
		apply := func(s record) exchanged {
			var eff effect
			if diverged && mine.Epoch > s.Epoch {
				// The store has slept through our transitions.
				trips := max(mine.TripsTotal, s.TripsTotal)
				s, eff.changed = mine, true
				s.TripsTotal = trips
			}
			for _, e := range events {
				next, did := b.rules.step(s, e)
				s, eff.changed = next, eff.changed || did.changed
			}
			if ev != nil {
				next, did := b.rules.step(s, *ev)
				did.changed = did.changed || eff.changed
				s, eff = next, did
			}
			return exchanged{rec: s, eff: eff}
		}
		out, err = b.run(ctx, func(ctx context.Context) (exchanged, error) { return b.update(ctx, mine.Epoch, apply) })
	}

	if out.wrote && b.numbers != nil {
		// One step means that nobody else has written.
		if n, err := b.numbers.Seq(b.cfg.Name); err == nil && n == seq+1 {
			seq = n
		}
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	b.flying = false
	now := b.clock.Now()
	if err != nil {
		b.failed(err, now)
		if ev == nil {
			return effect{}, nil
		}
		return b.commit(*ev), b.storeError(err)
	}
	b.adopt(out, len(events), ev, now)
	b.worked(seq, now) // last: whoever finds the number fresh must find the state
	return out.eff, nil
}

// adopt takes over what the store holds now, with what is pending since on top.
// The lock is held.
func (b *Breaker) adopt(out exchanged, sent int, ev *event, now time.Time) {
	from := b.rec.State
	b.base, b.diverged = out.rec, false
	b.pending = append([]event(nil), b.pending[sent:]...)
	next := out.rec
	for _, e := range b.pending {
		next, _ = b.rules.step(next, e)
	}
	b.install(next, now)
	switch {
	case ev != nil && out.eff.moved:
		b.report(from, *ev, false)
	case from != next.State:
		b.report(from, event{now: now}, true)
	}
}

// remember keeps ev, which has been applied in memory, for the store. The lock
// is held.
func (b *Breaker) remember(ev event) {
	if b.down.Load() && !b.flying {
		b.forget()
		if b.diverged {
			return // the whole record will be written
		}
		if ev.kind == evSuccess {
			b.pending = nil // it zeroed what they counted
		}
	}
	b.pending = append(b.pending, ev)
}

// forget drops the pending events once the record itself is what must be
// written: when it has made a transition that the store does not know of.
func (b *Breaker) forget() {
	if b.rec.Epoch != b.base.Epoch {
		b.diverged, b.pending = true, nil
	}
}

// failed notes a failure of the store. The lock is held.
func (b *Breaker) failed(err error, now time.Time) {
	b.counts.storeErrors++
	b.backoff = min(max(2*b.backoff, firstBackoff), lastBackoff)
	b.retryAt = now.Add(b.backoff)
	b.down.Store(true)
	b.forget()
	if !b.reported {
		b.reported = true
		b.trouble(b.storeError(err), now)
	}
}

// worked notes that the store works. The lock is held.
func (b *Breaker) worked(seq uint64, now time.Time) {
	b.seq.Store(seq)
	b.looked.Store(now.UnixNano())
	b.unsure.Store(false)
	if b.down.Load() {
		b.down.Store(false)
		b.backoff, b.reported = 0, false
		b.changes.Add(Change{note: "the store works again"})
	}
}

func (b *Breaker) storeError(err error) error { return &StoreError{Name: b.cfg.Name, Err: err} }

// trouble queues a report about the store. The lock is held.
func (b *Breaker) trouble(err error, now time.Time) {
	state := b.rec.State
	b.changes.Add(Change{Name: b.cfg.Name, From: state, To: state, At: now, Err: err})
}

// run has one operation done in a goroutine of its own, since a store may hang
// in the kernel, where no context reaches it. What it finds later is dropped.
func (b *Breaker) run(ctx context.Context, op func(context.Context) (exchanged, error)) (exchanged, error) {
	if b.stuck.Load() > 0 {
		return exchanged{}, errStuck
	}
	type reply struct {
		exchanged
		err error
	}
	replies := make(chan reply, 1)
	b.stuck.Add(1)
	go func() {
		r := reply{err: errors.New("breaker: the store ended its goroutine")}
		defer func() {
			if v := recover(); v != nil {
				r = reply{err: fmt.Errorf("breaker: the store panicked: %s", hook.Text(v))}
			}
			b.stuck.Add(-1)
			replies <- r
		}()
		// A little less time than the caller has, so that a store that obeys
		// can say what it was waiting for.
		deadline, _ := ctx.Deadline()
		ctx, cancel := context.WithTimeout(ctx, time.Until(deadline)*9/10)
		defer cancel()
		r.exchanged, r.err = op(ctx)
	}()
	select {
	case r := <-replies:
		return r.exchanged, r.err
	case <-ctx.Done():
		return exchanged{}, fmt.Errorf("breaker: no answer within %v: %w", b.cfg.StoreTimeout, context.Cause(ctx))
	}
}
