package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/hook"
)

// resolveTimeout bounds one change in the store after a send, in real time.
const resolveTimeout = 10 * time.Second

// Replay sends the letters that match once more, each at most once, and acks
// those that succeed. Only letters that are there at the start take part, so one
// that fails again waits for the next replay; one that is dated more than a day
// ahead of the clock is left out. Several replays may run at once, in one process
// or in several: a letter is sent by one of them.
//
// It sends the cheapest letter first and alone, until one has succeeded. It
// stops at the first refusal of a guard: claims that were not tried or refused
// are released, which does not count as a replay, and the refusal is in the
// error. A letter that fails for the MaxReplays-th time is quarantined.
//
// A crash between a success and its ack sends that letter again: make Send safe
// to repeat, by the record's ID as an idempotency key.
//
// Reading and claiming letters takes as long as ctx lets it: under one without a
// deadline a database that hangs holds the replay up for ever.
//
// The Report is exact on every return. The error is nil when every letter that
// matched was tried, also when some failed again; else it is ErrPartial, the
// refusal, ctx's cause or the store's error. Where nothing matches, all has been
// tried: without a Filter, in a dry run as well, that is no error. A Filter asks
// for letters, and for those that are not there it is ErrNoMatch: a queue's name
// with a typing mistake must not look like a queue that is done.
func Replay(ctx context.Context, store Store, send Send, o Options) (Report, error) {
	if err := o.check(store, send); err != nil {
		return Report{}, err
	}
	o = o.filled()
	r := &replay{
		store: store, send: send, o: o,
		began: norm(o.Clock.Now()), results: make(chan *flight), active: map[*flight]struct{}{},
	}
	r.cutoff = r.began
	r.filter = o.Filter
	r.filter.After, r.filter.Limit = Cursor{}, 0
	if len(r.filter.States) == 0 {
		r.filter.States = []State{Dead}
	}
	if err := r.look(ctx); err != nil {
		return r.report, err
	}
	if r.report.Matched == 0 && o.Filter.chooses() {
		return r.report, ErrNoMatch
	}
	if o.DryRun {
		r.report.Remaining = r.report.Matched
		return r.report, nil
	}
	if !o.Early && (r.filter.Due.IsZero() || r.filter.Due.After(r.began)) {
		r.filter.Due = r.began
	}
	r.run(ctx)
	return r.end(ctx)
}

// replay is one run. Its fields belong to the goroutine of Replay.
type replay struct {
	store  Store
	send   Send
	o      Options
	filter Filter
	began  time.Time
	cutoff time.Time // letters that failed later do not take part
	report Report

	results chan *flight
	active  map[*flight]struct{}
	staying []*flight // to be released at the end: earlier, they would be claimed again
	proven  bool      // one has succeeded
	empty   bool      // nothing is left to claim
	next    time.Time // start nothing before
	stop    error     // why nothing more is started
}

// flight is one letter being sent.
type flight struct {
	claim  Claim
	box    *call.Box
	err    error
	cancel context.CancelCauseFunc
}

// maxAhead is how far the clocks of those who put letters may be ahead.
const maxAhead = 24 * time.Hour

// look counts what matches. A letter is there before the replay starts, whatever
// time it bears: it may come from a host whose clock is ahead, or this clock was
// set back. Left out it would be passed over without a word.
func (r *replay) look(ctx context.Context) error {
	s, err := r.store.Stats(ctx, r.filter)
	if err != nil {
		return err
	}
	ahead := false
	for _, g := range s.Groups {
		if g.Last.Sub(r.began) > maxAhead {
			ahead = true
			r.o.Logger.Warn("deadletter: letters are dated in the future and left out", "signature", g.Signature, "last", g.Last)
		} else {
			r.cutoff = latest(r.cutoff, g.Last)
		}
	}
	if r.filter.Until.IsZero() || r.filter.Until.After(r.cutoff) {
		r.filter.Until = r.cutoff
	}
	if ahead {
		if s, err = r.store.Stats(ctx, r.filter); err != nil {
			return err
		}
	}
	r.report.Matched = s.Letters()
	r.report.Bytes, r.report.EstTokens, r.report.Groups = s.Bytes, s.EstTokens, s.Groups
	if r.o.Early {
		return nil
	}
	f := r.filter
	if f.Due.IsZero() || f.Due.After(r.began) {
		f.Due = r.began
	}
	due, err := r.store.Stats(ctx, f)
	r.report.Skipped = r.report.Matched - due.Letters()
	return err
}

