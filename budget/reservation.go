package budget

import (
	"context"
	"fmt"
	"sync/atomic"
)

// A Reservation is spend that was taken before it happened. Exactly one of
// Reconcile and Cancel ends it; what comes second does nothing but count, so
// that a deferred Cancel is harmless. Its methods are safe for concurrent use.
type Reservation struct {
	b     *Budget
	span  *span
	units int64
	at    int64 // Unix nanoseconds

	next, prev *Reservation // in the owner's list, guarded by b.mu

	owner int32
	ended atomic.Bool
	hard  bool // under the hard cap
	local bool // granted while the store failed
}

// Estimate returns what was reserved.
func (r *Reservation) Estimate() int64 { return r.units }

// Window returns the key of the window that the reservation was made in, which
// is the one that pays.
func (r *Reservation) Window() string { return r.span.key }

// Reconcile ends the reservation with what was really spent. That may exceed
// the estimate and the cap: then the next Reserve is refused. A negative
// actual, or one above MaxAmount, is an error, and the estimate stays spent.
//
// The context's end does not stop it: the store gets Config.StoreTimeout. A
// store's error is returned and is an event; the estimate stays spent. It says
// nothing about the call that was paid.
func (r *Reservation) Reconcile(ctx context.Context, actual int64) error {
	if actual < 0 || actual > MaxAmount {
		if _, err := r.end(ctx, r.units, false); err != nil {
			return err
		}
		err := fmt.Errorf("budget: %s: settled at the estimate of %d: actual %d: %w", r.b.name, r.units, actual, ErrEstimate)
		r.b.emit(r.event(EventBadAmount, actual, err))
		return err
	}
	_, err := r.end(ctx, actual, false)
	return err
}

// Cancel ends the reservation of a call that surely was never sent: all of it
// is given back. See [Reservation.Reconcile] for ctx and the error.
func (r *Reservation) Cancel(ctx context.Context) error {
	_, err := r.end(ctx, 0, true)
	return err
}

func (r *Reservation) end(_ context.Context, actual int64, cancel bool) (first bool, err error) {
	b := r.b
	if !r.ended.CompareAndSwap(false, true) {
		b.mu.Lock()
		b.stats.EndedTwice++
		b.mu.Unlock()
		return false, nil
	}
	// A refund says under which limit it was taken; what comes on top is never
	// refused, since it was spent.
	m := b.take(r.span, int(r.owner), r.hard, actual-r.units)
	if m.delta > 0 {
		m.poolMax, m.ownerMax = 0, 0
	}
	res := moved{ok: true}
	switch {
	case m.delta == 0:
		b.mu.Lock()
	case r.local:
		b.settleOwed(r, m.delta)
		b.mu.Lock()
	case b.mem != nil:
		b.mu.Lock()
		res = b.mem.move(&m)
	default:
		res, err = b.move(context.Background(), m)
		b.mu.Lock()
	}
	b.open[r.owner].remove(r)
	b.stats.Outstanding--
	b.stats.OutstandingUnits -= r.units
	if cancel {
		b.stats.Cancelled++
	} else {
		b.stats.Settled++
		b.stats.SettledUnits += actual
		b.stats.SettledEstimates += r.units
	}
	over := err == nil && m.delta > 0 && res.pool > b.limit
	switch {
	case err != nil:
		b.stats.SettleErrors++
	case res.pool < 0:
		b.stats.WindowGone++
	case over:
		b.stats.Overshoots++
	}
	b.wakeLocked()
	b.mu.Unlock()
	switch {
	case err != nil:
		err = fmt.Errorf("budget: %s: settling, %d stay spent: %w", b.name, r.units, err)
		b.emit(r.event(EventSettleFailed, actual, err))
	case res.pool < 0:
		b.emit(r.event(EventWindowGone, m.delta, nil))
	case over:
		b.emit(r.event(EventOvershoot, res.pool-b.limit, nil))
	}
	return true, err
}

func (r *Reservation) event(k EventKind, amount int64, err error) Event {
	e := Event{Kind: k, Window: r.span.key, Amount: amount, Estimate: r.units, Err: err}
	e.Owner = r.b.ownerName(int(r.owner))
	return e
}

// wakeAll wakes those who await a refusal.
func (b *Budget) wakeAll() {
	b.mu.Lock()
	b.wakeLocked()
	b.mu.Unlock()
}

func (b *Budget) wakeLocked() {
	b.settles.Add(1)
	if b.wake != nil {
		close(b.wake)
		b.wake = nil
	}
}

// list holds one owner's open reservations, oldest first.
type list struct {
	first, last *Reservation
	n           int
	units       int64
}

func (l *list) push(r *Reservation) {
	if r.prev = l.last; r.prev != nil {
		r.prev.next = r
	} else {
		l.first = r
	}
	l.last = r
	l.n++
	l.units += r.units
}

func (l *list) remove(r *Reservation) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.last = r.prev
	}
	r.next, r.prev = nil, nil
	l.n--
	l.units -= r.units
}
