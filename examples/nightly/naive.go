package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// The loop that caused both stories: every error is retried, at once in step
// with everybody else, and what fails in the end is written down as done. Its
// waits are scaled down to the demo's night as the outage is.
const (
	naiveAttempts = 16
	naiveWait     = 10 * time.Millisecond
	naiveMaxWait  = 40 * time.Millisecond
)

// naive runs it over the items and reports what became of them.
func naive(ctx context.Context, clk clock, m *model, dir string, items []item, workers int) (*report, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var (
		calls, empty, tokens, done atomic.Int64
		failed                     error
		once                       sync.Once
		wg                         sync.WaitGroup
		work                       = make(chan item)
	)
	for range workers {
		wg.Go(func() {
			for it := range work {
				var text string
				wait := naiveWait
				for range naiveAttempts {
					calls.Add(1)
					s, n, err := m.ask(ctx, it)
					if err == nil {
						text = s
						tokens.Add(n)
						break
					}
					if ctx.Err() != nil {
						return
					}
					pause(ctx, clk, wait)
					wait = min(2*wait, naiveMaxWait)
				}
				// The catch-all: whatever happened, the item has a summary.
				if checkSummary(text) != nil {
					empty.Add(1)
				}
				b, err := json.Marshal(summary{Summary: text, Model: m.name})
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, it.File), b, 0o644)
				}
				if err != nil {
					once.Do(func() { failed = err })
				}
				done.Add(1)
			}
		})
	}
feed:
	for _, it := range items {
		select {
		case work <- it:
		case <-ctx.Done():
			break feed
		}
	}
	close(work)
	wg.Wait()
	n, total := done.Load(), int64(len(items))
	return &report{
		Mode: "naive", Empty: empty.Load(), Signatures: []signatureCount{},
		Report: batch.Report{
			V: 1, Name: "nightly", State: "finished", Complete: true,
			Total: total, Done: n, Pending: total - n,
			Calls: calls.Load(), Retries: max(0, calls.Load()-n), TokensActual: tokens.Load(),
			DeadItems: []string{}, PendingItems: []string{}, LostItems: []string{},
			Alerts: []batch.Alert{}, Warnings: []string{},
		},
	}, failed
}

// pause waits on the program's clock, or until ctx ends.
func pause(ctx context.Context, clk clock, d time.Duration) {
	select {
	case <-clk.After(d):
	case <-ctx.Done():
	}
}
