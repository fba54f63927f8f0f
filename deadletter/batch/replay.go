package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/nils"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// Replay does the items of the dead letters in store once more, with the same
// folder, results, checks, report, signals and exit codes as Run; see
// [deadletter.Replay] for the order, the claims and o. Of o the queue in Filter,
// Clock and Logger are c's; Concurrency 0 is c.Workers. A letter is acked when
// its result is stored.
//
// Of c it does not use Hold, Until, Patience and AllowEmpty: a replay ends at the
// first refusal, and no letters are a success unless o's Filter asks for some.
// In the report Total is the letters that matched; those that failed again are
// dead, those that were refused or not tried are pending.
func Replay(ctx context.Context, c Config, store deadletter.Store, handle Handle, o deadletter.Options) (Report, error) {
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

// replayed is what the sends of a replay share.
type replayed struct {
	*run
	user func(deadletter.Result) // the caller's OnResult

	mu       sync.Mutex
	sent     map[string]*flight // by record id
	returned map[string]bool    // record ids of those that failed again
	drained  string             // why nothing more is sent
}

// sendsNoMore ends a replay after the sends in flight.
type sendsNoMore string

func (d sendsNoMore) Error() string { return "batch: nothing more is sent: " + string(d) }

// RefusedBy is the reason: the letter stays as it was.
func (d sendsNoMore) RefusedBy() string { return string(d) }

// replay replays what matches; asked says that o asks for some letters.
func (r *run) replay(ctx context.Context, store deadletter.Store, o deadletter.Options, asked bool) {
	p := &replayed{run: r, user: o.OnResult, sent: map[string]*flight{}, returned: map[string]bool{}}
	o.Filter.Queue, o.Clock, o.Logger, o.OnResult = r.cfg.Letters.Name(), r.cfg.Clock, r.cfg.Logger, p.result
	if o.Concurrency == 0 {
		o.Concurrency = r.cfg.Workers
	}
	rctx, cancel := context.WithCancelCause(ctx)
	ended, quiet := make(chan struct{}), make(chan os.Signal, 1)
	var watch sync.WaitGroup
	watch.Go(func() { p.listen(cancel, ended, quiet) })
	rep, err := deadletter.Replay(rctx, store, p.send, o)
	close(ended)
	watch.Wait()
	cancel(nil)
	select {
	case r.signal = <-quiet:
	default:
	}

	r.report.Done = int64(rep.Acked)
	r.report.Dead = int64(rep.Returned + rep.Quarantined)
	r.report.Pending = int64(max(0, rep.Matched-rep.Acked-rep.Returned-rep.Quarantined))
	if r.report.Pending > 0 {
		p.namePending(context.WithoutCancel(ctx), store, o.Filter)
	}
	r.report.StoppedBy = rep.StoppedBy
	r.cause = err
	switch {
	case errors.Is(err, deadletter.ErrNoMatch):
		// There are none of this queue's, unless some were asked for.
		r.cfg.AllowEmpty = !asked
		if !asked {
			r.cause = nil
		}
	case rep.StoppedBy != "":
		r.reasons[rep.StoppedBy] = true
		r.report.Refusal = redact.Err(err, maxText)
	case ctx.Err() != nil:
		r.reasons["cancelled"] = true
	case err != nil && !errors.Is(err, deadletter.ErrPartial):
		r.reasons["lost"] = true
	}
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

// namePending names the letters that were not tried or not counted.
func (p *replayed) namePending(ctx context.Context, store deadletter.Store, f deadletter.Filter) {
	f.After, f.Limit = deadletter.Cursor{}, 0
	if len(f.States) == 0 {
		f.States = []deadletter.State{deadletter.Dead}
	}
	for rec, err := range store.List(ctx, f) {
		if err != nil {
			p.warn("name the letters that are left: %v", err)
			if !errors.Is(err, deadletter.ErrCorrupt) {
				return
			}
			continue
		}
		if !p.returned[rec.ID] {
			addName(&p.report.PendingItems, nameOf(rec))
		}
	}
}

// listen hears the signals: the first drains, the second cancels, as does the
// end of the grace after the first.
func (p *replayed) listen(cancel context.CancelCauseFunc, ended <-chan struct{}, first chan<- os.Signal) {
	var grace <-chan time.Time
	for {
		select {
		case <-ended:
			return
		case s := <-p.signals:
			if grace != nil {
				cancel(fmt.Errorf("batch: a second signal: %v", s))
				continue
			}
			first <- s
			p.draining(s)
			p.drain("signal")
			grace = p.cfg.Clock.After(p.cfg.Grace)
		case <-grace:
			cancel(fmt.Errorf("batch: calls in flight took longer than %v", p.cfg.Grace))
		}
	}
}

func (p *replayed) drain(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drained == "" {
		p.drained = why
	}
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

// send does a letter's item.
func (p *replayed) send(ctx context.Context, rec deadletter.Record) error {
	p.mu.Lock()
	why := p.drained
	p.mu.Unlock()
	if why != "" {
		return sendsNoMore(why)
	}
	it := Item{ID: nameOf(rec), Input: rec.Payload, Estimate: rec.EstTokens, Labels: maps.Clone(rec.Labels)}
	delete(it.Labels, inputLabel)
	if p.cfg.Version != "" {
		delete(it.Labels, versionLabel)
	}
	f := &flight{entry: newEntry(it, 0), box: call.With(ctx), began: p.cfg.Clock.Now()}
	p.mu.Lock()
	p.sent[rec.ID] = f
	p.mu.Unlock()

	data := p.try(ctx, f, nil)
	if f.err != nil {
		return f.err
	}
	err := p.store(ctx, f, data)
	if err != nil {
		// The letter stays, and the next one's answer would be lost as well.
		p.drain("lost")
	}
	return err
}

// result counts a letter whose claim has ended. One runs at a time.
func (p *replayed) result(res deadletter.Result) {
	p.mu.Lock()
	f := p.sent[res.Record.ID]
	delete(p.sent, res.Record.ID)
	p.mu.Unlock()
	id := nameOf(res.Record)
	if f != nil {
		f.err = res.Err
		if res.Err != nil && call.RefusedBy(res.Err) != "" {
			f.fate = refused
		}
		n := f.calls(true)
		p.calls += n
		if n > 0 {
			p.called++
		}
	}
	switch {
	case res.Kept != nil:
		p.warn("%s: the claim of its letter did not end as it should: %v", id, res.Kept)
	case res.Verb == deadletter.Ack && f != nil:
		p.meter.item(p.cfg.Clock.Now().Sub(f.began))
	case res.Verb == deadletter.Return || res.Verb == deadletter.Quarantine:
		addName(&p.report.DeadItems, id)
		p.returned[res.Record.ID] = true
		failure := deadletter.FailureOf(res.Err)
		p.failed(failure.Signature, failure.SignatureText)
	}
	if p.user != nil {
		p.user(res)
	}
}
