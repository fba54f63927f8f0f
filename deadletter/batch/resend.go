package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// resend is a letter that is being sent.
type resend struct {
	*flight
	back bool   // the send has returned; guarded by the replay's lock
	note string // a warning for the report
}

// noMore ends a replay after the sends in flight.
type noMore struct {
	by    string
	err   error // nil when the reason says it all
	guard bool  // a guard has refused, which may lift
}

func (e *noMore) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return "batch: nothing more is sent: " + e.by
}

func (e *noMore) Unwrap() error { return e.err }

// RefusedBy is the reason: the letter stays as it was.
func (e *noMore) RefusedBy() string { return e.by }

// halt has nothing more sent because of why, which it returns.
func (p *replayed) halt(why noMore) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.stops) == 0 {
		close(p.stopping)
	}
	p.stops = append(p.stops, &why)
	return &why
}

// stopped returns why nothing more is sent, nil while something is.
func (p *replayed) stopped() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.stops) == 0 {
		return nil
	}
	return p.stops[0]
}

// nameOf returns the id of a letter's item. A letter that was kept without one,
// or under one that is no text, goes by its own: two of them must not meet in
// one result.
func nameOf(rec deadletter.Record) string {
	if deadletter.ID(rec.Queue, rec.ItemID) != rec.ID {
		return rec.ID
	}
	return rec.ItemID
}

// take makes the flight of a letter.
func (p *replayed) take(ctx context.Context, rec deadletter.Record) *resend {
	it := Item{ID: nameOf(rec), Input: rec.Payload, Estimate: rec.EstTokens, Labels: maps.Clone(rec.Labels)}
	delete(it.Labels, inputLabel)
	if p.cfg.Version != "" {
		delete(it.Labels, versionLabel)
	}
	f := &resend{flight: &flight{entry: newEntry(it, 0), box: call.With(ctx), began: p.cfg.Clock.Now()}}
	if f.box.Owner == "" {
		f.box.Owner = p.cfg.Owner
	}
	p.mu.Lock()
	p.open[rec.ID] = f
	p.mu.Unlock()
	return f
}

// stay leaves the letter of f as it was, also when a later round meets it. What
// stays is held to the end, so its payload is not.
func (p *replayed) stay(f *resend, rec deadletter.Record, err error) error {
	stays := &call.Stays{Err: err}
	f.entry.it.Input = nil
	p.mu.Lock()
	p.stays[rec.ID] = stays
	p.mu.Unlock()
	return stays
}

// lateLetter is a letter that comes when no other is left.
type lateLetter struct {
	rec  string
	turn int
}

// staying returns why the letter stays as it is in this round, nil when it may be
// sent. One that an earlier replay or run left as a failed probe waits for all
// others: it would be the one that ends this replay, too.
func (p *replayed) staying(rec deadletter.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stays := p.stays[rec.ID]; stays != nil {
		return stays
	}
	if p.waited[rec.ID] {
		return nil
	}
	turn := p.probes.turn(nameOf(rec))
	if turn == 0 {
		return nil
	}
	stays := &call.Stays{Err: errors.New("batch: it has failed as the probe before: others come first")}
	p.waited[rec.ID], p.stays[rec.ID] = true, stays
	p.later = append(p.later, lateLetter{rec.ID, turn})
	return stays
}

