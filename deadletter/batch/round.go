package batch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
)

// rounds replays the letters, and after each refusal that has lifted once more
// those that it kept from being tried.
func (p *replayed) rounds(ctx context.Context, end *replayEnd) {
	o := p.o
	for round := 1; ; round++ {
		rep, err := deadletter.Replay(ctx, p.letters, p.send, o)
		if round == 1 {
			// What fails in this replay fails later than all that was there.
			until := p.began
			for _, g := range rep.Groups {
				until = later(until, g.Last)
			}
			if o.Filter.Until.IsZero() || o.Filter.Until.After(until) {
				o.Filter.Until = until
			}
		} else {
			rep.Matched = end.rep.Matched
			if errors.Is(err, deadletter.ErrNoMatch) {
				err = nil // somebody else has done the rest
			}
		}
		if err == nil && errors.Is(end.err, deadletter.ErrPartial) {
			err = end.err // a round for failed probes does not see what stays
		}
		end.rep, end.err = rep, err
		if err != nil && p.stopped() == nil && !errors.Is(err, deadletter.ErrPartial) && !errors.Is(err, deadletter.ErrNoMatch) {
			return // the store's, or the end of ctx
		}
		if o.Max > 0 {
			if o.Max -= rep.Acked + rep.Returned + rep.Quarantined; o.Max <= 0 {
				return
			}
		}
		var more bool
		if o.Filter.IDs, more = p.next(ctx); !more {
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// next returns the letters that the next round is for, by their record ids, and
// whether there is to be one: after a refusal that has lifted it is for all that are
// asked for, else for failed probes.
func (p *replayed) next(ctx context.Context) (ids []string, more bool) {
	p.mu.Lock()
	refused := len(p.stops) > 0
	if !refused && ctx.Err() == nil {
		ids = p.giveTurn()
	}
	p.mu.Unlock()
	if !refused {
		return ids, len(ids) > 0
	}
	return p.o.Filter.IDs, p.lifted(ctx)
}

// giveTurn returns the failed probes that are to be sent now, the first to fail
// first: one, and twice as many each time until a guard refuses. Among those the
// cheapest is sent first, and it may be one that always fails. The caller has the
// lock.
func (p *replayed) giveTurn() (ids []string) {
	n := min(len(p.later), 1<<min(p.turns, 30))
	p.turns++
	slices.SortFunc(p.later, func(a, b lateLetter) int { return cmp.Compare(a.turn, b.turn) })
	for _, l := range p.later[:n] {
		delete(p.stays, l.rec)
		ids = append(ids, l.rec)
	}
	p.later, p.proven = p.later[n:], make(chan struct{})
	return ids
}

// lifted waits until the refusal that ended a round may have lifted, and reports
// whether there is to be another. The waits since an item was done are at most
// Hold in all.
func (p *replayed) lifted(ctx context.Context) bool {
	p.mu.Lock()
	stops, left, spins := p.stops, p.cfg.Hold-p.held, p.spins
	p.spins++
	p.turns = 0
	p.mu.Unlock()
	if slices.ContainsFunc(stops, func(why *noMore) bool { return !why.guard }) || left <= 0 {
		return false
	}
	refusal := stops[0].err
	clk := p.cfg.Clock
	began := clk.Now()
	if at, said := call.RetryAt(refusal); said && at.Sub(began) > left {
		return false // it would be waited for in vain
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- awaited(ctx, clk, refusal, spins) }()
	select {
	case err := <-over:
		if err != nil {
			return false
		}
	case <-clk.After(left):
		return false
	case <-p.quit:
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(p.quit) {
		return false
	}
	p.held += clk.Now().Sub(began)
	p.stops, p.stopping, p.proven = nil, make(chan struct{}), make(chan struct{})
	return true
}
