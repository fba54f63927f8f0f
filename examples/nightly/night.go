package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// summary is the result of an item.
type summary struct {
	Summary string `json:"summary"`
	Model   string `json:"model"`
	Tokens  int64  `json:"tokens"`
}

// checkResult returns a check for results whose summary must pass check.
func checkResult(check func(string) error) func(batch.Item, []byte) error {
	return func(_ batch.Item, b []byte) error {
		var s summary
		if err := json.Unmarshal(b, &s); err != nil {
			return fmt.Errorf("the result is not JSON: %w", err)
		}
		return check(s.Summary)
	}
}

// guarded runs the items through the guards. Without a report nothing was sent.
func (p *program) guarded(ctx context.Context, o *options, m *model, items []item) (_ *report, err error) {
	results := p.results
	if results == nil {
		if results, err = batch.OpenFolder(filepath.Join(o.dir, "results")); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(o.dir, "state")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	st := p.state
	if st == nil {
		if st, err = openState(dir); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, st.close()) }()
	c := guardConfig{
		state: st, base: p.base, owner: o.owner, limit: o.limit,
		headroom: o.headroom, rpm: o.rpm, clock: p.clk,
	}
	if o.demo() {
		// The demo's outage lasts two seconds, not an hour.
		c.cooldown, c.backoff = time.Second, 100*time.Millisecond
	}
	g, err := newGuards(c)
	if err != nil {
		return nil, err
	}
	m.client = g.client
	if err := affordable(ctx, g.day, m, items); err != nil {
		return nil, err
	}

	check := p.check
	if check == nil {
		check = checkSummary
	}
	signals := make(<-chan os.Signal)
	if p.notify != nil {
		signals = p.notify()
	}
	rep, err := batch.Run(ctx, batch.Config{
		Name: "nightly", Dir: dir, Results: results, Letters: g.letters, Version: m.name,
		Owner: o.owner, Workers: o.workers, Total: len(items), Hold: o.hold, Again: o.again,
		Validate: checkResult(check), Signals: signals, Report: o.reportPath(), Progress: p.stderr, Clock: p.clk,
		Gauges: func() batch.Gauges {
			up, day := g.up.Stats(), g.day.Stats()
			return batch.Gauges{
				Trips: int64(up.TripsTotal), State: "breaker " + up.State.String(),
				Estimated: day.SettledEstimates, Actual: day.SettledUnits,
			}
		},
	}, batchItems(items), func(ctx context.Context, it batch.Item) ([]byte, error) {
		text, tokens, err := m.ask(ctx, parseItem(it.ID, it.Input))
		if err != nil {
			return nil, err
		}
		return json.Marshal(summary{Summary: text, Model: m.name, Tokens: tokens})
	})
	if rep.Exit == exitUsage {
		return nil, err
	}
	return g.report(context.WithoutCancel(ctx), rep, st.letters), nil
}

// batchItems yields the inbox as the batch wants it.
func batchItems(items []item) iter.Seq[batch.Item] {
	return func(yield func(batch.Item) bool) {
		for _, it := range items {
			if !yield(batch.Item{ID: it.File, Input: it.Bytes, Bad: it.Bad}) {
				return
			}
		}
	}
}

// affordable refuses a limit that not even the largest item fits under: else
// every such item would become a dead letter by a slip of the keyboard.
func affordable(ctx context.Context, day *budget.Budget, m *model, items []item) error {
	status, err := day.Status(ctx)
	if err != nil {
		return err
	}
	for _, it := range items {
		body, err := m.request(it)
		if err != nil {
			return err
		}
		if need := budget.EstimateBody(nil, body); it.Bad == nil && need > status.SoftCap {
			return fmt.Errorf("-limit: %s may cost %d tokens, and %d a day are left of -limit after the headroom", it.File, need, status.SoftCap)
		}
	}
	return nil
}

// report adds what the guards know to the run's report. What it cannot find out
// is a warning in it.
func (g *guards) report(ctx context.Context, rep batch.Report, letters deadletter.Reader) *report {
	r := &report{Report: rep, Mode: "guarded", Signatures: []signatureCount{}}
	if status, err := g.day.Status(ctx); err != nil {
		r.Warnings = append(r.Warnings, err.Error())
	} else {
		r.Spent, r.SoftCap = status.Spent, status.SoftCap
	}
	sum, err := letters.Stats(ctx, deadletter.Filter{Queue: g.letters.Name()})
	if err != nil {
		r.Warnings = append(r.Warnings, err.Error())
	}
	for _, s := range sum.Groups {
		r.Signatures = append(r.Signatures, signatureCount{Signature: s.Signature, Template: s.Text, Count: s.Count})
	}
	if up := g.up.Stats(); up.State != breaker.Closed {
		r.Tripped = &signatureCount{Signature: string(up.LastTrip.Signature), Template: up.LastTrip.Reason}
	}
	return r
}
