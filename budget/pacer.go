package budget

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/hook"
)

// A Pacer lets the calls of all workers on one credential go one after the
// other, at the rate the upstream takes them. Waiting is in turn, and a hold
// (a 429, a wait the server asked for) is everybody's: after it calls go at
// the paced rate again. It is safe for concurrent use. Most callers want
// [NewPacedTransport] or [Pacer.Do].
//
// A pacer does not know of other processes on its key. Where the limit is
// known give each its part of it; Adapt shares within about 20 % from 600
// calls a minute up with two processes, roughly with four; below two calls a
// second per process share one process or a known limit.
type Pacer struct {
	name     string
	express  []string
	estimate func(*http.Request, []byte) int64
	sizes    bool // tokens matter
	clock    Clock
	real     bool
	logger   *slog.Logger
	events   hook.Queue[PacerEvent]

	mu       sync.Mutex
	requests *spacer // nil = not known
	tokens   *spacer
	curve    *curve // nil without Adapt
	queue    queue
	wake     chan struct{} // tells the head that something has changed; nil when it need not know
	hold     time.Time
	held     bool // hold has not been looked at since it passed
	n        uint64
	row      int // refusals in a row with nothing passed, by the order of sending
	rowEnd   uint64
	obeyed   int // of these, calls that had waited as long as the server asked
	stats    PacerStats
}

// NewPacer returns a pacer, or everything that is wrong with the PacerConfig.
func NewPacer(c PacerConfig) (*Pacer, error) {
	p := &Pacer{
		name: c.Name, express: slices.Clone(c.Express), estimate: c.Estimate, sizes: c.Tokens > 0 || c.Adapt,
		clock: clockOr(c.Clock), real: c.Clock == nil, logger: c.Logger,
	}
	if p.name == "" {
		p.name = "pacer"
	}
	if p.estimate == nil {
		p.estimate = EstimateBody
	}
	if err := checkPacer(c); err != nil {
		return nil, fmt.Errorf("budget: pacer: %w", err)
	}
	headroom := max(c.Headroom, 0) // below 0 is none, as in a Config
	if c.Requests > 0 {
		p.requests = newRequestSpacer(float64(c.Requests) * (1 - headroom))
	}
	if c.Tokens > 0 {
		p.tokens = newTokenSpacer(float64(c.Tokens) * (1 - headroom))
	}
	if c.Adapt {
		p.curve = newCurve(headroom)
	}
	p.events.Hook, p.events.Lost = c.OnEvent, p.hookPanicked
	return p, nil
}

// Name returns the PacerConfig's Name.
func (p *Pacer) Name() string { return p.name }

// A Slot is the turn of one call. Give it back to exactly one of Observe and
// Cancel, and to Settle when the real cost is known. The zero Slot is nobody's
// and does nothing.
type Slot struct {
	n       uint64 // 1 is the pacer's first
	at      time.Time
	tokens  int64
	counted bool    // somebody waited, so it says something about the rate
	act     float64 // the curve's clock, see there
	cum     float64
	cost    float64
}

// At returns when the call was let go.
func (s Slot) At() time.Time { return s.at }

// Wait blocks until it is the turn of a call of that many tokens (0 or an
// estimate), first come first served. Waiting spends nothing: a caller whose
// ctx ends leaves the queue and its place to the next, and gets ctx's cause.
// The AttemptTimeout of a retry around it stands still meanwhile. When the turn
// would come after ctx's deadline, Wait says so at once with a [*LateError].
// Calls of an Express owner, known by [WithOwner], do not wait.
func (p *Pacer) Wait(ctx context.Context, tokens int64) (Slot, error) {
	if ctx.Err() != nil {
		return Slot{}, call.Stopped(ctx, "budget: not waiting for a turn")
	}
	tokens = min(max(tokens, 0), MaxAmount)
	if len(p.express) > 0 {
		if b := call.From(ctx); b != nil && slices.Contains(p.express, b.Owner) {
			return p.pass(tokens), nil
		}
	}
	p.mu.Lock()
	now := p.now()
	w := waiter{tokens: tokens, since: now}
	if p.queue.n == 0 {
		p.unsave(now, tokens)
		if p.delay(now, &w) <= 0 {
			s := p.leave(now, &w, false)
			p.mu.Unlock()
			return s, nil
		}
	}
	if deadline, ok := ctx.Deadline(); ok && p.real {
		if turn := p.turn(now, &w); turn.After(deadline) {
			p.undo(now, &w)
			e := &LateError{Pacer: p.name, Turn: turn, Deadline: deadline, Waiting: p.queue.n, clock: p.clock}
			p.stats.Late++
			p.mu.Unlock()
			p.emit(PacerEvent{Kind: PacerLate, Err: e})
			return Slot{}, e
		}
	}
	q := p.queue.push(w)
	p.mu.Unlock()
	if b := call.From(ctx); b != nil {
		b.Attempt.Hold() // a retry's limit is for calls, and this one waits
		defer b.Attempt.Go()
	}
	return p.queued(ctx, q)
}