// send does a letter's item, unless it is done or cannot be.
func (p *replayed) send(ctx context.Context, rec deadletter.Record) error {
	if err := p.stopped(); err != nil {
		return err
	}
	if stays := p.staying(rec); stays != nil {
		return stays
	}
	f := p.take(ctx, rec)
	defer func() {
		f.made = f.calls(true)
		p.mu.Lock()
		f.back = true
		p.mu.Unlock()
	}()
	has, err := p.hasResult(ctx, f, rec)
	switch stays := (*call.Stays)(nil); {
	case errors.As(err, &stays):
		return err
	case err != nil:
		return p.unkept(f, err) // what the folder holds would be paid for again
	case has:
		return p.keep(ctx, f, nil)
	case rec.Labels[badLabel] != "":
		f.fate = dead
		return p.stay(f, rec, errors.New(rec.Err))
	}
	// The others wait until one was done. That deadletter.Replay sends alone as
	// well does not help once a letter was acked unsent.
	select {
	case p.first <- struct{}{}:
		defer func() { <-p.first }()
	case <-p.proven:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := p.stopped(); err != nil {
		return err
	}
	data := p.try(ctx, f.flight, p.stopping)
	if f.err != nil {
		return p.judged(ctx, f, rec)
	}
	p.answered()
	return p.keep(ctx, f, data)
}

// hasResult reports whether the item of a letter has a result that says there is
// nothing to do.
func (p *replayed) hasResult(ctx context.Context, f *resend, rec deadletter.Record) (bool, error) {
	var (
		res Result
		ok  bool
		err error
	)
	guarded(func() { res, ok, err = p.results.Load(context.WithoutCancel(ctx), f.entry.it.ID) }, func(broke error) { err = broke })
	switch {
	case err != nil || !ok:
		return false, err
	case res.InputHash == f.entry.hash:
		return res.Version == p.cfg.Version && p.valid(f.entry.it, res.Data) == nil, nil
	case rec.LastFailedAt.After(res.At):
		return false, nil // the input has changed, and failed
	case res.Version != p.cfg.Version || p.valid(f.entry.it, res.Data) != nil:
		// To send the older input would write over what came of the newer one,
		// which the next run does again.
		return false, p.stay(f, rec, errors.New("batch: a result from another input is there that is no good"))
	}
	f.note = fmt.Sprintf("%s: its letter of %s is acked unsent: a result from another input was stored at %s",
		f.entry.it.ID, rec.LastFailedAt.UTC().Format(time.RFC3339), res.At.UTC().Format(time.RFC3339))
	return true, nil
}

// keep returns when the result of f survives a power cut: the letter is all that
// would tell of it. data is nil when the result is there.
func (p *replayed) keep(ctx context.Context, f *resend, data []byte) (err error) {
	guarded(func() {
		if data != nil {
			err = p.store(ctx, f.flight, data)
		}
		if err == nil {
			err = p.results.Sync(context.WithoutCancel(ctx))
		}
		if err != nil {
			err = p.unkept(f, err)
		}
	}, func(broke error) { err = p.unkept(f, broke) })
	if err == nil {
		f.fate = done
	}
	return err
}

// unkept ends the replay: the next result would be lost as well. The letter
// stays as it was.
func (p *replayed) unkept(f *resend, err error) error {
	f.fate = lost
	return p.halt(noMore{by: "lost", err: err})
}

// judged says what the failure of f means for its letter.
func (p *replayed) judged(ctx context.Context, f *resend, rec deadletter.Record) error {
	verdict := p.judge(ctx, f.flight)
	if verdict != dead {
		f.fate = verdict
	}
	switch verdict {
	case refused:
		if f.calls(true) > 0 && !isClosed(p.proven) {
			// A retry inside has met the breaker that its own failed call had
			// opened: after the wait others are the probe, not this one again.
			_ = p.stay(f, rec, errors.New(redact.Err(f.refusal, maxText))) // no refusal of the next round
			p.mu.Lock()
			p.waited[rec.ID] = true
			p.later = append(p.later, lateLetter{rec.ID, p.probes.failed(nameOf(rec))})
			p.mu.Unlock()
		}
		return p.halt(noMore{by: guardOf(f.refusal), err: f.refusal, guard: true})
	case unauthed:
		if p.keyRefused(nameOf(rec)) >= maxRefusedKeys {
			return p.halt(noMore{by: "auth", err: f.err})
		}
		return p.stay(f, rec, f.err)
	case pending:
		return &call.Stays{Err: f.err}
	}
	p.mu.Lock()
	p.spins = 0 // it went through
	// A letter with a later date lets the next round see its new failure.
	p.stays[rec.ID] = &call.Stays{Err: errors.New("batch: it has failed in this replay")}
	if f.calls(true) > 0 {
		p.keys = 0
		if f.upstream && !isClosed(p.proven) {
			p.probes.failed(nameOf(rec)) // the next replay has others go first
		}
	}
	p.mu.Unlock()
	return f.err
}

// keyRefused counts a refused key and returns how many there were in a row.
func (p *replayed) keyRefused(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probes.failed(id)
	p.keys++
	return p.keys
}

// answered notes that an item was done.
func (p *replayed) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys, p.held, p.spins = 0, 0, 0
	if !isClosed(p.proven) {
		close(p.proven)
	}
}

// landing is a letter whose claim has ended.
type landing struct {
	deadletter.Result
	sent *resend // nil when it was not sent
}

// ends returns what was sent of a letter whose claim has ended. The next round may
// claim it at once.
func (p *replayed) ends(rec string) *resend {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.open[rec]
	delete(p.open, rec)
	return f
}

// land counts a letter whose claim has ended.
func (p *replayed) land(res deadletter.Result, f *resend) {
	rep, id := &p.report, nameOf(res.Record)
	var (
		end     fate // pending: where it is found at the end decides
		failure = deadletter.FailureOf(res.Err)
	)
	if f != nil {
		end = f.fate
		if f.failure.Signature != "" {
			failure = f.failure
		}
		p.calls += f.made
		if f.made > 0 {
			p.called++
		}
		if f.note != "" {
			p.warn("%s", f.note)
		}
	}
	switch {
	case res.Kept != nil:
		p.warn("%s: the claim of its letter did not end as it should: %v", id, res.Kept)
		return
	case res.Verb == deadletter.Ack:
		rep.Done++
		p.probes.over(id)
		if f.tries > 0 {
			p.meter.item(p.cfg.Clock.Now().Sub(f.began))
			clear(p.alarms.repeats)
		} else {
			rep.Skipped++
		}
	case res.Verb == deadletter.Return || res.Verb == deadletter.Quarantine:
		rep.Dead++
		addName(&rep.DeadItems, id)
		p.failed(failure.Signature, failure.SignatureText)
	case end == dead && !p.counted[res.Record.ID]: // else in an earlier round
		rep.Dead++
		rep.DeadBefore++
		addName(&rep.DeadItems, id)
	default:
		if end == unauthed {
			p.failed(failure.Signature, failure.SignatureText)
		}
		return
	}
	p.counted[res.Record.ID] = true
}
