package breaker

import (
	"log/slog"
	"time"

	"github.com/nightfuse/nightfuse/signature"
)

// Change is what OnChange is told: a transition, or trouble with the store.
type Change struct {
	Name      string
	From, To  State
	At        time.Time    // this process's clock
	Until     time.Time    // the end of the opening or of the probe's lease; zero when closed
	Reason    string       // why; from Trip and Reset, the caller's
	Signature signature.ID // of the failure that tripped it, if any
	Remote    bool         // another process's doing, seen in the store
	Err       error        // a *StoreError; From and To are then equal

	note string // for the log only
}

// report queues a change that was just installed. The lock is held.
func (b *Breaker) report(from State, ev event, remote bool) {
	ph := b.phase.Load()
	if from == HalfOpen && ph.state == HalfOpen {
		return // the slot is free again, or has gone to another caller
	}
	c := Change{Name: b.cfg.Name, From: from, To: ph.state, At: ev.now, Reason: b.rec.Reason, Signature: b.rec.Signature, Remote: remote}
	if ph.err != nil {
		c.Until = ph.err.Until
	}
	if ev.kind == evReset && !remote {
		c.Reason = ev.reason
	}
	if from == Closed && c.To == Open {
		b.counts.trips++
	}
	b.changes.Add(c)
}

// deliver is the hook of the queued changes.
func (b *Breaker) deliver(c Change) {
	b.logChange(c)
	if c.note == "" && b.cfg.OnChange != nil {
		b.cfg.OnChange(c)
	}
}

func (b *Breaker) hookPanicked(text string) {
	b.mu.Lock()
	b.counts.hookPanics++
	b.mu.Unlock()
	b.log(slog.LevelError, "OnChange panicked", "panic", text)
}

func (b *Breaker) logChange(c Change) {
	if c.note != "" {
		b.log(slog.LevelInfo, c.note)
		return
	}
	if c.Err != nil {
		b.log(slog.LevelWarn, c.Err.Error())
		return
	}
	level := slog.LevelInfo
	if c.To == Open {
		level = slog.LevelWarn
	}
	args := []any{"from", c.From.String(), "to", c.To.String()}
	if c.Reason != "" {
		args = append(args, "reason", c.Reason)
	}
	if c.Signature != "" {
		args = append(args, "signature", string(c.Signature))
	}
	switch {
	case c.Until.IsZero():
	case c.To == HalfOpen:
		args = append(args, "lease_until", c.Until) // calls go on as soon as the probe succeeds
	default:
		args = append(args, "until", c.Until)
	}
	if c.Remote {
		args = append(args, "remote", true)
	}
	b.log(level, "breaker is "+c.To.String(), args...)
}
