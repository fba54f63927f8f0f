package budget

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// Stats counts what a budget did in this process. Outstanding,
// OutstandingUnits and Unbooked are gauges, everything else only grows.
type Stats struct {
	Name string `json:"name"`

	Reserved         int64 `json:"reserved"`          // reservations granted
	ReservedUnits    int64 `json:"reserved_units"`    // their estimates
	Settled          int64 `json:"settled"`           // reservations reconciled
	SettledUnits     int64 `json:"settled_units"`     // what they really cost
	SettledEstimates int64 `json:"settled_estimates"` // what they had been estimated at
	Cancelled        int64 `json:"cancelled"`         // reservations given back
	Outstanding      int64 `json:"outstanding"`       // reservations neither reconciled nor cancelled
	OutstandingUnits int64 `json:"outstanding_units"` // their estimates

	Exhausted    int64 `json:"exhausted"`      // refused: the window's limit
	StoreRefused int64 `json:"store_refused"`  // refused: the store failed
	TooLarge     int64 `json:"too_large"`      // refused: above the whole cap
	BadEstimate  int64 `json:"bad_estimate"`   // refused: no amount
	UnknownOwner int64 `json:"unknown_owner"`  // refused: nobody's
	Headroom     int64 `json:"headroom"`       // later attempts and probes granted above the soft cap
	NoUsage      int64 `json:"no_usage"`       // calls that ended without usage, settled at the estimate
	Overshoots   int64 `json:"overshoots"`     // settlements that left the hard cap exceeded
	EndedTwice   int64 `json:"ended_twice"`    // second ends of a reservation, ignored
	WindowGone   int64 `json:"window_gone"`    // settlements whose counter was dropped
	SettleErrors int64 `json:"settle_errors"`  // settlements that the store did not take
	StoreErrors  int64 `json:"store_errors"`   // trips to the store that failed
	Local        int64 `json:"local"`          // granted while the store failed
	LocalUnits   int64 `json:"local_units"`    // their estimates
	Unbooked     int64 `json:"unbooked_units"` // of these, what the store does not know yet
	HookPanics   int64 `json:"hook_panics"`    // OnEvent panicked or ended its goroutine
}

func (s *Stats) refused(reason error) {
	switch reason {
	case ErrExhausted:
		s.Exhausted++
	case ErrStore:
		s.StoreRefused++
	case ErrTooLarge:
		s.TooLarge++
	case ErrEstimate:
		s.BadEstimate++
	case ErrUnknownOwner:
		s.UnknownOwner++
	}
}

// fields lists the counters and, from gauges on, the gauges.
func (s *Stats) fields() (names []string, values []*int64, gauges int) {
	add := func(name string, v *int64) { names, values = append(names, name), append(values, v) }
	add("reserved", &s.Reserved)
	add("reserved_units", &s.ReservedUnits)
	add("settled", &s.Settled)
	add("settled_units", &s.SettledUnits)
	add("settled_estimates", &s.SettledEstimates)
	add("cancelled", &s.Cancelled)
	add("exhausted", &s.Exhausted)
	add("store_refused", &s.StoreRefused)
	add("too_large", &s.TooLarge)
	add("bad_estimate", &s.BadEstimate)
	add("unknown_owner", &s.UnknownOwner)
	add("headroom", &s.Headroom)
	add("no_usage", &s.NoUsage)
	add("overshoots", &s.Overshoots)
	add("ended_twice", &s.EndedTwice)
	add("window_gone", &s.WindowGone)
	add("settle_errors", &s.SettleErrors)
	add("store_errors", &s.StoreErrors)
	add("local", &s.Local)
	add("local_units", &s.LocalUnits)
	add("hook_panics", &s.HookPanics)
	gauges = len(names)
	add("outstanding", &s.Outstanding)
	add("outstanding_units", &s.OutstandingUnits)
	add("unbooked_units", &s.Unbooked)
	return names, values, gauges
}

// Sub returns what was counted since older. Gauges are s's.
func (s Stats) Sub(older Stats) Stats {
	_, is, gauges := s.fields()
	_, was, _ := older.fields()
	for i := range gauges {
		*is[i] -= *was[i]
	}
	return s
}

// All yields every counter and gauge under its JSON name.
func (s Stats) All() iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		names, values, _ := s.fields()
		for i, n := range names {
			if !yield(n, float64(*values[i])) {
				return
			}
		}
	}
}

// Stats returns the counters so far.
func (b *Budget) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.stats
	s.Name, s.Unbooked = b.name, b.owedSum
	return s
}

// String returns the Stats as JSON, which makes a Budget an expvar.Var.
func (b *Budget) String() string { return jsonText(b.Stats()) }

func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("{%q:%q}", "error", err)
	}
	return string(text)
}

// Status is where a budget stands: what the store knows, and what this process
// has open.
type Status struct {
	Budget  string    `json:"budget"`
	Window  string    `json:"window"`
	End     time.Time `json:"end"` // of the window
	Limit   int64     `json:"limit"`
	SoftCap int64     `json:"soft_cap"`
	Spent   int64     `json:"spent"` // reserved amounts included, of all processes

	Outstanding      int   `json:"outstanding"`       // reservations open in this process
	OutstandingUnits int64 `json:"outstanding_units"` // their estimates
	Unbooked         int64 `json:"unbooked_units"`    // granted while the store failed, not in Spent yet
	Degraded         bool  `json:"degraded"`          // the store's last trip failed

	Owners []OwnerStatus `json:"owners"` // in the Config's order; one without a name when that has none
}

// OwnerStatus is where one owner stands.
type OwnerStatus struct {
	Owner
	Spent            int64     `json:"spent"`
	Outstanding      int       `json:"outstanding"`       // reservations open in this process
	OutstandingUnits int64     `json:"outstanding_units"` // their estimates
	Oldest           time.Time `json:"oldest,omitzero"`   // when the oldest of them was made; zero when there is none
}

// Left returns what can still be reserved under the soft cap.
func (s Status) Left() int64 { return max(s.SoftCap-s.Spent-s.Unbooked, 0) }

// Status asks the store where the current window stands. What is owed to the
// store is booked first.
func (b *Budget) Status(ctx context.Context) (Status, error) {
	if b.owing.Load() {
		b.book()
	}
	s := b.span(b.clock.Now())
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	values, err := b.store.Load(ctx, s.keys)
	if err == nil && len(values) != len(s.keys) {
		err = fmt.Errorf("%d counters for %d keys", len(values), len(s.keys))
	}
	if err != nil {
		return Status{}, fmt.Errorf("budget: %s: status: %w: %w", b.name, ErrStore, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	st := Status{
		Budget: b.name, Window: s.key, End: s.end, Limit: b.limit, SoftCap: b.soft, Spent: values[0],
		Outstanding: int(b.stats.Outstanding), OutstandingUnits: b.stats.OutstandingUnits,
		Unbooked: b.owedSum, Degraded: b.degraded,
	}
	for i := range b.open {
		o := OwnerStatus{Spent: values[0], Outstanding: b.open[i].n, OutstandingUnits: b.open[i].units}
		if len(b.owners) > 0 {
			o.Owner, o.Spent = b.owners[i], values[1+i]
		}
		if r := b.open[i].first; r != nil {
			o.Oldest = time.Unix(0, r.at).UTC()
		}
		st.Owners = append(st.Owners, o)
	}
	return st, nil
}
