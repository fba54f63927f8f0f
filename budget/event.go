package budget

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
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
	if b.logger == nil && b.events.hook == nil {
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
	b.events.emit(e)
}

func (b *Budget) hookPanicked(v any) {
	b.mu.Lock()
	b.stats.HookPanics++
	b.mu.Unlock()
	if b.logger != nil {
		b.logger.Error("budget: OnEvent panicked", "budget", b.name, "panic", fmt.Sprint(v))
	}
}

// events calls a hook with one event at a time, in order. Whoever finds
// another at it leaves its event there: the hook may emit events itself.
type events[E any] struct {
	hook func(E)
	lost func(panicked any)

	mu    sync.Mutex
	queue []E
	busy  bool
}

func (q *events[E]) emit(e E) {
	if q.hook == nil {
		return
	}
	q.mu.Lock()
	q.queue = append(q.queue, e)
	if q.busy {
		q.mu.Unlock()
		return
	}
	q.busy = true
	for len(q.queue) > 0 {
		e := q.queue[0]
		q.queue = q.queue[1:]
		q.mu.Unlock()
		q.call(e)
		q.mu.Lock()
	}
	q.busy, q.queue = false, nil
	q.mu.Unlock()
}

func (q *events[E]) call(e E) {
	done := false
	defer func() {
		if done {
			return
		}
		if v := recover(); v != nil {
			q.lost(v)
			return
		}
		// The hook ended the goroutine: the rest is for whoever comes next.
		q.mu.Lock()
		q.busy = false
		q.mu.Unlock()
	}()
	q.hook(e)
	done = true
}
