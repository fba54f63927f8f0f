package batch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// The exit codes of a run. If several apply: 130 or 143, 5, 3, 2, 4.
const (
	ExitDone    = 0   // every item has a result
	ExitUsage   = 1   // nothing was started: bad Config, folder in use, no items; or an item without an ID ended it
	ExitStopped = 2   // the breaker is open, no item was done for too long, or Until has come
	ExitBudget  = 3   // the budget refused
	ExitDead    = 4   // everything was tried, dead letters remain
	ExitLost    = 5   // a result or a dead letter could not be kept
	ExitSignal  = 128 // plus the signal's number: 130 or 143
)

// Report is what a run did. Its JSON form is written to Config.Report, last and
// atomically, on every way out; while the run goes on the file says state
// "running" and complete false. Fields are added, never renamed.
type Report struct {
	V        int    `json:"v"` // 1
	Name     string `json:"name"`
	State    string `json:"state"`    // running, finished, stopped: ..., interrupted: ..., failed: ...
	Complete bool   `json:"complete"` // only with exit 0: what the next step of a pipeline checks
	Exit     int    `json:"exit"`

	// Total = Done + Dead + Pending + Lost. Skipped is the part of Done, and
	// DeadBefore that of Dead, which earlier runs did.
	Total      int64 `json:"total"`
	Skipped    int64 `json:"skipped"`
	Done       int64 `json:"done"`
	Dead       int64 `json:"dead"`
	DeadBefore int64 `json:"dead_before"`
	Pending    int64 `json:"pending"`
	Lost       int64 `json:"lost"`
	Uncounted  bool  `json:"uncounted,omitempty"`  // the run has ended before it had seen all items: Total is of those seen
	Duplicates int64 `json:"duplicates,omitempty"` // ids that came more than once, not in Total

	Calls        int64    `json:"calls"`
	Retries      int64    `json:"retries"`        // calls beyond the first of each item in this run
	CallsPerDone *float64 `json:"calls_per_done"` // of this run; null when it did nothing
	P50          float64  `json:"p50_ms"`         // of the items done in this run, with all their waits
	P95          float64  `json:"p95_ms"`
	Stuck        *Stuck   `json:"stuck,omitempty"`

	Trips           int64  `json:"trips"`
	StoppedBy       string `json:"stopped_by,omitempty"` // signal, cancelled, lost, usage, auth, patience, until, or the guard: its RefusedBy (breaker, budget, pacer, your own), "guard" without one
	Refusal         string `json:"refusal,omitempty"`    // what the guard said
	TokensEstimated int64  `json:"tokens_estimated"`
	TokensActual    int64  `json:"tokens_actual"`

	Signatures []SignatureCount `json:"signatures"` // of this run's failures, the ten most frequent

	// Names, ten thousand of each at most.
	DeadItems    []string `json:"dead_items"`
	PendingItems []string `json:"pending_items"`
	LostItems    []string `json:"lost_items"`

	Alerts   []Alert  `json:"alerts"`
	Warnings []string `json:"warnings"`

	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
}

// SignatureCount is a kind of failure.
type SignatureCount struct {
	Signature string `json:"signature"`
	Template  string `json:"template,omitempty"`
	Count     int64  `json:"count"`
}

const (
	maxNames      = 10_000
	maxSignatures = 10_000 // kept while counting
	topSignatures = 10
	maxWarnings   = 100
	maxText       = 4 << 10 // bytes of an error's text
)

// String returns the last line of a log: state, calls, done and the rest.
func (r Report) String() string {
	state, _, _ := strings.Cut(r.State, ":")
	per := "none"
	if r.CallsPerDone != nil {
		per = fmt.Sprintf("%.2f", *r.CallsPerDone)
	}
	return fmt.Sprintf("state=%s calls=%d done=%d dead=%d pending=%d lost=%d calls_per_done=%s exit=%d",
		state, r.Calls, r.Done, r.Dead, r.Pending, r.Lost, per, r.Exit)
}

