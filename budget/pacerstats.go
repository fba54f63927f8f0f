package budget

import (
	"context"
	"iter"
	"log/slog"
	"time"
)

// PacerEventKind says what a [PacerEvent] tells.
type PacerEventKind string

// The kinds of events of a pacer.
const (
	PacerHeld PacerEventKind = "held" // the key is held until Until
	PacerCut  PacerEventKind = "cut"  // held, and the measured limit is now Rate calls a minute
	PacerLate PacerEventKind = "late" // a turn past its deadline was refused; Err is the *LateError
)

// PacerEvent is something a pacer's operator wants to know.
type PacerEvent struct {
	Kind   PacerEventKind
	At     time.Time
	Pacer  string
	Status int // the answer's, when there is one
	Until  time.Time
	Rate   float64
	Err    error
}

func (p *Pacer) emit(e PacerEvent) {
	if p.logger == nil && p.events.Hook == nil {
		return
	}
	e.Pacer, e.At = p.name, p.clock.Now()
	if p.logger != nil {
		p.logger.Log(context.Background(), slog.LevelInfo, "pacer "+string(e.Kind), "pacer", e.Pacer,
			"status", e.Status, "until", e.Until, "rate", e.Rate, "err", e.Err)
	}
	p.events.Tell(e)
}

func (p *Pacer) hookPanicked(text string) {
	p.mu.Lock()
	p.stats.HookPanics++
	p.mu.Unlock()
	if p.logger != nil {
		p.logger.Error("budget: pacer's OnEvent panicked", "pacer", p.name, "panic", text)
	}
}

// PacerStats counts what a pacer did. Waiting, Rate, Limit and Held are gauges,
// everything else only grows.
type PacerStats struct {
	Name string `json:"name"`

	Sent        int64   `json:"sent"`         // turns given, Express among them
	Express     int64   `json:"express"`      // that did not queue
	Waited      int64   `json:"waited"`       // that had to wait
	WaitSeconds float64 `json:"wait_seconds"` // how long they waited in all
	Abandoned   int64   `json:"abandoned"`    // callers that left the queue
	Late        int64   `json:"late"`         // callers refused for their deadline
	Unsent      int64   `json:"unsent"`       // turns given back
	Passed      int64   `json:"passed"`       // calls that the upstream took
	Refused     int64   `json:"refused"`      // calls that it refused with 429
	Holds       int64   `json:"holds"`        // times that the key was held
	Cuts        int64   `json:"cuts"`         // times that the limit was measured
	HookPanics  int64   `json:"hook_panics"`  // OnEvent panicked or ended its goroutine

	Waiting int     `json:"waiting"` // in the queue
	Rate    float64 `json:"rate"`    // calls a minute; 0 when only Tokens is known
	Limit   float64 `json:"limit"`   // calls a minute as measured by Adapt; 0 when not yet
	Held    float64 `json:"held"`    // seconds for which the key is held still
}

// Sub returns what was counted since older. Gauges are s's.
func (s PacerStats) Sub(older PacerStats) PacerStats {
	s.Sent -= older.Sent
	s.Express -= older.Express
	s.Waited -= older.Waited
	s.WaitSeconds -= older.WaitSeconds
	s.Abandoned -= older.Abandoned
	s.Late -= older.Late
	s.Unsent -= older.Unsent
	s.Passed -= older.Passed
	s.Refused -= older.Refused
	s.Holds -= older.Holds
	s.Cuts -= older.Cuts
	s.HookPanics -= older.HookPanics
	return s
}

// All yields every counter and gauge under its JSON name.
func (s PacerStats) All() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for _, f := range []struct {
			name  string
			value float64
		}{
			{"sent", float64(s.Sent)},
			{"express", float64(s.Express)},
			{"waited", float64(s.Waited)},
			{"wait_seconds", s.WaitSeconds},
			{"abandoned", float64(s.Abandoned)},
			{"late", float64(s.Late)},
			{"unsent", float64(s.Unsent)},
			{"passed", float64(s.Passed)},
			{"refused", float64(s.Refused)},
			{"holds", float64(s.Holds)},
			{"cuts", float64(s.Cuts)},
			{"hook_panics", float64(s.HookPanics)},
			{"waiting", float64(s.Waiting)},
			{"rate", s.Rate},
			{"limit", s.Limit},
			{"held", s.Held},
		} {
			if !yield(f.name, f.value) {
				return
			}
		}
	}
}

// Stats returns the counters so far.
func (p *Pacer) Stats() PacerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	s := p.stats
	s.Name, s.Waiting = p.name, p.queue.n
	if p.requests != nil {
		s.Rate = p.requests.perSecond() * 60
	}
	if p.curve != nil {
		r := p.curve.rate(now) * 60
		if s.Rate == 0 || r < s.Rate {
			s.Rate = r
		}
		s.Limit = p.curve.limit * 60
	}
	s.Held = max(p.hold.Sub(now).Seconds(), 0)
	return s
}

// String returns the Stats as JSON, which makes a Pacer an expvar.Var.
func (p *Pacer) String() string { return jsonText(p.Stats()) }
