package budget

import (
	"context"
	"time"
)

// storePause is when to ask again after a refusal by a store's failure.
const storePause = time.Second

// debt says whose a sum is that was granted while the store failed.
type debt struct {
	span  *span
	owner int
}

func (b *Budget) storeFailed(err error) {
	b.mu.Lock()
	b.stats.StoreErrors++
	first := !b.degraded
	b.degraded = true
	b.mu.Unlock()
	if first {
		b.emit(Event{Kind: EventDegraded, Err: err})
	}
}

func (b *Budget) storeWorks() {
	b.mu.Lock()
	was := b.degraded
	b.degraded = false
	b.mu.Unlock()
	if was {
		b.emit(Event{Kind: EventRecovered})
	}
}

// withoutStore decides the reservation r while the store fails with err.
func (b *Budget) withoutStore(r *Reservation, m move, owner string, now time.Time, err error) (*Reservation, error) {
	b.mu.Lock()
	if b.policy == Closed || b.policy != Open && m.delta > int64(b.policy)-max(b.owedSum, 0) {
		if b.wake == nil {
			b.wake = make(chan struct{})
		}
		e := &RefusedError{
			Owner: owner, Reason: ErrStore, Estimate: m.delta, Cap: m.poolMax, Window: m.span.key,
			Until: now.Add(storePause), Err: err, wake: b.wake,
		}
		b.mu.Unlock()
		return nil, b.refuse(e)
	}
	r.local = true
	b.owe(debt{m.span, m.owner}, m.delta)
	b.admit(r)
	b.stats.Local++
	b.stats.LocalUnits += m.delta
	b.mu.Unlock()
	return r, nil
}

// owe adds to what is to be booked; b.mu is held.
func (b *Budget) owe(d debt, n int64) {
	if b.owed == nil {
		b.owed = make(map[debt]int64)
	}
	b.owed[d] += n
	b.owedSum += n
	b.owing.Store(true)
}

// settleOwed settles a reservation that was granted while the store failed: by
// what is to be booked, whether the grant itself has been booked already or
// not.
func (b *Budget) settleOwed(r *Reservation, delta int64) {
	b.mu.Lock()
	b.owe(debt{r.span, int(r.owner)}, delta)
	works := !b.degraded
	b.mu.Unlock()
	if works {
		b.book()
	}
}

// book tells the store what was granted while it failed. What it does not take
// is owed on. Whether a failed booking was applied is not known, so it can
// count twice, which is the safe side.
func (b *Budget) book() {
	b.mu.Lock()
	owed := b.owed
	b.owed = nil // owedSum keeps what is under way: until it is booked it counts against Local
	b.owing.Store(false)
	b.mu.Unlock()
	now := b.clock.Now()
	failed := false
	for d, n := range owed {
		if n != 0 && !failed {
			m := move{span: d.span, owner: d.owner, delta: n, expire: max(d.span.expire(now), minKeep)}
			_, err := b.move(context.Background(), m)
			failed = err != nil
			if !failed && n > 0 {
				b.emit(Event{Kind: EventBooked, Owner: b.ownerName(d.owner), Window: d.span.key, Amount: n})
			}
		}
		b.mu.Lock()
		b.owedSum -= n
		if failed && n != 0 {
			b.owe(d, n)
		}
		b.mu.Unlock()
	}
}

func (b *Budget) ownerName(i int) string {
	if len(b.owners) == 0 {
		return ""
	}
	return b.owners[i].Name
}