// newReport is the report of a run that has done nothing yet.
func (c Config) newReport(state string) Report {
	return Report{
		V: 1, Name: c.Name, State: state, Exit: ExitUsage,
		Signatures: []SignatureCount{}, DeadItems: []string{}, PendingItems: []string{}, LostItems: []string{},
		Alerts: []Alert{}, Warnings: []string{},
	}
}

// write replaces the file.
func (r Report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = durable.WriteFile(nil, path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("batch: report: %w", err)
	}
	return nil
}

// addName adds a name while there is room.
func addName(list *[]string, id string) {
	if len(*list) < maxNames {
		*list = append(*list, asText(id))
	}
}

// finish fills in what follows from the run.
func (r *run) finish(now time.Time) {
	rep := &r.report
	rep.Total = rep.Done + rep.Dead + rep.Pending + rep.Lost
	rep.Calls = r.calls
	rep.Retries = r.calls - r.called
	if fresh := rep.Done - rep.Skipped; fresh > 0 {
		per := float64(rep.Calls) / float64(fresh)
		rep.CallsPerDone = &per
	}
	rep.P50, rep.P95 = millis(r.meter.all.quantile(0.5)), millis(r.meter.all.quantile(0.95))
	rep.Stuck = r.stuck
	g := r.gauges()
	rep.Trips = g.Trips - r.before.Trips
	rep.TokensEstimated, rep.TokensActual = g.Estimated-r.before.Estimated, g.Actual-r.before.Actual
	for _, c := range r.signatures {
		rep.Signatures = append(rep.Signatures, *c)
	}
	slices.SortFunc(rep.Signatures, func(a, b SignatureCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Signature, b.Signature))
	})
	rep.Signatures = rep.Signatures[:min(len(rep.Signatures), topSignatures)]
	for _, names := range [][]string{rep.DeadItems, rep.PendingItems, rep.LostItems} {
		slices.Sort(names)
	}
	rep.Alerts = append(rep.Alerts, r.alarms.list...)
	rep.Seconds = max(0, now.Sub(r.began).Seconds())
	if rep.StoppedBy == "" && r.reasons["cancelled"] {
		rep.StoppedBy = "cancelled" // before there was a loop to stop, or a replay
	}
	rep.Exit, rep.State = r.exit()
	rep.Complete = rep.Exit == ExitDone
}

// exit returns the code and the state, the gravest first.
func (r *run) exit() (int, string) {
	has := func(reason string) bool { return r.reasons[reason] }
	rep := &r.report
	switch {
	case r.signal != nil:
		code := ExitSignal + int(syscall.SIGINT)
		if r.signal == syscall.SIGTERM {
			code = ExitSignal + int(syscall.SIGTERM)
		}
		return code, "interrupted: " + r.signal.String()
	case has("cancelled"):
		return ExitSignal + int(syscall.SIGINT), "interrupted: the context has ended"
	case has("panic"):
		return ExitLost, "failed: " + cmp.Or(r.broken, "the caller's code") + " panicked"
	case rep.Lost == 0 && has("lost") && r.cause != nil:
		return ExitLost, "failed: " + redact.Err(r.cause, maxText)
	case has("lost") || rep.Lost > 0:
		return ExitLost, "failed: a result or a dead letter could not be kept"
	case has("usage"):
		return ExitUsage, "failed: an item has no ID"
	case has("budget"):
		return ExitBudget, "stopped: the budget refuses"
	case rep.StoppedBy == "auth":
		return ExitStopped, "stopped: the upstream refuses the key or the account"
	case rep.StoppedBy == "patience":
		return ExitStopped, "stopped: no item was done for too long"
	case rep.StoppedBy == "until":
		return ExitStopped, "stopped: it is too late to start more"
	case rep.StoppedBy != "":
		return ExitStopped, "stopped: the " + rep.StoppedBy + " refuses"
	case rep.Pending > 0:
		return ExitStopped, "stopped: items are left"
	case rep.Dead > 0:
		return ExitDead, "finished: dead letters remain"
	case rep.Total == 0 && !r.cfg.AllowEmpty:
		return ExitUsage, "failed: there were no items"
	}
	return ExitDone, "finished"
}
