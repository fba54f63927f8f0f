package call

import (
	"context"
	"sync"
	"sync/atomic"
)

// Item is what all calls made for one item share. Its methods are safe for
// concurrent use.
type Item struct {
	calls  atomic.Int64
	passed atomic.Int64

	mu      sync.Mutex
	refusal error
	failure error
}

// Pass says that a guard let the call through: an earlier refusal is over. A
// guard further in may refuse after it.
func (it *Item) Pass() {
	it.passed.Add(1)
	it.mu.Lock()
	it.refusal = nil
	it.mu.Unlock()
}

// Passed returns how often a guard has let a call of the item through. While it
// does not change nothing was sent.
func (it *Item) Passed() int64 { return it.passed.Load() }

// Sent counts one call that went out for the item and returns the count with
// this one. Whoever owns the attempts counts: the retry.
func (it *Item) Sent() int { return int(it.calls.Add(1)) }

// Calls returns how many calls went out for the item.
func (it *Item) Calls() int { return int(it.calls.Load()) }

// Refuse notes that a guard said no. It stands until a guard says yes.
func (it *Item) Refuse(err error) {
	it.mu.Lock()
	it.refusal = err
	it.mu.Unlock()
}

// Refusal returns the refusal that the item's latest call met, nil if it met
// none.
func (it *Item) Refusal() error {
	it.mu.Lock()
	defer it.mu.Unlock()
	return it.refusal
}

// Fail notes the item's last failure; nil clears it after a success.
func (it *Item) Fail(err error) {
	it.mu.Lock()
	it.failure = err
	it.mu.Unlock()
}

// Failure returns the last noted failure, nil when the last call succeeded.
func (it *Item) Failure() error {
	it.mu.Lock()
	defer it.mu.Unlock()
	return it.failure
}

// Timer is the time limit of an attempt.
type Timer interface {
	Hold()
	Go()
}

// Attempt is one attempt of a call. The transports that it passes through
// share what they see of the answer in it.
type Attempt struct {
	N     int   // 1 is the call's first
	Timer Timer // nil when there is none; an attempt within this one has it too
	wire  bool

	mu   sync.Mutex
	view any  // the only one
	more bool // there was another
}

// Hold stops the attempt's time limit while a guard keeps the call waiting:
// the limit is for calls that are under way. Every Hold is followed by a Go.
// Both are for any goroutine, also after the attempt's end, and for a nil
// Attempt.
func (a *Attempt) Hold() {
	if a != nil && a.Timer != nil {
		a.Timer.Hold()
	}
}

// Go lets the time limit run on, with what was left of it.
func (a *Attempt) Go() {
	if a != nil && a.Timer != nil {
		a.Timer.Go()
	}
}

// AddView keeps a view of this attempt's answer.
func (a *Attempt) AddView(v any) {
	a.mu.Lock()
	a.more = a.view != nil
	a.view = v
	a.mu.Unlock()
}

// View returns the only view of this attempt. A second answer (a wrapper in
// between that sends twice) makes it ambiguous: then it returns nil.
func (a *Attempt) View() any {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.more {
		return nil
	}
	return a.view
}

// Limit bounds the calls made under a context, whoever makes them.
type Limit struct {
	left  atomic.Int64
	outer *Limit
}

// NewLimit returns a limit of n calls inside outer, which may be nil.
func NewLimit(n int, outer *Limit) *Limit {
	l := &Limit{outer: outer}
	l.left.Store(int64(n))
	return l
}

// Take takes one call from the limit and from every limit around it up to end,
// which may be nil for all of them, and reports whether all had one left. Where
// one had not, nothing is taken. A nil Limit always grants.
func (l *Limit) Take(end *Limit) bool {
	if l == end || l == nil {
		return true
	}
	if l.left.Add(-1) < 0 {
		l.left.Add(1)
		return false
	}
	if !l.outer.Take(end) {
		l.left.Add(1)
		return false
	}
	return true
}

// Give gives back a call that was taken up to end and not sent.
func (l *Limit) Give(end *Limit) {
	for ; l != end && l != nil; l = l.outer {
		l.left.Add(1)
	}
}

// Used collects what a function's calls have used: what the function says, and
// what transports inside have seen. Its methods are safe for concurrent use.
type Used struct {
	sum, seen      atomic.Int64
	told, answered atomic.Bool
}

// See adds n units that a transport has read from an answer.
func (u *Used) See(n int64) {
	u.seen.Add(n)
	u.answered.Store(true)
}

// Add adds n units.
func (u *Used) Add(n int64) {
	u.sum.Add(n)
	u.told.Store(true)
}

// Sum returns what was reported, the function's own word before what was seen,
// and false when nothing was.
func (u *Used) Sum() (int64, bool) {
	if u.told.Load() {
		return u.sum.Load(), true
	}
	return u.seen.Load(), u.answered.Load()
}

// CallerGaveUp reports whether ctx, the caller's own context, was cancelled by
// its owner (true) rather than by its deadline or not at all. The guards treat
// the one as no verdict on the upstream and the other as a failure to answer
// in time.
func CallerGaveUp(ctx context.Context) bool {
	return ctx.Err() == context.Canceled
}