// queued waits for w's turn. Only the first in the queue has a timer.
func (p *Pacer) queued(ctx context.Context, w *waiter) (Slot, error) {
	for {
		p.mu.Lock()
		if p.queue.first != w {
			p.mu.Unlock()
			select {
			case <-w.first:
			case <-ctx.Done():
				return Slot{}, p.abandon(ctx, w)
			}
			continue
		}
		now := p.now()
		d := p.delay(now, w)
		if d <= 0 {
			s := p.leave(now, w, true)
			p.stats.Waited++
			p.stats.WaitSeconds += now.Sub(w.since).Seconds()
			p.remove(w)
			p.mu.Unlock()
			return s, nil
		}
		wake := make(chan struct{})
		p.wake = wake
		p.mu.Unlock()
		select {
		case <-p.clock.After(d):
		case <-wake:
		case <-ctx.Done():
			return Slot{}, p.abandon(ctx, w)
		}
	}
}

// abandon takes w out of the queue for a caller that has gone.
func (p *Pacer) abandon(ctx context.Context, w *waiter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.undo(now, w)
	p.remove(w)
	p.stats.Abandoned++
	return call.Stopped(ctx, "budget: pacer "+p.name+": waiting for a turn")
}

// remove takes w out of the queue and tells the next; p.mu is held.
func (p *Pacer) remove(w *waiter) {
	wasFirst := p.queue.first == w
	p.queue.remove(w)
	if next := p.queue.first; wasFirst && next != nil {
		close(next.first)
	}
}

// now brings the curve's clock up to date; p.mu is held.
func (p *Pacer) now() time.Time {
	now := p.clock.Now()
	if p.curve != nil {
		p.curve.run(now, p.queue.n > 0, p.hold)
	}
	return now
}

// unsave takes away what was saved while nobody waited; p.mu is held.
func (p *Pacer) unsave(now time.Time, tokens int64) {
	if p.tokens != nil {
		p.tokens.keep(now, tokens)
	}
	if p.requests != nil {
		p.requests.keep(now, 1)
	}
}

// delay returns how long w has to wait still; p.mu is held. It takes w's
// tokens in parts as they come, and asks for the rest in the order in which
// nothing is taken that w then does not use at once.
func (p *Pacer) delay(now time.Time, w *waiter) time.Duration {
	if d := p.hold.Sub(now); p.held {
		if d > 0 {
			return d
		}
		p.held = false
		p.unsave(now, w.tokens-w.taken)
	}
	if p.tokens != nil {
		for w.taken < w.tokens {
			part := min(w.tokens-w.taken, p.tokens.burst)
			if d := p.tokens.wait(now, part); d > 0 {
				return d
			}
			p.tokens.take(now, part)
			w.taken += part
		}
	}
	if p.requests != nil {
		if d := p.requests.wait(now, 1); d > 0 {
			return d
		}
	}
	if p.curve != nil {
		return p.curve.wait(now, w.tokens)
	}
	return 0
}

// leave lets w go; p.mu is held.
func (p *Pacer) leave(now time.Time, w *waiter, waited bool) Slot {
	if p.requests != nil {
		p.requests.take(now, 1)
	}
	p.n++
	p.stats.Sent++
	s := Slot{n: p.n, at: now, tokens: w.tokens}
	if p.curve != nil {
		p.curve.sent(now, &s, waited || p.queue.n > 0)
	}
	return s
}

// pass lets a call go that does not queue; what it takes the others wait for.
func (p *Pacer) pass(tokens int64) Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.tokens != nil {
		p.tokens.take(now, tokens)
	}
	p.stats.Express++
	return p.leave(now, &waiter{tokens: tokens}, false)
}

// undo gives back what w has taken; p.mu is held.
func (p *Pacer) undo(now time.Time, w *waiter) {
	if w.taken > 0 {
		p.tokens.give(now, w.taken)
		w.taken = 0
	}
}

// turn estimates when w would go if it queued now; p.mu is held.
func (p *Pacer) turn(now time.Time, w *waiter) time.Time {
	at := now
	if p.hold.After(at) {
		at = p.hold
	}
	var wait float64
	ahead := float64(p.queue.n)
	if p.requests != nil {
		wait = max(wait, p.requests.wait(at, 1).Seconds()+ahead/p.requests.perSecond())
	}
	if p.tokens != nil {
		lacks := float64(p.queue.tokens+w.tokens-w.taken) - p.tokens.lim.TokensAt(at)
		wait = max(wait, lacks/p.tokens.perSecond())
	}
	if p.curve != nil {
		wait = max(wait, p.curve.wait(at, w.tokens).Seconds()+ahead/p.curve.rate(at))
	}
	return at.Add(seconds(wait))
}

// seconds converts without overflow.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, 1e9) * float64(time.Second))
}