// run claims, sends and resolves until nothing is left or something stops it.
func (r *replay) run(ctx context.Context) {
	done := ctx.Done()
	var lease, pause <-chan time.Time
	for {
		if ctx.Err() != nil && r.stop == nil {
			r.stop = fmt.Errorf("deadletter: replay: %w", context.Cause(ctx))
		}
		wait := r.start(ctx)
		if len(r.active) == 0 && wait == 0 {
			return
		}
		if wait > 0 && pause == nil {
			pause = r.o.Clock.After(wait)
		}
		if len(r.active)+len(r.staying) > 0 && lease == nil {
			lease = r.o.Clock.After(r.o.Lease / 3)
		}
		select {
		case f := <-r.results:
			r.land(ctx, f)
		case <-lease:
			lease = nil
			r.extend(ctx)
		case <-pause:
			pause = nil
		case <-done:
			done = nil
		}
	}
}

// start starts as many sends as may run now. It returns how long the rate asks
// to wait before the next, 0 for nothing to wait for.
func (r *replay) start(ctx context.Context) time.Duration {
	for r.stop == nil && !r.empty {
		n, order := r.o.Concurrency-len(r.active), r.o.Order
		if !r.proven {
			n, order = 1-len(r.active), Cheapest
		}
		if r.o.Max > 0 {
			n = min(n, r.o.Max-r.report.Sent+len(r.staying))
		}
		if n <= 0 {
			return 0
		}
		if r.o.Rate > 0 {
			n = 1
			if wait := r.next.Sub(r.o.Clock.Now()); wait > 0 {
				return wait
			}
		}
		claims, err := r.store.Claim(ctx, ClaimReq{N: n, By: r.o.By, Lease: r.o.Lease, Order: order, Filter: r.filter})
		if err != nil {
			r.stop = err
			return 0
		}
		r.empty = len(claims) == 0
		for _, c := range claims {
			r.begin(ctx, c)
		}
	}
	return 0
}

// begin sends one letter, unless it has been claimed too often already: what
// kills the process would kill it every night.
func (r *replay) begin(ctx context.Context, c Claim) {
	f := &flight{claim: c}
	if r.o.MaxReplays > 0 && c.Record.Replays > r.o.MaxReplays && !slices.Contains(r.filter.States, Quarantined) {
		reason := fmt.Sprintf("claimed %d times without a result", c.Record.Replays-1)
		r.resolve(ctx, f, Outcome{Verb: Quarantine, Reason: reason})
		return
	}
	fctx, cancel := context.WithCancelCause(ctx)
	f.cancel = cancel
	f.box = call.With(fctx)
	f.box.NewItem(c.Record.ItemID, c.Record.Labels)
	f.box.Owner, f.box.Estimate = c.Record.Owner, c.Record.EstTokens
	f.box.Recorded, f.box.Replay = true, true
	r.active[f] = struct{}{}
	r.report.Sent++
	if r.o.Rate > 0 {
		r.next = r.o.Clock.Now().Add(time.Duration(float64(time.Second) / r.o.Rate))
	}
	go func() {
		f.err = errors.New("deadletter: the send has ended its goroutine")
		defer func() {
			if p := recover(); p != nil {
				f.err = fmt.Errorf("panic: %v", p)
			}
			r.results <- f
		}()
		f.err = sound(r.send(f.box, c.Record))
	}()
}

