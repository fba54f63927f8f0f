package breaker

import (
	"sync/atomic"
	"time"
	"unsafe"
)

// phase is what a call needs to know between two transitions: immutable but
// for dirty, so that it can be read without a lock.
type phase struct {
	state State
	epoch uint64
	dirty atomic.Bool // closed: a success must be told to the machine

	// Open and half-open only. from and until keep the monotonic part of this
	// process's clock; anchor is the stored wall time that from stands for.
	err         *OpenError
	anchor      time.Time
	span        time.Duration
	token       string
	from, until time.Time
	sure        bool          // anchor did not lie in the future
	changed     chan struct{} // closed when this phase is over
}

func (b *Breaker) newPhase(s record, now time.Time) *phase {
	ph := &phase{state: s.State, epoch: s.Epoch, token: s.Probe.Token, sure: true}
	switch {
	case s.State == Closed:
		ph.dirty.Store(b.window.on || s.dirty())
		return ph
	case s.State == Open:
		ph.anchor, ph.span = s.OpenedAt, b.rules.openFor(s)
	case s.Probe.Token != "":
		ph.anchor, ph.span = s.Probe.GrantedAt, b.rules.leaseFor(s)
	default:
		ph.anchor = wall(now) // the slot is free: due at once
	}
	age := now.Sub(ph.anchor)
	if age < 0 {
		age, ph.sure = 0, false
	}
	ph.from = now.Add(-age)
	ph.until = ph.from.Add(ph.span)
	ph.err = &OpenError{Name: b.cfg.Name, State: s.State, Until: wall(ph.until), Reason: s.Reason, Signature: s.Signature, b: b}
	ph.changed = make(chan struct{})
	return ph
}

// is reports whether nothing has happened between ph and next.
func (ph *phase) is(next *phase) bool {
	return ph.state == next.state && ph.epoch == next.epoch && ph.token == next.token && ph.span == next.span &&
		(ph.span == 0 || ph.anchor.Equal(next.anchor))
}

// lasts reports whether calls are refused now, as far as that is certain
// without the lock. It reads the clock once, and the real one in its cheap
// monotonic way.
func (ph *phase) lasts(b *Breaker) bool {
	if !ph.sure {
		return false
	}
	if b.real {
		return time.Until(ph.until) > 0
	}
	now := b.clock.Now()
	return now.Before(ph.until) && !now.Before(ph.from)
}

// left is how long calls are still refused, 0 or less when a probe may go out.
// A clock that was set back counts from now.
func (ph *phase) left(now time.Time) time.Duration {
	return min(ph.until.Sub(now), ph.span)
}

// seen is what this process measured since the current anchor. The lock is
// held.
func (b *Breaker) seen(now time.Time) sighting {
	ph := b.phase.Load()
	if ph.err == nil || !ph.sure {
		return sighting{}
	}
	return sighting{ph.epoch, ph.anchor, now.Sub(ph.from)}
}

// stripes spread the counters of every call over cache lines, so that callers
// on different cores do not take one from each other.
const stripes = 8

type stripe struct {
	in      atomic.Uint64 // admitted
	ok      atomic.Uint64 // succeeded with nothing to tell the machine
	refused atomic.Uint64
	_       [5]uint64
}

// stripeOf picks by the permit's address: it lies on the caller's stack, so
// that a goroutine keeps its stripe and others mostly have another.
func stripeOf(p *Permit) uint8 {
	at := uint64(uintptr(unsafe.Pointer(p))) >> 10
	return uint8(at * 0x9e3779b97f4a7c15 >> 61)
}

// flight is how many permits are out. Calls that begin or end meanwhile count
// as out. The lock is held.
func (b *Breaker) flight() int {
	// The ends first: a call that ends during the sum must not look as if it
	// had never begun.
	out := -int64(b.counts.slow)
	for i := range b.stripes {
		out -= int64(b.stripes[i].ok.Load())
	}
	for i := range b.stripes {
		out += int64(b.stripes[i].in.Load())
	}
	return int(max(out, 0))
}

// streak is the run of failures in hand, as far as only this process can know
// it: which of its calls were out when it began.
type streak struct {
	on    bool
	stage uint32 // permits of an earlier stage are older than the streak
	slack int    // calls out when it began
	older int    // of these, still out
	stale int    // permits out from before the last transition

	daily uint32 // the stage raised by the first daily quota
	seen  map[counted]struct{}
}

// counted is one item under one signature.
type counted struct {
	sig  string
	item any
}

func (s *streak) end() {
	s.on, s.slack, s.older, s.daily, s.seen = false, 0, 0, 0, nil
}
