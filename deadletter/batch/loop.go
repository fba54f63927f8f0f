package batch

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nightfuse/nightfuse/internal/redact"
)

const (
	// tick is how often the run looks at the time.
	tick = time.Second
	// lookAhead is among how many items the cheapest is looked for, and
	// lookTime how long the first of them waits for so many.
	lookAhead = 256
	lookTime  = time.Second
	// maxBacklog is how many items may wait in memory: those that are looked at,
	// and as many that have failed in this run, or in earlier ones.
	maxBacklog = 3 * lookAhead
	// turnTime is how long a failed probe waits for the next item to come: an
	// iterator may wait for its result.
	turnTime = 10 * time.Minute
)

// loop is a run at work. Its fields belong to the goroutine of Run.
type loop struct {
	*run
	ctx    context.Context // of the handles
	cancel context.CancelCauseFunc
	src    *source
	landed chan *flight

	backlog backlog
	ended   bool // there are no more items
	scanned bool // look-ahead is over: choose from what is there

	alone     bool // one at a time, the cheapest first
	probing   *flight
	hold      *hold
	held      time.Duration // in holds since an item was done
	era       int           // raised by every hold, from 1
	spins     int           // holds in a row that ended in a refusal at once
	keys      int           // refused in a row
	stopping  chan struct{}
	stopped   bool
	dropped   bool // cancelled: count no more
	graceEnds time.Time
	lastDone  time.Time // without the holds since
	landedAt  time.Time // an item landed, or the run was stopped
	cameAt    time.Time // an item came from the source
	anyDone   bool
}

// loop does the items. The first goes alone, as does the first after a hold: an
// open breaker lets one call pass, and the other workers must not take its
// refusals for the end of the run.
func (r *run) loop(ctx context.Context, items iter.Seq[Item]) {
	hctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &loop{
		run: r, ctx: hctx, cancel: cancel, src: r.read(ctx, items), landed: make(chan *flight),
		alone: true, era: 1, stopping: make(chan struct{}), lastDone: r.began, cameAt: r.began,
	}
	r.showProgress()
	defer func() { r.show.end(l.status()) }()
	l.turn(ctx)
	if !l.ended {
		r.report.Uncounted = true
		l.leaveSource()
	}
	switch {
	case !l.ended:
	case l.src.panicked != nil:
		r.report.Uncounted, r.broken = true, "the items' iterator"
		panic(fmt.Sprintf("batch: the items' iterator panicked: %v\n\n%s", l.src.panicked, l.src.stack))
	case !l.src.whole:
		r.report.Uncounted = true
		l.stop("lost", errListEnded)
	}
}

// turn goes round until all is through.
func (l *loop) turn(ctx context.Context) {
	var (
		clk     = l.cfg.Clock
		ticks   = clk.After(l.show.every())
		lookEnd time.Time // lookTime after the first item; what came before it says nothing
		gone    = ctx.Done()
	)
	for {
		now := clk.Now()
		l.check(now)
		if lookEnd.IsZero() && len(l.backlog) > 0 {
			lookEnd = now.Add(lookTime)
		}
		l.scanned = l.ended || l.backlog.fresh() >= lookAhead || !lookEnd.IsZero() && !now.Before(lookEnd)
		l.start(now)
		if len(l.flights) == 0 && (l.dropped || l.ended && len(l.backlog) == 0) {
			if ctx.Err() != nil && !l.stopped {
				// The iterator may have ended for it.
				l.report.Uncounted = true
				l.stop("cancelled", context.Cause(ctx))
			}
			return
		}
		var in <-chan listed
		if !l.ended && !l.dropped && (l.stopped || len(l.backlog) < maxBacklog && l.backlog.fresh() < l.room()) {
			in = l.src.out
		}
		var lifted <-chan error
		if l.hold != nil {
			lifted = l.hold.over
		}
		select {
		case e, ok := <-in:
			if !ok {
				l.ended = true
				break
			}
			if !e.twice {
				l.cameAt = clk.Now()
			}
			l.take(e)
		case f := <-l.landed:
			l.land(f)
		case herr := <-lifted:
			l.lift(herr)
		case s, ok := <-l.signals:
			switch {
			case !ok:
				l.signals = nil // there will be none
			case l.signal == nil:
				l.signal = s
				l.draining(s)
				l.stop("signal", nil)
				l.graceEnds = clk.Now().Add(l.cfg.Grace)
			default:
				l.drop(fmt.Errorf("batch: a second signal: %v", s))
				l.quiet() // a third one ends a process whose handle heeds no context
				l.cancelling(s)
			}
		case <-gone:
			gone = nil
			l.stop("cancelled", context.Cause(ctx))
			l.drop(context.Cause(ctx))
		case <-ticks:
			l.show.line(l.status())
			ticks = clk.After(l.show.every())
		}
	}
}

