package breaker

import (
	"context"
	mathrand "math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/signature"
)

// Permit is the right to make one call. Settle it with Done or one of its short
// forms when the call has ended; the first one wins. A permit that is never
// settled counts as a call that is still out; if it was a probe, its lease runs
// out. Safe for concurrent use. The methods of a nil Permit do nothing.
type Permit struct {
	b      *Breaker
	ctx    context.Context
	phase  *phase
	token  string
	done   atomic.Bool
	stage  uint32
	stripe uint8
}

// Result is how a call ended. The zero value is a success.
type Result struct {
	// Outcome is the verdict. Auto = from Err, as the package guide's table
	// has it.
	Outcome Outcome

	// Err is the failure, nil when there was none.
	Err error

	// Signature groups equal failures. "" = that of Err.
	Signature signature.ID

	// Wait is how long the server asks to wait. 0 = what Err says by a method
	// RetryAt, or in the response that an SDK's error keeps, if anything.
	Wait time.Duration

	daily bool
}

// Done settles the permit.
func (p *Permit) Done(r Result) {
	if r.Outcome == Auto && r.Err == nil || r.Outcome == Success {
		p.Success()
		return
	}
	if p == nil || !p.done.CompareAndSwap(false, true) {
		return
	}
	if r.Outcome == Auto {
		own := r
		r = judge(p.ctx, r.Err, p.b.clock.Now())
		r.Signature = own.Signature
		if own.Wait > 0 {
			r.Wait = own.Wait
		}
	}
	p.b.settle(p.claim(), r)
}

// Success settles the permit for a call that worked.
func (p *Permit) Success() {
	if p == nil || !p.done.CompareAndSwap(false, true) {
		return
	}
	b, ph := p.b, p.phase
	if ph.err == nil && !ph.dirty.Load() && b.phase.Load() == ph {
		b.stripes[p.stripe].ok.Add(1)
		return
	}
	b.settle(p.claim(), Result{Outcome: Success})
}

// Failure settles the permit for a call that failed; err, which may be nil,
// tells its signature. Where err is the caller's own cancel or says that
// nothing was sent, it counts as ignored.
func (p *Permit) Failure(err error) {
	if p == nil || !p.done.CompareAndSwap(false, true) {
		return
	}
	o := Failure
	if err != nil && unjudged(p.ctx, err) {
		o = Ignored
	}
	p.b.settle(p.claim(), Result{Outcome: o, Err: err})
}

// Ignore settles the permit without a verdict: the call said nothing about the
// upstream.
func (p *Permit) Ignore() {
	if p == nil || !p.done.CompareAndSwap(false, true) {
		return
	}
	p.b.settle(p.claim(), Result{Outcome: Ignored})
}

// Probe reports whether this call is the one probe of a half-open breaker.
func (p *Permit) Probe() bool { return p != nil && p.token != "" }

// claim is what settling needs of a permit, by value, so that the permit itself
// stays on its caller's stack.
type claim struct {
	ctx   context.Context
	phase *phase
	token string
	stage uint32
}

func (p *Permit) claim() claim { return claim{p.ctx, p.phase, p.token, p.stage} }

// settle tells the machine how a call ended.
func (b *Breaker) settle(c claim, r Result) {
	now := b.clock.Now()
	ev := event{now: now, epoch: c.phase.epoch, token: c.token, draw: mathrand.Float64()}
	var who any
	switch r.Outcome {
	case Success:
		ev.kind = evSuccess
	case Failure, Fatal:
		ev.kind = evFailure
		if r.Outcome == Fatal {
			ev.kind = evFatal
		}
		ev.sig, ev.reason, ev.hint, ev.daily = sign(r), reason(r), hint(r, now), r.daily
		who = identity(c.ctx)
	default:
		ev.kind = evIgnored
	}

	b.mu.Lock()
	b.counts.settled(r.Outcome)
	if ev.epoch != b.rec.Epoch {
		b.streak.stale = max(b.streak.stale-1, 0)
	}
	if c.token == "" || b.private {
		b.settleLocked(c, ev, who)
		b.mu.Unlock()
	} else {
		b.mu.Unlock()
		// A probe's result goes to the store first: after its lease another
		// process may have taken over without this one knowing.
		eff, _ := b.transact(c.ctx, ev)
		if eff.stale {
			b.mu.Lock()
			b.counts.stale++
			b.mu.Unlock()
		}
	}
	b.drain(c.ctx)
	b.changes.Run()
}

func (b *Breaker) settleLocked(c claim, ev event, who any) {
	s := &b.streak
	if ev.epoch == b.rec.Epoch && b.rec.State == Closed {
		b.window.add(ev.now, ev.kind)
		if s.on && c.stage < s.stage {
			s.older--
		}
		if ev.kind == evFailure || ev.kind == evFatal {
			b.fail(c, &ev, who)
		}
	}
	eff := b.commit(ev)
	if eff.stale {
		b.counts.stale++
	}
	if ev.kind == evIgnored && s.on && s.older <= 0 {
		// What a trip waited for has ended without a word for the upstream.
		ev.kind = evCheck
		b.commit(ev)
	}
}

// fail adds to a failure what only this process knows. The lock is held.
func (b *Breaker) fail(c claim, ev *event, who any) {
	s := &b.streak
	if !s.on {
		s.on, s.stage = true, b.stage.Add(1)
		s.slack = max(b.flight()-s.stale, 0)
		s.older = s.slack
	}
	if s.older > 0 {
		// Refusals come back fast, answers slowly: while a call from before
		// the first failure is out, its success may still be on the way.
		ev.slack = s.slack
	}
	if ev.daily {
		switch {
		case b.rec.Daily && (s.daily == 0 || c.stage >= s.daily):
			ev.kind = evFatal // it came back: the day is over
		case s.daily == 0:
			s.daily = b.stage.Add(1)
		}
	}
	if who != nil && ev.sig != "" {
		item := counted{string(ev.sig), who}
		if _, ev.again = s.seen[item]; !ev.again {
			if s.seen == nil {
				s.seen = map[counted]struct{}{}
			}
			s.seen[item] = struct{}{}
		}
	}
	ev.ratio = b.window.reached()
}

// identity is what a repeated failure is counted under: the item by its name,
// else by its box, else nothing, so that each call counts.
func identity(ctx context.Context) any {
	box := call.From(ctx)
	if box != nil && box.ID != "" {
		return box.ID
	}
	if it := box.Own(); it != nil {
		return it
	}
	return nil
}
