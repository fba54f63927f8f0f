package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// ErrIncomplete says that a run has ended without a result for every item. What
// ended it is wrapped as well: the refusal of a guard, the context's cause.
var ErrIncomplete = errors.New("batch: not every item has a result")

// Run does every item that has no result yet, Config.Workers at a time, and
// returns when all are through, or something says stop and the calls in flight
// have ended. The package guide has the rules.
//
// The items are read one by one as workers become free, from a goroutine of
// their own. The error is nil with exit code 0 and only then; the Report holds on
// every return, and its Exit is what the program should exit with.
func Run(ctx context.Context, c Config, items iter.Seq[Item], handle Handle) (Report, error) {
	c, err := c.filled(handle)
	if items == nil {
		err = errors.Join(err, errors.New("batch: the items are missing"))
	}
	if err != nil {
		return unstarted(c), err
	}
	r, err := begin(ctx, c, handle)
	if err != nil {
		return unstarted(c), err
	}
	return r.end(func() {
		if err := r.readLetters(ctx); err != nil {
			r.cause, r.report.Uncounted = err, true
			switch {
			case r.report.StoppedBy != "":
			case ctx.Err() != nil:
				r.reasons["cancelled"] = true
			default:
				r.reasons["lost"], r.report.StoppedBy = true, "lost"
			}
			return
		}
		r.loop(ctx, items)
	})
}

// unstarted is the report of a run that could not be started. In the folder it
// takes the place of one by which an earlier run is complete, or under way: it
// would be taken for this run's.
func unstarted(c Config) Report {
	rep := c.newReport("failed: nothing was started")
	if c.Dir == "" {
		return rep
	}
	file := cmp.Or(c.Report, filepath.Join(c.Dir, "report.json"))
	var before Report
	b, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(b, &before) == nil && !before.Complete && before.State != "running" {
		return rep
	}
	lock, err := durable.TryLock(nil, filepath.Join(c.Dir, "lock"))
	if err != nil {
		return rep // another run's folder
	}
	defer func() { _ = lock.Close() }()
	if rep.write(file) != nil {
		_ = os.Remove(file) // also a full disk forgets a name
	}
	return rep
}

// run is one run. Its fields belong to the goroutine of Run, save where they
// say otherwise.
type run struct {
	cfg     Config
	handle  Handle
	results Results
	lock    *durable.Lock
	show    *progress

	began   time.Time
	before  Gauges
	signals <-chan os.Signal
	quiet   func() // no more signals

	known      map[string]letter // items with a letter; read only once the loop runs
	lastGauges Gauges

	report     Report
	reasons    map[string]bool
	signal     os.Signal
	cause      error  // why it stopped
	broken     string // whose code panicked
	calls      int64  // of items that have ended
	called     int64  // items that have made a call
	meter      *meter
	stuck      *Stuck
	alarms     alarms
	signatures map[string]*SignatureCount
	beat       time.Time // of the last heartbeat
	watched    time.Time // the last look at the numbers

	flights map[*flight]struct{}
	probes  *probes
}

