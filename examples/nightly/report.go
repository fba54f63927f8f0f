package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/durable"
)

// The exit codes that the program gives itself; the others are the batch's.
const (
	exitDone  = batch.ExitDone
	exitUsage = batch.ExitUsage
	exitLost  = batch.ExitLost
)

// report is what a run writes to report.json, atomically: the batch's own, and
// what only this program knows. The next step of a pipeline checks complete.
type report struct {
	batch.Report
	Mode string `json:"mode"` // guarded or naive
	// Empty counts the results that hold no summary and are marked done all
	// the same. Only the naive loop writes such.
	Empty int64 `json:"empty"`
	// Spent is the window's spend by all runs, SoftCap what it is kept under.
	Spent   int64 `json:"spent"`
	SoftCap int64 `json:"soft_cap"`
	// Tripped is the error that opened the breaker, if it is open at the end.
	Tripped    *signatureCount  `json:"tripped,omitempty"`
	Signatures []signatureCount `json:"signatures"` // of all dead letters, most frequent first
}

type signatureCount struct {
	Signature string `json:"signature"`
	Template  string `json:"template,omitempty"` // of tripped: the reason
	Count     int    `json:"count,omitempty"`
}

// finish fills in the times of a report that the batch has not made.
func (r *report) finish(begin, end time.Time) {
	r.Started, r.Seconds = begin.UTC(), max(0, end.Sub(begin).Seconds())
	if r.Done > 0 {
		per := float64(r.Calls) / float64(r.Done)
		r.CallsPerDone = &per
	}
}

// fail says that something could not be kept, unless the report already says
// that or worse.
func (r *report) fail() {
	if r.Exit < exitLost {
		r.Exit, r.State, r.Complete = exitLost, "failed: not everything could be kept", false
	}
}

func (r *report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.WriteFile(nil, path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// checkReport finds out before the run whether the report can be written.
func checkReport(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("-report: %s is a folder", path)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return fmt.Errorf("-report: %w", err)
	}
	return nil
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
	fmt.Fprintln(w, r.Report)
}

// maxShown is how many names and signatures are printed; the report has all.
const maxShown = 5
