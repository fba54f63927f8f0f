package budget

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// PacerConfig is what a [Pacer] is made of. At least one of Requests, Tokens
// and Adapt must be set.
type PacerConfig struct {
	// Name appears in errors, events and Stats. "" = "pacer".
	Name string

	// Requests is the known limit in calls per minute. 0 = not known.
	Requests int64

	// Tokens is the known limit in tokens per minute. 0 = not known. A call's
	// tokens are its estimate until it is settled. A call of more than ten
	// seconds' worth collects its tokens in parts; one of more than a minute's
	// worth waits for longer than a minute.
	Tokens int64

	// Adapt finds the limit out from refusals (429), when nobody knows it or
	// others share it. It may go with known limits.
	Adapt bool

	// Headroom is the share of the rate left to people on the same key; 0 =
	// none, below 1. It costs that share of the speed.
	Headroom float64

	// Express are owners whose calls go at once and are counted: people.
	Express []string

	// Estimate says how many tokens a request may cost, for the transport,
	// when Tokens or Adapt is set. nil = EstimateBody.
	Estimate func(req *http.Request, body []byte) int64

	// Clock is the time. nil = real time. Only with real time is a context's
	// deadline compared with a turn.
	Clock Clock

	// Logger gets what OnEvent gets. nil = silent.
	Logger *slog.Logger

	// OnEvent is told what happens, with no lock held, one event at a time, in
	// order. It may call any method. A panic in it is logged and counted.
	OnEvent func(PacerEvent)
}

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
	events   events[PacerEvent]

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
	if c.Requests > 0 {
		p.requests = newRequestSpacer(float64(c.Requests) * (1 - c.Headroom))
	}
	if c.Tokens > 0 {
		p.tokens = newTokenSpacer(float64(c.Tokens) * (1 - c.Headroom))
	}
	if c.Adapt {
		p.curve = newCurve(c.Headroom)
	}
	p.events.hook, p.events.lost = c.OnEvent, p.hookPanicked
	return p, nil
}

