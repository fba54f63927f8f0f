package deadletter

import (
	"encoding/json"
	"iter"
	"sync/atomic"
)

// Stats counts what a [Queue] has seen in this process. What is in the store is
// told by [Reader.Stats].
type Stats struct {
	Name       string `json:"name"`
	Items      int64  `json:"items"`       // came to an end
	Done       int64  `json:"done"`        // with a success
	Dead       int64  `json:"dead"`        // as a letter in the store
	Pending    int64  `json:"pending"`     // refused by a guard: neither done nor dead
	Cancelled  int64  `json:"cancelled"`   // by the caller
	Passed     int64  `json:"passed"`      // failed, but no letter by Classify
	Lost       int64  `json:"lost"`        // failed and could not be stored
	Resolved   int64  `json:"resolved"`    // letters acked by a later success
	Unresolved int64  `json:"unresolved"`  // letters that a later success could not ack
	Bytes      int64  `json:"bytes"`       // payloads stored
	HookPanics int64  `json:"hook_panics"` // OnDead or OnLost panicked or ended its goroutine
}

type counters struct {
	items, done, dead, pending, cancelled, passed, lost, resolved, unresolved, bytes, hookPanics atomic.Int64
}

// note counts an item that did not become a letter.
func (c *counters) note(f fate) {
	switch f {
	case pending:
		c.pending.Add(1)
	case cancelled:
		c.cancelled.Add(1)
	case passed:
		c.passed.Add(1)
	}
}

// Stats returns the counts so far.
func (q *Queue) Stats() Stats {
	c := &q.count
	return Stats{
		Name: q.cfg.Name, Items: c.items.Load(), Done: c.done.Load(), Dead: c.dead.Load(), Pending: c.pending.Load(),
		Cancelled: c.cancelled.Load(), Passed: c.passed.Load(), Lost: c.lost.Load(),
		Resolved: c.resolved.Load(), Unresolved: c.unresolved.Load(), Bytes: c.bytes.Load(),
		HookPanics: c.hookPanics.Load(),
	}
}

// Sub returns what was counted since older.
func (s Stats) Sub(older Stats) Stats {
	s.Items -= older.Items
	s.Done -= older.Done
	s.Dead -= older.Dead
	s.Pending -= older.Pending
	s.Cancelled -= older.Cancelled
	s.Passed -= older.Passed
	s.Lost -= older.Lost
	s.Resolved -= older.Resolved
	s.Unresolved -= older.Unresolved
	s.Bytes -= older.Bytes
	s.HookPanics -= older.HookPanics
	return s
}

// All yields every number by its JSON name.
func (s Stats) All() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for _, p := range []struct {
			name string
			n    int64
		}{
			{"items", s.Items},
			{"done", s.Done},
			{"dead", s.Dead},
			{"pending", s.Pending},
			{"cancelled", s.Cancelled},
			{"passed", s.Passed},
			{"lost", s.Lost},
			{"resolved", s.Resolved},
			{"unresolved", s.Unresolved},
			{"bytes", s.Bytes},
			{"hook_panics", s.HookPanics},
		} {
			if !yield(p.name, float64(p.n)) {
				return
			}
		}
	}
}

// String returns the counts as JSON, so a Queue is an expvar.Var.
func (q *Queue) String() string {
	b, err := json.Marshal(q.Stats())
	if err != nil {
		return "{}" // a struct of numbers and a string always encodes
	}
	return string(b)
}
