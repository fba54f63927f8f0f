package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// Exit codes. If several apply: 130 or 143, 5, 3, 2, 4.
const (
	exitDone    = 0   // every item has a result
	exitUsage   = 1   // bad flags, input or folders; nothing was sent
	exitBreaker = 2   // the breaker is open: the upstream is down, or refuses the key
	exitBudget  = 3   // the day's budget is used up
	exitDead    = 4   // everything was tried, dead letters remain
	exitLost    = 5   // an answer or a dead letter could not be kept
	exitSignal  = 128 // plus the signal's number
)

// report is what a run writes to report.json, last and atomically. The next
// step of a pipeline checks complete.
type report struct {
	Mode     string `json:"mode"`  // guarded or naive
	State    string `json:"state"` // finished, or why it stopped
	Complete bool   `json:"complete"`
	Exit     int    `json:"exit"`

	// Total = Done + Dead + Pending + Lost. Skipped is the part of Done that
	// earlier runs did.
	Total   int `json:"total"`
	Skipped int `json:"skipped"`
	Done    int `json:"done"`
	Dead    int `json:"dead"`
	Pending int `json:"pending"`
	Lost    int `json:"lost"`
	// Empty counts the results that hold no summary and are marked done all
	// the same. Only the naive loop writes such.
	Empty int `json:"empty"`

	Calls   int64 `json:"calls"`
	Retries int64 `json:"retries"`
	// CallsPerDone is null when this run did nothing.
	CallsPerDone *float64 `json:"calls_per_done"`
	Trips        int64    `json:"trips"`

	TokensEstimated int64 `json:"tokens_estimated"`
	TokensActual    int64 `json:"tokens_actual"`
	// Spent is the window's spend by all runs, SoftCap what it is kept under.
	Spent   int64 `json:"spent"`
	SoftCap int64 `json:"soft_cap"`

	// Tripped is the error that opened the breaker, if it is open at the end.
	Tripped    *signatureCount  `json:"tripped,omitempty"`
	Signatures []signatureCount `json:"signatures"` // of the dead letters, most frequent first

	DeadItems    []string `json:"dead_items"`
	PendingItems []string `json:"pending_items"`
	LostItems    []string `json:"lost_items"`

	Warnings []string `json:"warnings,omitempty"`

	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`
}

type signatureCount struct {
	Signature string `json:"signature"`
	Template  string `json:"template,omitempty"` // of tripped: the reason
	Count     int    `json:"count,omitempty"`
}

// finish fills in what follows from the counts.
func (r *report) finish(end time.Time) {
	for _, list := range []*[]string{&r.DeadItems, &r.PendingItems, &r.LostItems} {
		if *list == nil {
			*list = []string{} // an empty list in JSON, not null
		}
	}
	r.Seconds = max(0, end.Sub(r.Started).Seconds())
	r.Complete = r.Exit == exitDone
	if fresh := r.Done - r.Skipped; fresh > 0 {
		per := float64(r.Calls) / float64(fresh)
		r.CallsPerDone = &per
	}
}

func (r *report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(nil, path, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// checkReport finds out before the run whether the report can be written.
func checkReport(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("-report: %s is a folder", path)
	}
	return checkWritable("-report", filepath.Dir(path))
}

// print writes the summary for people: a table row, so that two runs can be
// laid under each other, and last one line for the log.
func (r *report) print(w io.Writer) {
	per := "-" // nothing done by this run
	if r.CallsPerDone != nil {
		per = fmt.Sprintf("%.2f", *r.CallsPerDone)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "| loop    |  calls | calls/done |  done | silently empty | dead letters | pending | seconds |")
	fmt.Fprintln(w, "|---------|-------:|-----------:|------:|---------------:|-------------:|--------:|--------:|")
	fmt.Fprintf(w, "| %-7s | %6d | %10s | %5d | %14d | %12d | %7d | %7.1f |\n\n",
		r.Mode, r.Calls, per, r.Done-r.Empty, r.Empty, r.Dead, r.Pending, r.Seconds)
	if r.Tripped != nil {
		fmt.Fprintf(w, "breaker open: %s  %s\n", r.Tripped.Signature, r.Tripped.Template)
	}
	for i, s := range r.Signatures {
		if i == maxShown {
			fmt.Fprintf(w, "... and %d more signatures in the report\n", len(r.Signatures)-maxShown)
			break
		}
		fmt.Fprintf(w, "dead letters: %4d x %s  %s\n", s.Count, s.Signature, s.Template)
	}
	for _, text := range r.Warnings {
		fmt.Fprintln(w, "warning:", text)
	}
	for _, some := range []struct {
		what  string
		items []string
	}{{"pending", r.PendingItems}, {"lost", r.LostItems}} {
		if n := len(some.items); n > 0 {
			fmt.Fprintf(w, "%s: %s", some.what, strings.Join(some.items[:min(n, maxShown)], ", "))
			if n > maxShown {
				fmt.Fprintf(w, " and %d more, all named in the report", n-maxShown)
			}
			fmt.Fprintln(w)
		}
	}
	state, _, _ := strings.Cut(r.State, ":")
	fmt.Fprintf(w, "state=%s calls=%d done=%d dead=%d pending=%d lost=%d exit=%d\n", state, r.Calls, r.Done, r.Dead, r.Pending, r.Lost, r.Exit)
}

// maxShown is how many names and signatures are printed; the report has all.
const maxShown = 5
