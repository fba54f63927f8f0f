package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
)

// fate is what becomes of an item.
type fate int

const (
	pending fate = iota // the next run does it
	done
	dead
	lost
	refused  // by a guard: pending, and the run holds or stops
	released // failed as a probe: it comes again
	unauthed // the key or the account was refused: not the item's fault
)

// flight is an item in a worker's hands. What the worker finds out is read when
// it has landed.
type flight struct {
	entry *entry
	box   *call.Box
	began time.Time
	probe bool // sent alone, to see whether the others may go: its failure is not held against it
	era   int  // of the holds

	fate    fate
	refusal error
	failure deadletter.Failure
	err     error
	tries   int // of the handle
}

// newFlight makes the context in which the item is done.
func (r *run) newFlight(ctx context.Context, e *entry) *flight {
	f := &flight{entry: e, began: r.cfg.Clock.Now(), err: errors.New("batch: the handle has ended its goroutine")}
	f.box = call.With(ctx)
	f.box.NewItem(e.it.ID, e.labels(r.cfg.Version))
	f.box.Recorded = true // the queue's own transport steps aside
	if r.cfg.Owner != "" {
		f.box.Owner = r.cfg.Owner
	}
	if e.it.Estimate > 0 {
		f.box.Estimate = e.it.Estimate
	}
	return f
}

// calls returns the calls that went out for the flight's item. Without a retry
// that counts, an answer or a failure of the handle is taken for one.
func (f *flight) calls(landed bool) int64 {
	n := f.box.Item.Calls()
	if n > 0 || !landed {
		return int64(n)
	}
	if n = call.Attempts(f.err); n > 0 {
		return int64(n)
	}
	if f.err != nil && (call.NotSent(f.err) || f.fate == refused || f.entry.it.Bad != nil) {
		return int64(max(0, f.tries-1))
	}
	return int64(f.tries)
}

// do does the item of f and says in f what became of it. It runs in a
// goroutine of its own.
func (r *run) do(ctx context.Context, f *flight, stopping <-chan struct{}) {
	e := f.entry
	if e.it.Bad != nil {
		f.err = &badInput{e.it.Bad}
		r.bury(f)
		return
	}
	data := r.try(ctx, f, stopping)
	if f.err == nil {
		r.keep(ctx, f, data)
		return
	}
	if f.refusal = f.box.Item.Refusal(); f.refusal == nil && call.RefusedBy(f.err) != "" {
		f.refusal = f.err
	}
	f.failure = deadletter.FailureOf(f.err)
	status := f.failure.Status
	if status == 0 {
		// The handle's error does not tell; a retry inside has noted it.
		status = call.StatusCode(f.box.Item.Failure())
	}
	var bad *invalid
	switch {
	case errors.As(f.err, &bad):
		r.bury(f) // the upstream has answered, whatever it met before
	case f.refusal != nil:
		f.fate = refused
	case ctx.Err() != nil:
		f.fate = pending
	case ofTheKey(status):
		f.fate = unauthed
	case f.probe && !ofTheItem(status) && !panicked(f.err):
		f.fate = released
	default:
		r.bury(f)
	}
}

// try calls the handle, and once more when Validate refuses what it returns: a
// model that said nothing once may say something now, and twice is enough. It
// says in f why there is no result.
func (r *run) try(ctx context.Context, f *flight, stopping <-chan struct{}) []byte {
	for f.tries = 1; ; f.tries++ {
		data, err := r.safely(f.box, f.entry.it)
		if f.err = err; err != nil {
			return nil
		}
		if f.err = r.valid(f.entry.it, data); f.err == nil {
			return data
		}
		if f.tries == 2 || ctx.Err() != nil || isClosed(stopping) {
			return nil
		}
	}
}

// keep makes data the result of f.
func (r *run) keep(ctx context.Context, f *flight, data []byte) {
	if err := r.store(ctx, f, data); err != nil {
		f.fate, f.err = lost, err
		return
	}
	f.fate = done
	if f.entry.old {
		r.resolve(context.WithoutCancel(ctx), f)
	}
}

// store stores data as the result of f. It is paid, so a context that has ended
// does not keep it from being stored.
func (r *run) store(ctx context.Context, f *flight, data []byte) error {
	return r.results.Store(context.WithoutCancel(ctx), Result{
		Item: f.entry.it.ID, InputHash: f.entry.hash, Version: r.cfg.Version, At: r.cfg.Clock.Now().UTC(), Data: data,
	})
}

// resolve tells the queue that an item with a letter is done now; the queue acks
// the letter if its Config says so.
func (r *run) resolve(ctx context.Context, f *flight) {
	box := call.With(ctx)
	box.NewItem(f.box.ID, f.box.Labels)
	box.Recorded = false // this once the queue is to see it
	_ = r.cfg.Letters.Do(box, nil, func(context.Context) error { return nil })
}

// bury makes a dead letter of f.
func (r *run) bury(f *flight) {
	f.fate = dead
	if f.failure.Signature == "" {
		f.failure = deadletter.FailureOf(f.err)
	}
	if err := r.cfg.Letters.Fail(f.box, f.entry.it.Input, f.err); err != nil {
		f.fate, f.err = lost, errors.Join(f.err, err)
	}
}

// safely calls the handle. A panic in it is a failure of the item.
func (r *run) safely(ctx context.Context, it Item) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			data, err = nil, &panicError{value: p, stack: debug.Stack()}
		}
	}()
	return r.handle(ctx, it)
}

// valid asks Validate, and not of an empty result: that is none, whatever a
// Validate says. A panic in it is a refusal.
func (r *run) valid(it Item, data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &invalid{&panicError{value: p, stack: debug.Stack()}}
		}
	}()
	if len(bytes.TrimSpace(data)) == 0 {
		return &invalid{errEmpty}
	}
	if _, ok := r.results.(*Folder); ok && !utf8.Valid(data) {
		return &invalid{errNotText} // the item's fault, not the disk's
	}
	if err := r.cfg.Validate(it, data); err != nil {
		return &invalid{err}
	}
	return nil
}

// panicError is a panic in the caller's code.
type panicError struct {
	value any
	stack []byte
}

// Error ends in the stack: it is what a letter keeps.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.value, e.stack) }

// ErrorSignature leaves the stack out, whose addresses differ each time.
func (e *panicError) ErrorSignature() string { return fmt.Sprintf("panic: %v", e.value) }

func panicked(err error) bool {
	var p *panicError
	return errors.As(err, &p)
}

// badInput says that an item is none.
type badInput struct{ err error }

func (e *badInput) Error() string { return "bad input: " + e.err.Error() }
func (e *badInput) Unwrap() error { return e.err }

// NotSent is true: no call was made for it.
func (e *badInput) NotSent() bool { return true }

// ofTheItem reports whether a status is about the request itself: those that a
// breaker does not count and a retry takes for final, save a proxy's demand for a
// password, which every item meets.
func ofTheItem(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return true
	}
	return status >= 400 && status <= 499
}

// ofTheKey reports whether a status refuses the key or the account: the item is
// as good as before.
func ofTheKey(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return true
	}
	return false
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
