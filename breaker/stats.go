package breaker

import (
	"encoding/json"
	"iter"
	"time"

	"github.com/nightfuse/nightfuse/signature"
)

// Stats is what a breaker knows of itself, at one moment.
type Stats struct {
	Name string `json:"name"`

	// The state as it counts now, and of the stored record.
	State      State        `json:"state"`
	Until      time.Time    `json:"until,omitzero"` // the end of the opening or of the probe's lease
	Reason     string       `json:"reason,omitempty"`
	Signature  signature.ID `json:"signature,omitempty"`
	Streak     int          `json:"streak"` // failures since the last success
	TripsTotal uint64       `json:"trips_total"`
	LastTrip   Trip         `json:"last_trip,omitzero"`

	// Gauges of this process.
	InFlight int `json:"in_flight"` // permits that are not settled
	Waiting  int `json:"waiting"`   // callers in Wait

	// Counters of this process.
	Admitted    uint64 `json:"admitted"`
	Refused     uint64 `json:"refused"`
	Shadowed    uint64 `json:"shadowed"` // would have been refused
	Successes   uint64 `json:"successes"`
	Failures    uint64 `json:"failures"` // fatal ones included
	Fatals      uint64 `json:"fatals"`
	Ignored     uint64 `json:"ignored"`
	Stale       uint64 `json:"stale"` // results from before the last transition
	Probes      uint64 `json:"probes"`
	Trips       uint64 `json:"trips"`        // from closed to open, seen or made
	StoreErrors uint64 `json:"store_errors"` // failed operations of the store
	Damaged     uint64 `json:"damaged"`      // damaged records set aside
	HookPanics  uint64 `json:"hook_panics"`  // OnChange panicked or ended its goroutine
}

// counts are the counters that are kept under the lock.
type counts struct {
	slow                                 uint64 // settled under the lock
	successes, failures, fatals, ignored uint64
	stale, probes, shadowed, trips       uint64
	storeErrors, damaged, hookPanics     uint64
}

func (c *counts) settled(o Outcome) {
	c.slow++
	switch o {
	case Success:
		c.successes++
	case Fatal:
		c.fatals++
		c.failures++
	case Failure:
		c.failures++
	default:
		c.ignored++
	}
}

// Stats returns the state and the counters, after the look at the store that
// Allow would take.
func (b *Breaker) Stats() Stats {
	b.State()
	return b.stats()
}

func (b *Breaker) stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, c := b.rec, b.counts
	out := Stats{
		Name: b.cfg.Name, State: s.State, Reason: s.Reason, Signature: s.Signature, Streak: s.Failures,
		TripsTotal: s.TripsTotal, LastTrip: s.LastTrip,
		InFlight: b.flight(), Waiting: int(b.waiting.Load()),
		Shadowed: c.shadowed, Failures: c.failures, Fatals: c.fatals, Ignored: c.ignored, Stale: c.stale,
		Probes: c.probes, Trips: c.trips, StoreErrors: c.storeErrors, Damaged: c.damaged, HookPanics: c.hookPanics,
		Successes: c.successes,
	}
	if ph := b.phase.Load(); ph.err != nil {
		out.Until = ph.err.Until
	}
	for i := range b.stripes {
		out.Successes += b.stripes[i].ok.Load()
		out.Admitted += b.stripes[i].in.Load()
		out.Refused += b.stripes[i].refused.Load()
	}
	return out
}

// add adds another breaker's numbers, for a Group.
func (s *Stats) add(o Stats) {
	if o.State != Closed && (s.State == Closed || o.State == Open && s.State == HalfOpen ||
		o.State == s.State && o.Until.Before(s.Until)) {
		s.State, s.Until, s.Reason, s.Signature = o.State, o.Until, o.Reason, o.Signature
	}
	if o.LastTrip.At.After(s.LastTrip.At) {
		s.LastTrip = o.LastTrip
	}
	s.Streak += o.Streak
	s.TripsTotal += o.TripsTotal
	s.InFlight += o.InFlight
	s.Waiting += o.Waiting
	s.Admitted += o.Admitted
	s.Refused += o.Refused
	s.Shadowed += o.Shadowed
	s.Successes += o.Successes
	s.Failures += o.Failures
	s.Fatals += o.Fatals
	s.Ignored += o.Ignored
	s.Stale += o.Stale
	s.Probes += o.Probes
	s.Trips += o.Trips
	s.StoreErrors += o.StoreErrors
	s.Damaged += o.Damaged
	s.HookPanics += o.HookPanics
}

// Sub returns s with the counters reduced by those of older, an earlier value
// of the same breaker: what happened in between. State and gauges stay.
func (s Stats) Sub(older Stats) Stats {
	s.Admitted -= older.Admitted
	s.Refused -= older.Refused
	s.Shadowed -= older.Shadowed
	s.Successes -= older.Successes
	s.Failures -= older.Failures
	s.Fatals -= older.Fatals
	s.Ignored -= older.Ignored
	s.Stale -= older.Stale
	s.Probes -= older.Probes
	s.Trips -= older.Trips
	s.StoreErrors -= older.StoreErrors
	s.Damaged -= older.Damaged
	s.HookPanics -= older.HookPanics
	return s
}

// All yields every number of s by the name it has in JSON, and the state as 0
// (closed), 1 (open) or 2 (half-open), in a fixed order.
func (s Stats) All() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		_ = yield("state", float64(s.State)) &&
			yield("streak", float64(s.Streak)) &&
			yield("trips_total", float64(s.TripsTotal)) &&
			yield("in_flight", float64(s.InFlight)) &&
			yield("waiting", float64(s.Waiting)) &&
			yield("admitted", float64(s.Admitted)) &&
			yield("refused", float64(s.Refused)) &&
			yield("shadowed", float64(s.Shadowed)) &&
			yield("successes", float64(s.Successes)) &&
			yield("failures", float64(s.Failures)) &&
			yield("fatals", float64(s.Fatals)) &&
			yield("ignored", float64(s.Ignored)) &&
			yield("stale", float64(s.Stale)) &&
			yield("probes", float64(s.Probes)) &&
			yield("trips", float64(s.Trips)) &&
			yield("store_errors", float64(s.StoreErrors)) &&
			yield("damaged", float64(s.Damaged)) &&
			yield("hook_panics", float64(s.HookPanics))
	}
}

// String returns Stats as JSON, which makes a Breaker an expvar.Var.
func (b *Breaker) String() string {
	text, err := json.Marshal(b.Stats())
	if err != nil {
		return "{}"
	}
	return string(text)
}
