package retry

import (
	"encoding/json"
	"iter"
	"math"
	"sync/atomic"
	"time"
)

// Stats is what a [Retrier] has done since it was made, and what it is doing.
// An item is one Do or one RoundTrip from outside; a call is one attempt that
// was sent.
type Stats struct {
	Name string

	Items   uint64 // items begun
	Done    uint64 // items that succeeded
	Failed  uint64 // items that failed, cancelled ones included
	Refused uint64 // items that a guard's refusal ended
	Calls   uint64 // calls sent
	Retries uint64 // calls after an item's first

	Hints     uint64 // failures with a wait hint of the server
	HintEnds  uint64 // items ended with ErrHint
	QuotaEnds uint64 // items ended with ErrQuota
	Holds     uint64 // waits for a guard's refusal
	Foreign   uint64 // calls that a retry of somebody else above repeats

	HookPanics uint64 // OnAttempt or OnWait panicked or ended its goroutine

	Working int64   // items that are neither ended nor waiting
	Waiting Waiting // items that wait

	Recent Recent // the last 15 minutes
}

// Waiting counts the items that wait, by what they wait for.
type Waiting struct {
	Backoff int64 // their own backoff
	Hint    int64 // a server's hint
	Pacer   int64 // a pacer's refusal
	Breaker int64 // a breaker's refusal
	Other   int64 // a refusal of another kind
}

// Recent is the last 15 minutes, to the minute.
type Recent struct {
	Done, Failed, Calls uint64

	// P50 and P95 are quantiles of the time that items took, waits included,
	// to about 4 %; 0 when none ended. Refused items are not in them. P95
	// growing while P50 stays is the sign of stuck items.
	P50, P95 time.Duration
}

// CallsPerDone returns the calls spent per item that succeeded, the number to
// watch: 1.0 is a good night. It is +Inf when calls were made and nothing is
// done, NaN when nothing happened.
func (s Stats) CallsPerDone() float64 { return float64(s.Calls) / float64(s.Done) }

// CallsPerDone is [Stats.CallsPerDone] of the last 15 minutes.
func (r Recent) CallsPerDone() float64 { return float64(r.Calls) / float64(r.Done) }

// Sub returns what happened since older was taken of the same Retrier. Working,
// Waiting and Recent are those of s.
func (s Stats) Sub(older Stats) Stats {
	s.Items -= older.Items
	s.Done -= older.Done
	s.Failed -= older.Failed
	s.Refused -= older.Refused
	s.Calls -= older.Calls
	s.Retries -= older.Retries
	s.Hints -= older.Hints
	s.HintEnds -= older.HintEnds
	s.QuotaEnds -= older.QuotaEnds
	s.Holds -= older.Holds
	s.Foreign -= older.Foreign
	s.HookPanics -= older.HookPanics
	return s
}

// All yields every number under a stable name, durations in seconds. Ratios
// over nothing are NaN or +Inf.
func (s Stats) All() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for _, x := range [...]struct {
			name string
			v    float64
		}{
			{"items", float64(s.Items)},
			{"done", float64(s.Done)},
			{"failed", float64(s.Failed)},
			{"refused", float64(s.Refused)},
			{"calls", float64(s.Calls)},
			{"retries", float64(s.Retries)},
			{"calls_per_done", s.CallsPerDone()},
			{"hints", float64(s.Hints)},
			{"hint_ends", float64(s.HintEnds)},
			{"quota_ends", float64(s.QuotaEnds)},
			{"holds", float64(s.Holds)},
			{"foreign_retries", float64(s.Foreign)},
			{"hook_panics", float64(s.HookPanics)},
			{"working", float64(s.Working)},
			{"waiting_backoff", float64(s.Waiting.Backoff)},
			{"waiting_hint", float64(s.Waiting.Hint)},
			{"waiting_pacer", float64(s.Waiting.Pacer)},
			{"waiting_breaker", float64(s.Waiting.Breaker)},
			{"waiting_other", float64(s.Waiting.Other)},
			{"recent_done", float64(s.Recent.Done)},
			{"recent_failed", float64(s.Recent.Failed)},
			{"recent_calls", float64(s.Recent.Calls)},
			{"recent_calls_per_done", s.Recent.CallsPerDone()},
			{"recent_p50_seconds", s.Recent.P50.Seconds()},
			{"recent_p95_seconds", s.Recent.P95.Seconds()},
		} {
			if !yield(x.name, x.v) {
				return
			}
		}
	}
}

// MarshalJSON writes the numbers of All under their names, with null for a
// ratio over nothing.
func (s Stats) MarshalJSON() ([]byte, error) {
	b := []byte(`{"name":`)
	name, err := json.Marshal(s.Name)
	if err != nil {
		return nil, err
	}
	b = append(b, name...)
	for k, v := range s.All() {
		b = append(b, ',', '"')
		b = append(b, k...)
		b = append(b, '"', ':')
		if math.IsNaN(v) || math.IsInf(v, 0) {
			b = append(b, "null"...)
			continue
		}
		n, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		b = append(b, n...)
	}
	return append(b, '}'), nil
}

// counters is the live form of Stats.
type counters struct {
	items, done, failed, refused, calls, retries atomic.Uint64
	hints, hintEnds, quotaEnds, holds, foreign   atomic.Uint64
	hookPanics                                   atomic.Uint64

	waiting [waits]atomic.Int64

	window window
}

// reason is what an item waits for.
type reason int

const (
	forBackoff reason = iota
	forHint
	forPacer
	forBreaker
	forOther
	waits
)

// read takes what has ended before what has begun, so that nothing that is in
// neither of them is counted as at work.
func (c *counters) read(name string, now time.Duration) Stats {
	s := Stats{
		Name: name,
		Done: c.done.Load(), Failed: c.failed.Load(), Refused: c.refused.Load(),
		Waiting: Waiting{
			Backoff: c.waiting[forBackoff].Load(), Hint: c.waiting[forHint].Load(),
			Pacer: c.waiting[forPacer].Load(), Breaker: c.waiting[forBreaker].Load(), Other: c.waiting[forOther].Load(),
		},
		Calls: c.calls.Load(), Retries: c.retries.Load(),
		Hints: c.hints.Load(), HintEnds: c.hintEnds.Load(), QuotaEnds: c.quotaEnds.Load(),
		Holds: c.holds.Load(), Foreign: c.foreign.Load(), HookPanics: c.hookPanics.Load(),
		Recent: c.window.read(now),
	}
	s.Items = c.items.Load()
	w := s.Waiting
	s.Working = max(0, int64(s.Items-s.Done-s.Failed-s.Refused)-w.Backoff-w.Hint-w.Pacer-w.Breaker-w.Other)
	return s
}