// room is how many entries may wait in memory.
func (l *loop) room() int {
	if l.alone || l.hold != nil {
		return lookAhead
	}
	return 1
}

// check looks at the time.
func (l *loop) check(now time.Time) {
	l.watch(now, false)
	if l.cfg.Heartbeat != "" && now.Sub(l.beat) >= beatEvery {
		if err := l.heartbeat(now, "running"); err != nil {
			l.warn("%v", err)
		}
	}
	if !l.graceEnds.IsZero() && !now.Before(l.graceEnds) {
		l.drop(fmt.Errorf("batch: calls in flight took longer than %v", l.cfg.Grace))
	}
	if l.stopped && !l.ended && !l.dropped && len(l.flights) == 0 && now.Sub(l.landedAt) >= l.cfg.Grace {
		// The rest is only counted, but not for ever.
		l.drop(fmt.Errorf("batch: the items are still coming %v after the run was stopped", l.cfg.Grace))
	}
	if !l.stopped && !l.cfg.Until.IsZero() && !now.Before(l.cfg.Until) && len(l.backlog) > 0 {
		l.stop("until", nil)
	}
	switch h := l.hold; {
	case h != nil:
		if l.held+now.Sub(h.began) >= l.cfg.Hold {
			l.stop(h.by, h.refusal)
		}
	case len(l.flights) == 0 && (len(l.backlog) == 0 || l.waits(now)):
		l.lastDone = now // nothing is to be done yet: the iterator takes its time
	default:
		idle, patience := now.Sub(l.lastDone), l.patience(l.anyDone)
		if patience > 0 && idle >= patience && l.graceEnds.IsZero() {
			l.stop("patience", fmt.Errorf("batch: no item was done for %v", idle.Round(time.Second)))
			l.graceEnds = now.Add(l.cfg.Grace)
		}
	}
}

// waits reports whether the next of the backlog, which has failed as a probe, or
// whose key was refused, lets items go first that are still to come.
func (l *loop) waits(now time.Time) bool {
	e := l.backlog[0]
	return e.turn > 0 && (l.alone || e.keyed) && !l.ended && len(l.backlog) < maxBacklog && now.Sub(l.cameAt) < turnTime
}

// start gives items to free workers.
func (l *loop) start(now time.Time) {
	for !l.stopped && l.hold == nil && len(l.backlog) > 0 && len(l.flights) < l.cfg.Workers {
		if l.alone && (l.probing != nil || !l.scanned) || l.waits(now) {
			return
		}
		f := l.newFlight(l.ctx, l.backlog.pop())
		f.era = l.era
		if l.alone && f.entry.it.Bad == nil {
			f.probe, l.probing = true, f
			// Once between two holds. Where no guard tells an outage, the items
			// that may wait for its end are not without number.
			f.spare = f.entry.era != l.era && l.backlog.putBack() < lookAhead
		}
		l.flights[f] = struct{}{}
		go func() {
			defer func() { l.landed <- f }()
			l.work(l.ctx, f, l.stopping)
		}()
	}
	if l.stopped {
		for _, e := range l.backlog {
			l.leave(e.it.ID)
		}
		l.backlog = nil
	}
}

// stop has nothing more started.
func (l *loop) stop(reason string, cause error) {
	l.reasons[reason] = true
	if l.hold != nil {
		l.reasons[l.hold.by] = true
	}
	if l.stopped {
		return
	}
	l.stopped, l.landedAt = true, l.cfg.Clock.Now()
	close(l.stopping)
	l.cause = cause
	l.report.StoppedBy = reason
	if reason != "cancelled" && reason != "signal" && cause != nil {
		l.report.Refusal = redact.Err(cause, maxText)
	}
	if l.hold != nil {
		l.endHold()
	}
}

// drop cancels the calls in flight of a run that was stopped, and counts no
// further.
func (l *loop) drop(cause error) {
	l.dropped = true
	l.cancel(cause)
}
