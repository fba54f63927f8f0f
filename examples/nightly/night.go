package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
)

// fate is what becomes of an item in a run.
type fate int

const (
	done    fate = iota
	dead         // a dead letter: kept with its payload, to be replayed alone
	pending      // not tried or refused; the next run does it
	lost         // paid or failed, and could not be kept
)

// night is a guarded run.
type night struct {
	g       *guards
	m       *model
	results *results
	clk     clock
	owner   string

	through atomic.Int64
	mu      sync.Mutex
	fates   map[string]fate
	reasons map[string]bool // who refused, "lost" or "signal"
	signal  os.Signal
	warned  []string

	stopOnce sync.Once
	stopping chan struct{} // closed: start nothing more
}

// guarded runs the items through the guards. An error means that nothing was
// sent.
func (p *program) guarded(ctx context.Context, o *options, m *model, items []item, show *progress) (_ *report, err error) {
	res, err := openResults(filepath.Join(o.dir, "results"))
	if err != nil {
		return nil, err
	}
	c := guardConfig{
		dir: filepath.Join(o.dir, "state"), base: p.base, owner: o.owner, limit: o.limit,
		headroom: o.headroom, rpm: o.rpm, hold: o.hold, clock: p.clk,
	}
	if o.demo() {
		// The demo's outage lasts two seconds, not an hour.
		c.cooldown, c.backoff = time.Second, 100*time.Millisecond
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	g, err := newGuards(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	m.client = g.client

	n := &night{
		g: g, m: m, results: res, clk: p.clk, owner: o.owner,
		fates: map[string]fate{}, reasons: map[string]bool{}, stopping: make(chan struct{}),
	}
	todo, skipped, err := n.sort(ctx, items, o.again)
	if err != nil {
		return nil, err
	}
	if err := n.affordable(ctx, todo); err != nil {
		return nil, err
	}
	// From here on calls go out: whatever happens, there is a report.
	tripsBefore := g.up.Stats().TripsTotal
	show.start(len(items), func() (int64, string) {
		s := g.again.Stats()
		return int64(len(items)-len(todo)) + n.through.Load(),
			fmt.Sprintf(", %d calls, breaker %v", s.Calls, g.up.State())
	})
	var signals <-chan os.Signal
	if p.notify != nil {
		signals = p.notify()
	}
	n.work(ctx, signals, todo, o.workers)
	show.stop()
	if err := res.sync(); err != nil {
		n.stop("lost")
		n.warn(err)
	}
	rep := n.report(context.WithoutCancel(ctx), items, skipped)
	rep.Trips = int64(g.up.Stats().TripsTotal - tripsBefore)
	return rep, nil
}

// sort finds out what is to be done: not what has a result, nor what is a dead
// letter with the same input, unless those are to be done again.
func (n *night) sort(ctx context.Context, items []item, again bool) (todo []item, skipped int, err error) {
	letters := map[string]string{}
	for r, err := range n.g.journal.List(ctx, deadletter.Filter{Queue: n.g.letters.Name()}) {
		if errors.Is(err, deadletter.ErrCorrupt) {
			n.warn(err) // one letter cannot be read: its item is tried again
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		letters[r.ItemID] = r.Labels["sha256"]
	}
	for _, it := range items {
		ok, err := n.results.done(it)
		switch sha, known := letters[it.File]; {
		case err != nil:
			return nil, 0, err
		case ok:
			n.fates[it.File] = done
			skipped++
		case known && sha == it.SHA256 && !again:
			n.fates[it.File] = dead
		default:
			n.fates[it.File] = pending
			todo = append(todo, it)
		}
	}
	return todo, skipped, nil
}

// affordable refuses a limit that not even the largest item fits under: else
// every such item would become a dead letter by a slip of the keyboard.
func (n *night) affordable(ctx context.Context, items []item) error {
	status, err := n.g.day.Status(ctx)
	if err != nil {
		return err
	}
	for _, it := range items {
		body, err := n.m.request(it)
		if err != nil {
			return err
		}
		if need := budget.EstimateBody(nil, body); it.Bad == nil && need > status.SoftCap {
			return fmt.Errorf("-limit: %s may cost %d tokens, and %d a day are left of -limit after the headroom", it.File, need, status.SoftCap)
		}
	}
	return nil
}

// work hands the items to the workers until all are through or something says
// stop. The first signal lets the calls in flight end, the second cancels them.
func (n *night) work(ctx context.Context, signals <-chan os.Signal, items []item, workers int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		queue = make(chan item)
		ended = make(chan struct{})
		wg    sync.WaitGroup
	)
	for range workers {
		wg.Go(func() {
			for it := range queue {
				f := n.do(ctx, it)
				n.mu.Lock()
				n.fates[it.File] = f
				n.mu.Unlock()
				if f == done || f == dead {
					n.through.Add(1)
				}
			}
		})
	}
	wg.Go(func() {
		defer close(queue)
		for _, it := range items {
			select {
			case <-n.stopping:
				return
			default:
			}
			select {
			case queue <- it:
			case <-n.stopping:
				return
			}
		}
	})
	go func() { wg.Wait(); close(ended) }()

	var graceOver <-chan time.Time
	for {
		select {
		case <-ended:
			return
		case s := <-signals:
			if graceOver != nil {
				cancel()
				continue
			}
			n.signal = s
			n.stop("signal")
			graceOver = n.clk.After(grace)
		case <-graceOver:
			cancel()
		case <-ctx.Done():
			n.stop("signal")
			<-ended
			return
		}
	}
}

// do is one item: its call, the check of the answer, the result. What fails in
// here is a dead letter before it returns, unless a guard refused.
func (n *night) do(ctx context.Context, it item) fate {
	ctx = budget.WithOwner(deadletter.WithItem(ctx, it.File, "sha256", it.SHA256), n.owner)
	var unkept error
	err := n.g.letters.Do(ctx, it.Bytes, func(ctx context.Context) error {
		if it.Bad != nil {
			return it.Bad
		}
		summary, tokens, err := n.m.ask(ctx, it)
		if err != nil {
			return err
		}
		if err := checkSummary(summary); err != nil {
			return err
		}
		unkept = n.results.write(it, result{
			Item: it.File, SHA256: it.SHA256, Model: n.m.name,
			Summary: summary, Tokens: tokens, At: n.clk.Now().UTC(),
		})
		return nil
	})

	var refused interface{ RefusedBy() string }
	var unburied *deadletter.LostError
	switch {
	case unkept != nil:
		n.stop("lost")
		n.warn(unkept)
		return lost
	case errors.As(err, &unburied):
		n.stop("lost")
		n.warn(err)
		return lost
	case err == nil:
		return done
	case errors.As(err, &refused) && refused.RefusedBy() != "":
		n.stop(refused.RefusedBy())
		return pending
	case ctx.Err() != nil, notTheItemsFault(nil, err) == deadletter.Pass:
		return pending
	}
	return dead
}

// stop has no further item started, because of reason.
func (n *night) stop(reason string) {
	n.mu.Lock()
	n.reasons[reason] = true
	n.mu.Unlock()
	n.stopOnce.Do(func() { close(n.stopping) })
}

// warn keeps what the report has to say beside the counts.
func (n *night) warn(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.warned = append(n.warned, err.Error())
}

// report sums the night up. What it cannot find out is a warning in it.
func (n *night) report(ctx context.Context, items []item, skipped int) *report {
	r := &report{Mode: "guarded", Total: len(items), Skipped: skipped}
	for _, it := range items {
		switch n.fates[it.File] {
		case done:
			r.Done++
		case dead:
			r.Dead++
			r.DeadItems = append(r.DeadItems, it.File)
		case lost:
			r.Lost++
			r.LostItems = append(r.LostItems, it.File)
		case pending:
			r.Pending++
			r.PendingItems = append(r.PendingItems, it.File)
		}
	}
	again, day := n.g.again.Stats(), n.g.day.Stats()
	r.Calls, r.Retries = int64(again.Calls), int64(again.Retries)
	r.TokensEstimated, r.TokensActual = day.SettledEstimates, day.SettledUnits

	if status, err := n.g.day.Status(ctx); err != nil {
		n.warn(err)
	} else {
		r.Spent, r.SoftCap = status.Spent, status.SoftCap
	}
	sum, err := n.g.journal.Stats(ctx, deadletter.Filter{Queue: n.g.letters.Name()})
	if err != nil {
		n.warn(err)
	}
	r.Signatures = make([]signatureCount, 0, len(sum.Groups))
	for _, g := range sum.Groups {
		r.Signatures = append(r.Signatures, signatureCount{Signature: g.Signature, Template: g.Text, Count: g.Count})
	}
	if up := n.g.up.Stats(); up.State != breaker.Closed {
		r.Tripped = &signatureCount{Signature: string(up.LastTrip.Signature), Template: up.LastTrip.Reason}
	}

	switch n.signal {
	case nil:
	case syscall.SIGTERM:
		r.Exit = exitSignal + int(syscall.SIGTERM)
	default:
		r.Exit = exitSignal + int(syscall.SIGINT)
	}
	switch {
	case r.Exit != 0:
		r.State = "interrupted: " + n.signal.String()
	case n.reasons["lost"] || r.Lost > 0:
		r.Exit, r.State = exitLost, "failed: an answer or a dead letter could not be kept"
	case n.reasons["budget"]:
		r.Exit, r.State = exitBudget, "stopped: the day's budget is used up"
	case n.reasons["breaker"], n.reasons["pacer"]:
		r.Exit, r.State = exitBreaker, "stopped: the breaker is open"
	case r.Pending > 0:
		r.Exit, r.State = exitBreaker, "stopped: the upstream refuses the key or the account"
	case r.Dead > 0:
		r.Exit, r.State = exitDead, "finished: dead letters remain"
	default:
		r.State = "finished"
	}
	r.Warnings = n.warned
	return r
}