// begin takes the folder and says in the report that a run is under way: should
// this one be killed, nobody takes the report of an earlier one for its own.
func begin(ctx context.Context, c Config, handle Handle) (_ *run, err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("batch: not started: %w", context.Cause(ctx))
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	lock, err := durable.TryLock(nil, filepath.Join(c.Dir, "lock"))
	if errors.Is(err, durable.ErrLocked) {
		return nil, fmt.Errorf("batch: another run works in %s: %w", c.Dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	r := &run{
		cfg: c, handle: handle, results: c.Results, lock: lock,
		began: c.Clock.Now(), signals: c.Signals, quiet: func() {},
		reasons: map[string]bool{}, signatures: map[string]*SignatureCount{}, flights: map[*flight]struct{}{},
		alarms: alarms{raised: map[string]bool{}, repeats: map[string]int{}},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	r.report = c.newReport("running")
	r.report.Started = r.began.UTC()
	if _, err := durable.Sweep(nil, c.Dir); err != nil {
		return nil, fmt.Errorf("batch: %w", err)
	}
	if r.results == nil {
		if r.results, err = OpenFolder(filepath.Join(c.Dir, "results")); err != nil {
			return nil, err
		}
	}
	if err := r.report.write(c.Report); err != nil {
		return nil, err
	}
	if c.Heartbeat != "" {
		if err := r.heartbeat(r.began, "running"); err != nil {
			return nil, err
		}
	}
	if r.signals == nil {
		ch := make(chan os.Signal, 2)
		signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
		r.signals, r.quiet = ch, func() { signal.Stop(ch) }
	}
	var forgot error
	if r.probes, forgot = readProbes(c.Dir); forgot != nil {
		r.warn("%v", forgot)
	}
	r.meter = newMeter(r.began)
	r.before = r.gauges()
	return r, nil
}

// end runs the work and leaves the folder as a finished run does, also when the
// work panics.
func (r *run) end(work func()) (Report, error) {
	panicked := true
	defer func() {
		if !panicked {
			return
		}
		// The panic goes on; the report tells of it.
		r.reasons["panic"] = true
		_, _ = r.close()
	}()
	work()
	panicked = false
	return r.close()
}

func (r *run) close() (Report, error) {
	defer r.quiet() // a third signal does not keep the report from being written
	var errs []error
	var err error
	guarded(func() { err = r.results.Sync(context.Background()) }, func(broke error) { err = broke })
	if err != nil {
		r.reasons["lost"] = true
		r.warn("results may not survive a power cut: %v", err)
		errs = append(errs, err)
	}
	if err := r.probes.write(); err != nil {
		r.warn("%v", err)
	}
	now := r.cfg.Clock.Now()
	r.watch(now, true)
	r.finish(now)
	if r.cfg.Heartbeat != "" {
		if err := r.heartbeat(now, r.report.State); err != nil {
			r.warn("%v", err)
		}
	}
	if err := r.report.write(r.cfg.Report); err != nil {
		// Whoever reads the file finds "running": not complete.
		if r.report.Exit < ExitLost {
			r.report.Exit, r.report.State, r.report.Complete = ExitLost, "failed: the report could not be written", false
		}
		errs = append(errs, err)
	}
	if err := r.lock.Close(); err != nil { // the report is written; the lock ends with the process
		r.cfg.Logger.Warn(fmt.Sprintf("batch: the folder may stay locked: %v", err), "run", r.cfg.Name)
	}
	if r.report.Exit != ExitDone {
		errs = append([]error{fmt.Errorf("%w: %s", ErrIncomplete, r.report.State)}, append(errs, r.cause)...)
	}
	return r.report, errors.Join(errs...)
}

// draining says that the first signal was heard: nothing else may happen for a
// while.
func (r *run) draining(s os.Signal) {
	r.cfg.Logger.Warn(fmt.Sprintf("batch: %v: nothing more is started, calls in flight have %v; another signal cancels them", s, r.cfg.Grace), "run", r.cfg.Name)
}

// cancelling says that the second signal was heard.
func (r *run) cancelling(s os.Signal) {
	r.cfg.Logger.Warn(fmt.Sprintf("batch: %v again: calls in flight are cancelled; where Run listens itself another ends the process", s), "run", r.cfg.Name)
}

// warn keeps what the report has to say beside the counts.
func (r *run) warn(format string, a ...any) {
	text := redact.Err(fmt.Errorf(format, a...), maxText)
	r.cfg.Logger.Warn("batch: "+text, "run", r.cfg.Name)
	if len(r.report.Warnings) < maxWarnings {
		r.report.Warnings = append(r.report.Warnings, text)
	}
}

// letters is what readLetters finds.
type letters struct {
	known   map[string]letter
	damaged []error
	err     error

	panicked any
}

// readLetters finds out which items have a letter that nobody has resolved. A
// store may hang, which must not keep the run from hearing signals.
func (r *run) readLetters(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make(chan letters, 1)
	go func() {
		l := letters{err: fmt.Errorf("batch: read the dead letters: %w", errGoexit)}
		defer func() {
			l.panicked = recover()
			out <- l
		}()
		l.read(ctx, r.cfg.Letters)
	}()
	var late, end <-chan time.Time
	if p := r.patience(false); p > 0 {
		late = r.cfg.Clock.After(p)
	}
	var stopped error
	stop := func(by, text string) {
		r.report.StoppedBy, r.reasons[by] = by, true
		stopped = fmt.Errorf("batch: read the dead letters: %s", text)
		late, end = nil, r.cfg.Clock.After(r.cfg.Grace)
		cancel(stopped)
	}
	for {
		select {
		case l := <-out:
			if l.panicked != nil {
				r.broken = "the letters' store"
				panic(l.panicked)
			}
			for _, err := range l.damaged {
				r.warn("a dead letter cannot be read, its item is done again: %v", err)
			}
			r.known = l.known
			return cmp.Or(stopped, l.err)
		case s, ok := <-r.signals:
			if !ok {
				r.signals = nil // there will be none
				break
			}
			if r.signal != nil {
				return stopped // the store heeds no context: it is left behind
			}
			r.signal = s
			stop("signal", s.String())
		case <-late:
			stop("patience", "the store does not answer")
		case <-end:
			return stopped
		}
	}
}

func (l *letters) read(ctx context.Context, q *deadletter.Queue) {
	l.known = map[string]letter{}
	for rec, err := range q.List(ctx, deadletter.Filter{}) {
		switch {
		case errors.Is(err, deadletter.ErrCorrupt):
			l.damaged = append(l.damaged, err)
		case err != nil:
			l.err = fmt.Errorf("batch: read the dead letters: %w", err)
			return
		case rec.ItemID != "":
			l.known[rec.ItemID] = letterOf(rec.Labels)
		}
	}
	l.err = nil
}

// patience is how long no item may be done; 0 or less is for ever.
func (r *run) patience(anyDone bool) time.Duration {
	switch {
	case r.cfg.Patience != 0:
		return r.cfg.Patience
	case anyDone:
		return laterPatience
	}
	return firstPatience
}
