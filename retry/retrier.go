package retry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/chain"
)

// Guard is what stands between a retry and the function it calls: the pacers,
// breakers and budgets of this module have this method.
type Guard interface {
	Do(ctx context.Context, fn func(context.Context) error) error
}

// Retrier repeats failed calls within the bounds of its [Config]. Most callers
// want [Do] or [NewTransport]. It is made by [New], starts no goroutine, keeps
// no timer, and is safe for concurrent use.
type Retrier struct {
	cfg         Config
	clock       Clock
	ownClock    bool          // the clock is the Config's
	epoch       time.Time     // when it was made
	callTimeout time.Duration // of a function's attempt; 0 = none
	headers     *timeoutError // of an attempt to its headers; nil = none
	idle        *timeoutError // of a read; nil = none

	drawMu sync.Mutex
	draw   func() float64

	warned atomic.Bool // of a foreign retry
	stats  counters
}

// Name returns the Config's name.
func (r *Retrier) Name() string { return r.cfg.Name }

// Stats returns what the Retrier has done so far and is doing.
func (r *Retrier) Stats() Stats { return r.stats.read(r.cfg.Name, r.tick()) }

// String returns Stats as JSON, so that a Retrier is an expvar.Var.
func (r *Retrier) String() string {
	b, err := json.Marshal(r.Stats())
	if err != nil {
		return "{}"
	}
	return string(b)
}

// random draws from [0, 1).
func (r *Retrier) random() float64 {
	r.drawMu.Lock()
	defer r.drawMu.Unlock()
	return r.draw()
}

// nilError is for a Retrier or a guard that is nil.
type nilError struct{ text string }

func (e *nilError) Error() string        { return e.text }
func (e *nilError) Is(target error) bool { return target == chain.ErrNilPart }

// NotSent is true: nothing is called where a part is missing.
func (e *nilError) NotSent() bool { return true }

// noRetrier is the Error of an item that has no Retrier.
func noRetrier() *Error { return &Error{Cause: &nilError{"retry: Do with a nil Retrier"}} }

// missing returns an error for the first guard that is nil, also one that is a
// nil pointer.
func missing(guards []Guard) error {
	for i, g := range guards {
		if g != nil {
			v := reflect.ValueOf(g)
			if k := v.Kind(); k != reflect.Pointer && k != reflect.Func || !v.IsNil() {
				continue
			}
		}
		return Stop(&nilError{fmt.Sprintf("retry: guard %d is nil", i+1)})
	}
	return nil
}

// Do calls fn until it succeeds, and returns its value, or a zero value and a
// *Error. The error is nil if and only if the last call succeeded. Every call
// goes through guards, outermost first; ctx reaches fn with marks that the
// module's other parts read, so fn must pass on the context it is given.
//
// An unknown error is retried. [Stop], [After], an error's own methods
// Retryable and RetryAt, its HTTP status and Config.Classify say otherwise. A
// refusal by a guard costs no attempt; a nil guard ends the item uncalled. Inside another Do, or around a client
// that has a [Transport], only the outermost retries.
func Do[T any](ctx context.Context, r *Retrier, fn func(context.Context) (T, error), guards ...Guard) (T, error) {
	var none T
	if r == nil {
		return none, noRetrier()
	}
	up := call.From(ctx)
	if up != nil && up.Retried {
		ctx, took, err := takeShare(ctx, up)
		if err != nil {
			return none, err
		}
		v, err := guarded(ctx, fn, guards)
		took.settle(err)
		if err != nil {
			return none, err
		}
		return v, nil
	}
	l := loop{r: r, ctx: ctx, up: up}
	l.begin()
	defer l.leave()
	for {
		ctx, err := l.attempt()
		if err != nil {
			return none, err
		}
		var v T
		if len(guards) == 0 {
			v, err = fn(ctx)
		} else {
			v, err = guarded(ctx, fn, guards)
		}
		if err == nil {
			l.succeed()
			return v, nil
		}
		if err := l.fail(err); err != nil {
			return none, err
		}
	}
}

// Do is the function [Do] for a function without a value.
func (r *Retrier) Do(ctx context.Context, fn func(context.Context) error, guards ...Guard) error {
	if r == nil {
		return noRetrier()
	}
	up := call.From(ctx)
	if up != nil && up.Retried {
		ctx, took, err := takeShare(ctx, up)
		if err != nil {
			return err
		}
		err = guardedErr(ctx, fn, guards)
		took.settle(err)
		return err
	}
	// The loop of the function Do once more: wrapping fn would cost an
	// allocation on every good call.
	l := loop{r: r, ctx: ctx, up: up}
	l.begin()
	defer l.leave()
	for {
		ctx, err := l.attempt()
		if err != nil {
			return err
		}
		if len(guards) == 0 {
			err = fn(ctx)
		} else {
			err = guardedErr(ctx, fn, guards)
		}
		if err == nil {
			l.succeed()
			return nil
		}
		if err := l.fail(err); err != nil {
			return err
		}
	}
}

// errSkipped is for a guard that says all is well and has not called.
var errSkipped = errors.New("retry: a guard returned no error and did not make the call")

// guarded calls fn through guards.
func guarded[T any](ctx context.Context, fn func(context.Context) (T, error), guards []Guard) (T, error) {
	if len(guards) == 0 {
		return fn(ctx)
	}
	var v T
	err := guardedErr(ctx, func(ctx context.Context) (err error) {
		v, err = fn(ctx)
		return err
	}, guards)
	return v, err
}

func guardedErr(ctx context.Context, fn func(context.Context) error, guards []Guard) error {
	if len(guards) == 0 {
		return fn(ctx)
	}
	if err := missing(guards); err != nil {
		return err
	}
	called := false
	next := func(ctx context.Context) error {
		called = true
		return fn(ctx)
	}
	for i := len(guards) - 1; i >= 0; i-- {
		g, inner := guards[i], next
		next = func(ctx context.Context) error { return g.Do(ctx, inner) }
	}
	err := next(ctx)
	if err == nil && !called {
		return Stop(errSkipped)
	}
	return err
}
