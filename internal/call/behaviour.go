package call

import (
	"context"
	"time"
)

// maxDepth bounds the walk through an error's tree, which may be a cycle.
const maxDepth = 64

// find walks err's tree in the order of errors.As and returns the first answer
// that says ok. An error with the method but no answer passes the question on
// to what it wraps, which errors.As alone cannot do.
func find[B, A any](err error, answer func(B) (A, bool), depth int) (A, bool) {
	var none A
	for ; err != nil && depth > 0; depth-- {
		if b, ok := err.(B); ok {
			if a, ok := answer(b); ok {
				return a, true
			}
		} else if as, ok := err.(interface{ As(any) bool }); ok {
			var b B
			if as.As(&b) {
				if a, ok := answer(b); ok {
					return a, true
				}
			}
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				if a, ok := find(e, answer, depth-1); ok {
					return a, true
				}
			}
			return none, false
		default:
			return none, false
		}
	}
	return none, false
}

// RefusedBy returns the kind of guard that refused the call ("breaker",
// "budget", "pacer"), or "" when err is no refusal.
func RefusedBy(err error) string {
	s, _ := find(err, func(b interface{ RefusedBy() string }) (string, bool) {
		s := b.RefusedBy()
		return s, s != ""
	}, maxDepth)
	return s
}

// NotSent reports whether err says that the attempt never left the process.
func NotSent(err error) bool {
	ok, _ := find(err, func(b interface{ NotSent() bool }) (bool, bool) {
		return b.NotSent(), b.NotSent()
	}, maxDepth)
	return ok
}

// Retryable returns whether another attempt can help, and false in the second
// place when err does not say.
func Retryable(err error) (retryable, said bool) {
	return find(err, func(b interface{ Retryable() bool }) (bool, bool) {
		return b.Retryable(), true
	}, maxDepth)
}

// RetryAt returns when it may be worth trying again, if err says so.
func RetryAt(err error) (time.Time, bool) {
	return find(err, func(b interface{ RetryAt() (time.Time, bool) }) (time.Time, bool) {
		return b.RetryAt()
	}, maxDepth)
}

// Attempts returns the calls spent on the item, 0 when err does not say.
func Attempts(err error) int {
	n, _ := find(err, func(b interface{ Attempts() int }) (int, bool) {
		n := b.Attempts()
		return n, n > 0
	}, maxDepth)
	return n
}

// StatusCode returns the HTTP status that err carries by method, 0 when none.
func StatusCode(err error) int {
	n, _ := find(err, func(b interface{ StatusCode() int }) (int, bool) {
		n := b.StatusCode()
		return n, n > 0
	}, maxDepth)
	return n
}

// Await blocks until the refusal in err may have lifted, and reports false
// when err offers no waiting. Its error is the context's, or says that waiting
// is pointless.
func Await(ctx context.Context, err error) (waited bool, _ error) {
	wait, ok := find(err, func(b interface{ Await(context.Context) error }) (func(context.Context) error, bool) {
		return b.Await, true
	}, maxDepth)
	if !ok {
		return false, nil
	}
	return true, wait(ctx)
}

// Stopped returns the error of a guard that did not let a call out because its
// ctx has ended: nothing was sent. errors.Is finds the context's error and its
// cause. what says which guard, and in which step.
func Stopped(ctx context.Context, what string) error {
	return &StoppedError{what, ctx.Err(), context.Cause(ctx)}
}

// StoppedError is the error that Stopped returns.
type StoppedError struct {
	what       string
	err, cause error
}

func (e *StoppedError) Error() string   { return e.what + ": " + e.cause.Error() }
func (e *StoppedError) Unwrap() []error { return []error{e.err, e.cause} }

// NotSent is true: nothing left the process.
func (e *StoppedError) NotSent() bool { return true }