// land ends the claim of a letter that was sent.
func (r *replay) land(ctx context.Context, f *flight) {
	defer f.cancel(nil)
	delete(r.active, f)
	by := ""
	if f.err != nil {
		refused := f.box.Item.Refusal()
		if refused == nil {
			refused = f.err
		}
		if by = call.RefusedBy(refused); by != "" && r.stop == nil {
			r.report.StoppedBy = by
			r.stop = fmt.Errorf("deadletter: replay stopped: %w", refused)
		}
	}
	var stays *call.Stays
	switch {
	case f.err == nil:
		r.proven = true
		r.resolve(ctx, f, Outcome{Verb: Ack})
	case by != "" || ctx.Err() != nil:
		r.resolve(ctx, f, Outcome{Verb: Release})
	case errors.As(f.err, &stays):
		f.claim.Record.Payload = nil // they may be many
		r.staying = append(r.staying, f)
	default:
		r.resolve(ctx, f, r.failed(f))
	}
}

// failed returns how the claim of a failed letter ends.
func (r *replay) failed(f *flight) Outcome {
	now := r.o.Clock.Now()
	failure := failureIn(f.box, causeOf(f.box, f.err), now)
	// Behind the cut-off, also on a clock that stands still: no replay sends
	// it twice.
	failure.At = latest(now, r.cutoff.Add(time.Microsecond))
	o := Outcome{Verb: Return, Failure: failure}
	if n := f.claim.Record.Replays; r.o.MaxReplays > 0 && n >= r.o.MaxReplays {
		o.Verb, o.Reason = Quarantine, fmt.Sprintf("replayed %d times in vain", n)
	}
	return o
}

// resolve ends a claim in the store, also when ctx has ended, and counts it.
func (r *replay) resolve(ctx context.Context, f *flight, o Outcome) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	err := r.store.Resolve(ctx, f.claim.Token, o)
	cancel()
	switch {
	case errors.Is(err, ErrClaimLost):
		r.report.Lost++
	case err != nil:
		if r.stop == nil {
			r.stop = err
		}
	case o.Verb == Ack:
		r.report.Acked++
	case o.Verb == Return:
		r.report.Returned++
	case o.Verb == Quarantine:
		r.report.Quarantined++
	case o.Verb == Release:
		r.report.Released++
	}
	if r.o.OnResult == nil {
		return
	}
	hook.Call(func() {
		r.o.OnResult(Result{Record: f.claim.Record, Verb: o.Verb, Err: f.err, Kept: err})
	}, func(text string) {
		r.o.Logger.Error("deadletter: hook panicked", "panic", text)
	})
}

// claimed yields the letters whose claim has not ended.
func (r *replay) claimed(yield func(*flight) bool) {
	for f := range r.active {
		if !yield(f) {
			return
		}
	}
	for _, f := range r.staying {
		if !yield(f) {
			return
		}
	}
}

// extend keeps the claims. What has lost its own is not sent further.
func (r *replay) extend(ctx context.Context) {
	for f := range r.claimed {
		ectx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
		err := r.store.Extend(ectx, f.claim.Token, r.o.Lease)
		cancel()
		if errors.Is(err, ErrClaimLost) {
			f.cancel(ErrClaimLost)
		} else if err != nil {
			r.o.Logger.Warn("deadletter: lease not extended", "id", f.claim.Token.ID, "error", err)
		}
	}
}

// end counts what is left and says why the replay ended.
func (r *replay) end(ctx context.Context) (Report, error) {
	for _, f := range r.staying {
		r.resolve(ctx, f, Outcome{Verb: Release})
	}
	f := r.filter
	f.Due = r.o.Filter.Due
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	s, err := r.store.Stats(ctx, f)
	r.report.Remaining = s.Letters()
	switch {
	case r.stop != nil:
		return r.report, errors.Join(r.stop, err)
	case err != nil:
		return r.report, err
	case r.report.Remaining > 0:
		return r.report, fmt.Errorf("%w: %d letters were not tried", ErrPartial, r.report.Remaining)
	}
	return r.report, nil
}
