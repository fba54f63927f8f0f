package batch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/nils"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// Replay does the items of the dead letters in store once more, with the same
// folder, results, checks, progress, heartbeat, signals and exit codes as Run;
// see [deadletter.Replay] for the order, the claims and o. Of o the queue in
// Filter, Clock and Logger are c's; Concurrency 0 is c.Workers, and By "" names the
// folder as well: the claims of a replay in it that was killed are taken over.
// c.Owner pays for letters without an owner. The report goes to replay.json in Dir
// unless c.Report names a file: that of the last run stays.
//
// A letter is acked when its result is stored and synced. One whose item has a
// valid result from this input and Version is acked unsent, and so is, with a
// warning, one that is older than a result from another input: its input was
// mended and done since. A letter that Run wrote for an item with Bad set is not
// sent either: it stays dead until its input is mended. A refused key (see
// [Handle]) leaves the letter as it was; three in a row end the replay.
//
// A refusal of a guard is waited out as Hold says, else it ends the replay; a letter
// whose own failure has opened the breaker again is the last of the next one. Of c
// Until, Patience, Total, Again and AllowEmpty are not used: no letters are a
// success unless o's Filter asks for some.
//
// In the report Total is the letters that matched and those that would but for
// their state: what failed again, is quarantined or has no input is dead; what was
// refused, not tried, or is claimed by another replay is pending, and a warning
// names that one and until when it has them.
func Replay(ctx context.Context, c Config, store deadletter.Store, handle Handle, o deadletter.Options) (Report, error) {
	if c.Report == "" && c.Dir != "" {
		c.Report = filepath.Join(c.Dir, "replay.json")
	}
	c, err := c.filled(handle)
	if nils.In(store) {
		err = errors.Join(err, errors.New("batch: the store is missing"))
	}
	asked, bad := check(o)
	if err = errors.Join(err, bad); err != nil {
		return unstarted(c), err
	}
	r, err := begin(ctx, c, handle)
	if err != nil {
		return unstarted(c), err
	}
	return r.end(func() { r.replay(ctx, store, o, asked) })
}

// check reports whether o asks for some letters and not for whatever there is,
// and what is wrong with it, by the rules of deadletter.Replay: these are what it
// says of a store without letters.
func check(o deadletter.Options) (asked bool, err error) {
	o.Filter.Queue, o.Clock, o.DryRun = "", nil, true
	_, err = deadletter.Replay(context.Background(), deadletter.NewMemory(), nil, o)
	if errors.Is(err, deadletter.ErrNoMatch) {
		return true, nil
	}
	return false, err
}

// replayed is a replay at work. Its fields belong to the goroutine of Replay,
// save where they say otherwise.
type replayed struct {
	*run
	letters deadletter.Store
	o       deadletter.Options
	landed  chan landing // claims that have ended
	ended   chan replayEnd
	claimer string          // the name of replays in this folder, without the pid; "" = not to be told
	counted map[string]bool // record ids of the letters that are in the report

	first    chan struct{} // holds one element while a letter is sent alone
	proven   chan struct{} // closed: an item was done, the others need not wait for each other
	stopping chan struct{} // closed: nothing more is sent
	quit     chan struct{} // closed: a signal was heard

	mu     sync.Mutex // guards what follows
	open   map[string]*resend
	stays  map[string]*call.Stays // letters that stay as they were, by record id
	waited map[string]bool        // of these, those that have been put off
	later  []lateLetter           // of these, those that have failed as a probe: they come last
	turns  int                    // rounds in a row in which such were sent and nothing was refused
	keys   int                    // refused in a row
	stops  []*noMore              // why nothing more is sent, the first first
	held   time.Duration          // waited for guards since an item was done
	spins  int                    // refusals in a row that came when the one before had lifted
	all    int                    // letters to come, for the progress; 0 = not known
}

// replayEnd is how the work of a replay has ended.
type replayEnd struct {
	rep      deadletter.Report
	err      error
	panicked any
}

