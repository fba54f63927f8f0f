package budget

import (
	"context"
	"log/slog"
	"time"
)

// EventKind says what an [Event] tells.
type EventKind string

// The kinds of events.
const (
	EventRefused      EventKind = "refused"       // Reserve or Adjust said no; Err is the *RefusedError
	EventDegraded     EventKind = "degraded"      // the store failed; told once until it works again
	EventRecovered    EventKind = "recovered"     // the store works again
	EventBooked       EventKind = "booked"        // Amount, granted while the store failed, is in the store now
	EventSettleFailed EventKind = "settle-failed" // a settlement did not reach the store: the estimate stays spent
	EventWindowGone   EventKind = "window-gone"   // a settlement met no counter: its window was dropped
	EventOvershoot    EventKind = "overshoot"     // Amount is how far the hard cap is exceeded by actual use
	EventBadAmount    EventKind = "bad-amount"    // an impossible actual Amount: the estimate stays spent
	EventNoUsage      EventKind = "no-usage"      // an answer ended without usage: the estimate stays spent
	EventAdjusted     EventKind = "adjusted"      // an operator changed what is spent by Amount
)

// Event is something a budget's operator wants to know.
type Event struct {
	Kind     EventKind
	At       time.Time
	Budget   string
	Owner    string
	Window   string
	Amount   int64 // see Kind
	Estimate int64 // the reservation's, when there is one
	Err      error
}

// emit hands e to the logger and the hook; no lock is held.
func (b *Budget) emit(e Event) {
	if b.logger == nil && b.events.Hook == nil {
		return
	}
	e.Budget, e.At = b.name, b.clock.Now()
	if b.logger != nil {
		level := slog.LevelWarn
		switch e.Kind {
		case EventRefused:
			level = slog.LevelDebug
		case EventRecovered, EventBooked, EventAdjusted:
			level = slog.LevelInfo
		}
		b.logger.Log(context.Background(), level, "budget "+string(e.Kind), "budget", e.Budget, "owner", e.Owner,
			"window", e.Window, "amount", e.Amount, "estimate", e.Estimate, "err", e.Err)
	}
	b.events.Tell(e)
}

func (b *Budget) hookPanicked(text string) {
	b.mu.Lock()
	b.stats.HookPanics++
	b.mu.Unlock()
	if b.logger != nil {
		b.logger.Error("budget: OnEvent panicked", "budget", b.name, "panic", text)
	}
}
