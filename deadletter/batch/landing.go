package batch

import (
	"errors"

	"github.com/nightfuse/nightfuse/internal/call"
)

// maxRefusedKeys is how many items in a row may meet a refused key where no
// breaker stops them.
const maxRefusedKeys = 3

// take takes an item from the source.
func (l *loop) take(in listed) {
	rep := &l.report
	if !in.twice {
		in.entry.turn = l.probes.turn(in.entry.it.ID)
	}
	switch {
	case in.twice:
		rep.Duplicates++
		if rep.Duplicates == 1 {
			l.warn("an id came more than once; only its first item counts")
		}
	case in.err != nil:
		// The folder of results cannot be read: what it holds would be paid
		// for again.
		l.warn("%v", in.err)
		l.leave(in.entry.it.ID)
		reason := "lost"
		if errors.As(in.err, new(noID)) {
			reason = "usage"
		}
		l.stop(reason, in.err)
	case in.fate == done:
		l.lastDone = l.cfg.Clock.Now() // reading is getting on, too
		rep.Done++
		rep.Skipped++
		l.probes.over(in.entry.it.ID)
	case in.fate == dead:
		rep.Dead++
		rep.DeadBefore++
		addName(&rep.DeadItems, in.entry.it.ID)
	case l.stopped:
		l.leave(in.entry.it.ID)
	default:
		l.backlog.push(in.entry)
	}
}

// land takes an item back from its worker.
func (l *loop) land(f *flight) {
	delete(l.flights, f)
	if l.probing == f {
		l.probing = nil
	}
	now, id, n := l.cfg.Clock.Now(), f.entry.it.ID, f.made
	l.landedAt = now
	l.calls += n
	if n > 0 && !f.entry.called {
		f.entry.called = true
		l.called++
	}
	rep := &l.report
	switch f.fate {
	case done:
		rep.Done++
		l.meter.item(now.Sub(f.began))
		l.lastDone, l.anyDone = now, true
		l.probes.over(id)
		l.keys, l.held, l.spins = 0, 0, 0
		clear(l.alarms.repeats)
	case dead:
		rep.Dead++
		addName(&rep.DeadItems, id)
		if n > 0 {
			l.keys = 0
		}
		l.failed(f.failure.Signature, f.failure.SignatureText)
	case lost:
		rep.Lost++
		addName(&rep.LostItems, id)
		l.warn("%.200s is lost: %v", id, f.err)
		if !f.unfit {
			l.stop("lost", f.err)
		} else if l.cause == nil {
			l.cause = f.err
		}
	case released:
		l.failed(f.failure.Signature, f.failure.SignatureText)
		f.entry.turn, f.entry.era = l.probes.failed(id), l.era
		l.again(f.entry)
	case refused:
		if n > 0 {
			// A retry inside has tried again and met the breaker that its own
			// failed call had opened, for another reason than a key.
			if f.probe {
				f.entry.turn = l.probes.failed(id)
			}
			l.keys = 0
		}
		l.again(f.entry)
		l.refuse(f)
		return
	case unauthed:
		l.failed(f.failure.Signature, f.failure.SignatureText)
		if f.entry.keyed {
			l.leave(id) // this key does not do this item
			return
		}
		f.entry.turn, f.entry.keyed = l.probes.failed(id), true
		l.again(f.entry)
		if l.keys++; l.keys >= maxRefusedKeys {
			l.stop("auth", f.err)
		}
		return
	default:
		l.leave(id)
		return
	}
	if f.probe && !f.upstream {
		l.alone, l.spins = false, 0 // it went through, or failed by its own fault
	}
}

// guardOf names the guard behind a refusal, and never as a run names an end of
// its own.
func guardOf(refusal error) string {
	switch by := call.RefusedBy(refusal); by {
	case "", "auth", "cancelled", "lost", "panic", "patience", "signal", "until", "usage":
		return "guard"
	default:
		return by
	}
}

// refuse holds, or ends the run, because a guard refused f's item.
func (l *loop) refuse(f *flight) {
	by := guardOf(f.refusal)
	switch {
	case l.stopped:
		l.reasons[by] = true
	case l.hold != nil || f.era != l.era:
		// Of the same refusal, or of one that is over.
	case l.cfg.Hold == 0 && by == "breaker" && l.keys > 0:
		l.stop("auth", f.refusal) // it has opened for a refused key
	case l.cfg.Hold == 0:
		l.stop(by, f.refusal)
	default:
		l.beginHold(by, f.refusal)
	}
}

// again puts an item back.
func (l *loop) again(e *entry) {
	if l.stopped {
		l.leave(e.it.ID)
		return
	}
	l.backlog.push(e)
}

// leave counts an item that stays for the next run.
func (l *loop) leave(id string) {
	l.report.Pending++
	addName(&l.report.PendingItems, id)
}