// replay replays what matches; asked says that o asks for some letters.
func (r *run) replay(ctx context.Context, store deadletter.Store, o deadletter.Options, asked bool) {
	p := &replayed{
		run: r, letters: store, o: o, landed: make(chan landing), ended: make(chan replayEnd, 1), counted: map[string]bool{},
		first: make(chan struct{}, 1), proven: make(chan struct{}), stopping: make(chan struct{}),
		quit: make(chan struct{}), open: map[string]*resend{}, stays: map[string]*call.Stays{}, waited: map[string]bool{},
	}
	p.o.Filter.Queue, p.o.Clock, p.o.Logger = r.cfg.Letters.Name(), r.cfg.Clock, r.cfg.Logger
	p.o.OnResult = func(res deadletter.Result) {
		p.landed <- landing{res, p.ends(res.Record.ID)}
		if o.OnResult != nil {
			o.OnResult(res)
		}
	}
	if o.Concurrency == 0 {
		p.o.Concurrency = r.cfg.Workers
	}
	if p.claimer = claimerOf(r.cfg.Dir); o.By == "" && p.claimer != "" {
		p.o.By = p.claimer + strconv.Itoa(os.Getpid())
	}
	end := p.turn(ctx)
	clear(r.flights)
	if end.panicked != nil {
		r.broken = "the letters' store"
		panic(end.panicked)
	}
	rep := &r.report
	rep.StoppedBy, r.cause = end.rep.StoppedBy, end.err
	uncounted := p.countLeft(context.WithoutCancel(ctx))
	// Those that are asked for and not there are no success.
	r.cfg.AllowEmpty = !asked || end.rep.Matched > 0
	switch err := end.err; {
	case err == nil:
	case errors.Is(err, deadletter.ErrNoMatch):
		if !asked || rep.Dead+rep.Pending > 0 {
			r.cause = nil
		}
	case errors.Is(err, deadletter.ErrPartial):
		if rep.Pending == 0 {
			r.cause = nil // it means those without an input
		}
	case rep.StoppedBy != "":
		r.reasons[rep.StoppedBy] = true
		rep.Refusal = redact.Err(err, maxText)
		r.reasons["cancelled"] = ctx.Err() != nil // while it held
	case ctx.Err() != nil:
		r.reasons["cancelled"] = true
	default:
		r.reasons["lost"] = true
	}
	if len(p.stops) > 0 {
		rep.StoppedBy = p.stops[0].by
	}
	for _, why := range p.stops {
		r.reasons[why.by] = true
		if why.by == "lost" && !errors.Is(r.cause, why) {
			r.cause = errors.Join(why, r.cause)
		}
	}
	if uncounted != nil {
		rep.Uncounted, r.reasons["lost"] = true, true
		r.cause = errors.Join(r.cause, uncounted)
	}
}

// turn has the letters replayed, and meanwhile counts, looks at the time and
// hears the signals: the first drains, the second cancels, as does the end of the
// grace after the first.
func (p *replayed) turn(ctx context.Context) replayEnd {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go p.work(ctx)
	p.showProgress()
	defer func() { p.show.end(p.status()) }()
	var (
		clk     = p.cfg.Clock
		ticks   = clk.After(p.show.every())
		signals = p.signals
		grace   <-chan time.Time
	)
	for {
		select {
		case l := <-p.landed:
			p.land(l.Result, l.sent)
		case end := <-p.ended:
			return end
		case s, ok := <-signals:
			switch {
			case !ok:
				signals = nil
			case p.signal != nil:
				cancel(fmt.Errorf("batch: a second signal: %v", s))
				p.quiet() // a third one ends a process whose handle heeds no context
				p.cancelling(s)
			default:
				p.signal = s
				p.draining(s)
				close(p.quit)
				_ = p.halt(noMore{by: "signal"})
				grace = clk.After(p.cfg.Grace)
			}
		case <-grace:
			cancel(fmt.Errorf("batch: calls in flight took longer than %v", p.cfg.Grace))
		case <-ticks:
			p.look(clk.Now())
			ticks = clk.After(p.show.every())
		}
	}
}

// work replays the letters, in a goroutine of its own.
func (p *replayed) work(ctx context.Context) {
	end := replayEnd{err: errGoexit}
	defer func() {
		end.panicked = recover()
		p.ended <- end
	}()
	if p.claimer != "" && !p.o.DryRun {
		p.takeOver(ctx)
	}
	if p.cfg.Progress != nil {
		f := p.o.Filter
		f.States = p.states()
		if s, err := p.letters.Stats(ctx, f); err == nil { // else the replay tells
			p.mu.Lock()
			p.all = s.Letters()
			p.mu.Unlock()
		}
	}
	p.rounds(ctx, &end)
}

// look looks at the numbers and tells who watches.
func (p *replayed) look(now time.Time) {
	s := p.status()
	p.watch(now, false)
	if p.cfg.Heartbeat != "" && now.Sub(p.beat) >= beatEvery {
		if err := p.heartbeat(now, "running"); err != nil {
			p.warn("%v", err)
		}
	}
	p.show.line(s)
}

// status also brings the flights up to date.
func (p *replayed) status() status {
	p.mu.Lock()
	clear(p.flights)
	for _, f := range p.open {
		if !f.back {
			p.flights[f.flight] = struct{}{}
		}
	}
	all, stops := p.all, p.stops
	p.mu.Unlock()
	rep := &p.report
	s := status{
		now: p.cfg.Clock.Now(), through: rep.Done + rep.Dead, done: p.doneNow(), dead: rep.Dead, skipped: rep.Skipped + rep.DeadBefore,
		calls: p.callsNow(), total: all, inFlight: len(p.flights), state: p.lastGauges.State,
	}
	switch {
	case len(stops) == 0:
	case stops[0].guard && p.cfg.Hold > 0 && p.signal == nil:
		s.state = "waiting for the " + stops[0].by
	default:
		s.stopping, s.state = true, "stopping: "+stops[0].by
	}
	return s
}