func checkPacer(c PacerConfig) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name != "" && !nameText(c.Name) {
		bad("Name %q: at most 64 bytes without control characters", c.Name)
	}
	if c.Requests == 0 && c.Tokens == 0 && !c.Adapt {
		bad("one of Requests, Tokens and Adapt must be set")
	}
	if c.Requests < 0 || c.Requests > MaxAmount {
		bad("Requests %d: must be 0 to %d", c.Requests, int64(MaxAmount))
	}
	if c.Tokens < 0 || c.Tokens > MaxAmount {
		bad("Tokens %d: must be 0 to %d", c.Tokens, int64(MaxAmount))
	}
	if !(c.Headroom >= 0 && c.Headroom < 1) {
		bad("Headroom %v: must be 0 to below 1", c.Headroom)
	}
	if slices.Contains(c.Express, "") {
		bad("Express: an owner without a name")
	}
	return errors.Join(errs...)
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
// When the turn would come after ctx's deadline, Wait says so at once with a
// [*LateError]. Calls of an Express owner, known by [WithOwner], do not wait.
func (p *Pacer) Wait(ctx context.Context, tokens int64) (Slot, error) {
	if ctx.Err() != nil {
		return Slot{}, stop(ctx, "budget: not waiting for a turn")
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
	return stop(ctx, "budget: pacer "+p.name+": waiting for a turn")
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

// maxHold bounds how far one hint holds the whole key.
const maxHold = 10 * time.Minute

// maxPause bounds the pause after refusals that name no time.
const maxPause = 5 * time.Second

// Observe tells how the upstream has answered the call of s, as soon as that
// is known: its status (0 = no answer), its headers, and a wait hint from
// elsewhere (0 = none; then the headers of a 429 or 5xx are asked). A hint holds
// the whole key for as long as it says, up to 10 minutes; a refusal (429)
// without one for a moment that doubles with every further one. Only refusals of calls that were sent after
// the last cut cut the rate of an adaptive pacer.
func (p *Pacer) Observe(s Slot, status int, h http.Header, hint time.Duration) {
	if s.n == 0 {
		return
	}
	p.mu.Lock()
	now := p.now()
	refused := status == http.StatusTooManyRequests
	if hint <= 0 && h != nil && (refused || status >= 500) {
		hint, _ = modelapi.ParseHint(h, now)
	}
	var event PacerEvent
	switch {
	case refused:
		p.row++
		p.rowEnd = max(p.rowEnd, s.n)
		p.stats.Refused++
		pause := hint
		if pause <= 0 {
			pause = min(seconds(float64(uint64(1)<<min(p.row, 10))/p.perSecond(now)), maxPause)
		}
		cut := p.curve != nil && p.curve.refused(now, s, min(hint, maxHold))
		if p.curve != nil && p.curve.deaf && hint <= 0 {
			break // refusals that have nothing to do with the rate
		}
		p.holdUntil(now.Add(min(pause, maxHold)))
		event = PacerEvent{Kind: PacerHeld, Until: p.hold, Status: status}
		if cut {
			p.stats.Cuts++
			event.Kind, event.Rate = PacerCut, p.curve.limit*60
		}
	case hint > 0:
		p.holdUntil(now.Add(min(hint, maxHold)))
		event = PacerEvent{Kind: PacerHeld, Until: p.hold, Status: status}
	case status != 0 && status < 500 || status == http.StatusInternalServerError:
		if s.n > p.rowEnd { // answers to calls from before are slower than refusals
			p.row = 0
		}
		p.stats.Passed++
		if p.curve != nil {
			p.curve.passed(s)
		}
	}
	p.mu.Unlock()
	if event.Kind != "" {
		p.emit(event)
	}
}

// holdUntil lengthens the hold and tells the head; p.mu is held.
func (p *Pacer) holdUntil(t time.Time) {
	if t.After(p.hold) {
		p.hold = t
	}
	p.held = true
	p.stats.Holds++
	p.changed()
}

func (p *Pacer) changed() {
	if p.wake != nil {
		close(p.wake)
		p.wake = nil
	}
}

// perSecond is the rate of calls, as far as there is one; p.mu is held.
func (p *Pacer) perSecond(now time.Time) float64 {
	switch {
	case p.curve != nil:
		return p.curve.rate(now)
	case p.requests != nil:
		return p.requests.perSecond()
	}
	return 1
}

// Settle tells what the call of s has really used, in tokens. What the
// estimate took too much is given back to the known limit of Tokens.
func (p *Pacer) Settle(s Slot, actual int64) {
	if s.n == 0 || p.tokens == nil || actual < 0 || actual > MaxAmount {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if actual > s.tokens {
		p.tokens.take(now, actual-s.tokens)
	} else {
		p.tokens.give(now, s.tokens-actual)
	}
	p.changed()
}

// Cancel gives the turn back of a call that was never sent.
func (p *Pacer) Cancel(s Slot) {
	if s.n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.tokens != nil {
		p.tokens.give(now, s.tokens)
	}
	if p.requests != nil {
		p.requests.give(now, 1)
	}
	if p.curve != nil {
		p.curve.unsent(s)
	}
	p.stats.Unsent++
	p.changed()
}

// Do waits for a turn, calls fn and observes what it returns: nil is an
// answer, an error counts by its status, its wait hint and whether it was sent
// at all. The estimate comes from [WithEstimate], what was used from [Used].
// Within a call that has passed this pacer already, Do only calls fn.
func (p *Pacer) Do(ctx context.Context, fn func(context.Context) error) error {
	outer := call.From(ctx)
	if outer.Inside(p) {
		return fn(ctx)
	}
	box := call.With(ctx)
	box.Enter(p)
	box.Used = new(call.Used)
	s, err := p.Wait(box, box.Estimate)
	if err != nil {
		return refused(box, err)
	}
	box.Item.Pass()
	err = fn(box)
	if used, told := box.Used.Sum(); told {
		p.Settle(s, used)
		if outer != nil && outer.Used != nil {
			outer.Used.Add(used)
		}
	}
	switch {
	case err == nil:
		p.Observe(s, http.StatusOK, nil, 0)
	case !sent(ctx, err):
		p.Cancel(s)
	default:
		var hint time.Duration
		if at, ok := call.RetryAt(err); ok {
			hint = at.Sub(p.clock.Now())
		}
		p.Observe(s, modelapi.StatusOf(err), nil, hint)
	}
	return err
}
