package retry

import (
	"context"
	"sync"

	"github.com/nightfuse/nightfuse/internal/call"
)

// WithLimit returns a context under which at most n calls are made, whoever
// retries above: a foreign loop around a client of ours gets no more than n in
// all. The call that finds nothing left is not sent, and its *Error has
// [ErrExhausted] as its Cause. It holds inside a [Do] as well, although the
// retry within does nothing else there. Limits nest; refused calls are not
// counted. n below 0 counts as 0.
func WithLimit(ctx context.Context, n int) context.Context {
	b := call.Setting(ctx)
	b.Limit = call.NewLimit(max(n, 0), b.Limit)
	return b
}

// share is what a retry that passes straight through, since one above owns the
// attempts, takes from the limits that were set between the two.
type share struct{ limit, counted *call.Limit }

// takeShare takes one call, and returns the context to go on with, in which it
// is taken. Its error is an *Error of an item that was not sent.
func takeShare(ctx context.Context, up *call.Box) (context.Context, share, error) {
	s := share{up.Limit, up.Counted}
	if s.limit == s.counted {
		return ctx, s, nil
	}
	if !s.limit.Take(s.counted) {
		return nil, s, &Error{Cause: errLimit}
	}
	b := call.With(ctx)
	b.Counted = b.Limit
	return b, s, nil
}

// settle gives the call back where it was not sent.
func (s share) settle(err error) {
	if err != nil && s.limit != s.counted && (call.RefusedBy(err) != "" || call.NotSent(err)) {
		s.limit.Give(s.counted)
	}
}

// WithOutcome returns a context that notes how the item under it went, for
// callers whose SDK replaces errors by texts of its own. Use a fresh one for
// each item.
func WithOutcome(ctx context.Context) (context.Context, *Outcome) {
	b := call.Setting(ctx)
	o := new(Outcome)
	b.Outcome = o
	return b, o
}

// Outcome is how an item went. It is filled when the item ends: for a streamed
// answer at the end of its body. Its methods are safe for concurrent use.
type Outcome struct {
	mu    sync.Mutex
	calls int
	items int
	err   error
}

// Calls returns the calls sent under the context so far.
func (o *Outcome) Calls() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls
}

// Ended reports whether an item has ended under the context.
func (o *Outcome) Ended() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.items > 0
}

// Err returns why the latest item failed: a *Error; nil when it succeeded or
// none has ended.
func (o *Outcome) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *Outcome) note(calls int, err error) {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.calls += calls
	o.items++
	o.err = err
	o.mu.Unlock()
}
