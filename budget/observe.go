package budget

import (
	"context"
	"net/http"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
	"github.com/nightfuse/nightfuse/internal/nils"
)

// maxHold bounds how far one hint holds the whole key.
const maxHold = 10 * time.Minute

// maxPause bounds the pause after refusals that name no time.
const maxPause = 5 * time.Second

// Observe tells how the upstream has answered the call of s, as soon as that
// is known: its status (0 = no answer), its headers, and a wait hint from
// elsewhere (0 = none; then the headers of a 429 or 5xx are asked). A hint holds
// the whole key for as long as it says, up to 10 minutes; a refusal (429)
// without one for a moment that doubles with every further one, and so does one
// of a call that had waited as long as the server asked. Only refusals of calls
// that were sent after the last cut cut the rate of an adaptive pacer.
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
		switch {
		case hint <= 0:
			pause = p.pause(now, p.row)
		case p.row > 1 && !s.at.Before(p.hold):
			// It was not earlier than the server said, and still refused: where
			// refused calls count, obeying to the millisecond would go on so.
			p.obeyed++
			pause = max(hint, p.pause(now, p.obeyed))
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
			p.row, p.obeyed = 0, 0
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

// pause is how long to wait after so many refusals in vain; p.mu is held.
func (p *Pacer) pause(now time.Time, n int) time.Duration {
	return min(seconds(float64(uint64(1)<<min(n, 10))/p.perSecond(now)), maxPause)
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
	err = nils.Error(fn(box))
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
		now := p.clock.Now()
		status, hint := modelapi.StatusOf(err), time.Duration(0)
		if v, ok := modelapi.OfError(err, now); ok {
			status, hint = v.Effective(), v.Wait
		}
		if at, ok := call.RetryAt(err); ok {
			hint = at.Sub(now)
		}
		p.Observe(s, status, nil, hint)
	}
	return err
}
