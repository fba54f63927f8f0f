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
	"github.com/nightfuse/nightfuse/internal/modelapi"
	"github.com/nightfuse/nightfuse/internal/nils"
	"github.com/nightfuse/nightfuse/internal/redact"
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
	probe bool // sent alone, to see whether the others may go
	spare bool // a probe whose failure is not held against it
	era   int  // of the holds

	fate     fate
	refusal  error
	failure  deadletter.Failure
	upstream bool // the failure may be the upstream's fault
	unfit    bool // what is lost is too large for the letters: others are not
	err      error
	tries    int   // of the handle
	made     int64 // calls, once it has landed
}

// newFlight makes the context in which the item is done.
func (r *run) newFlight(ctx context.Context, e *entry) *flight {
	f := &flight{entry: e, began: r.cfg.Clock.Now()}
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
	if f.err != nil && (call.NotSent(f.err) || call.NotSent(f.box.Item.Failure()) || f.fate == refused || f.entry.it.Bad != nil) {
		return int64(max(0, f.tries-1))
	}
	return int64(f.tries)
}

// work does the item of f and says in f what became of it, whatever the
// caller's code does: the handle, Validate, the methods of their errors, Results
// and the letters' store. It runs in a goroutine of its own.
func (r *run) work(ctx context.Context, f *flight, stopping <-chan struct{}) {
	guarded(func() { r.do(ctx, f, stopping) }, func(broke error) { r.rescue(f, broke) })
}

// rescue is for an item in whose work the caller's code broke.
func (r *run) rescue(f *flight, broke error) {
	switch f.fate {
	case done:
		r.cfg.Logger.Error("batch: a letter of an item that is done may stay", "run", r.cfg.Name, "item", f.entry.it.ID, "error", redact.Err(broke, maxText))
	case dead, lost: // while its letter or its result was stored
		f.fate, f.err = lost, errors.Join(f.err, broke)
	default:
		f.err = broke
		f.box.Item.Fail(nil) // it may be what broke
		f.made = f.calls(true)
		guarded(func() { r.bury(f) }, func(again error) { f.fate, f.err = lost, errors.Join(broke, again) })
	}
}

// do is work while nothing breaks. A fate is set when it is sure: before a letter
// or a result is stored it is that of an item for which this fails.
func (r *run) do(ctx context.Context, f *flight, stopping <-chan struct{}) {
	e := f.entry
	if e.it.Bad != nil {
		f.err = &badInput{e.it.Bad}
		r.bury(f)
		return
	}
	data := r.try(ctx, f, stopping)
	if f.err == nil {
		f.made = f.calls(true)
		r.keep(ctx, f, data)
		return
	}
	verdict := r.judge(ctx, f)
	if verdict != dead {
		f.fate = verdict
	}
	f.made = f.calls(true)
	if verdict == dead {
		r.bury(f)
	}
}

// judge says what becomes of the item of f, which failed. It asks the methods of
// the error that the loop asks again.
func (r *run) judge(ctx context.Context, f *flight) fate {
	if f.refusal = f.box.Item.Refusal(); f.refusal == nil && call.RefusedBy(f.err) != "" {
		f.refusal = f.err
	}
	f.tell()
	var bad *invalid
	noResult := errors.As(f.err, &bad) && f.answered()
	f.upstream = !ofTheItem(f.failure.Status) && !panicked(f.err) && !noResult
	switch {
	case f.refusal != nil:
		return refused
	case ctx.Err() != nil, noResult && f.tries < 2:
		return pending
	case r.ofTheKey(f):
		return unauthed
	case f.spare && f.upstream:
		return released
	}
	return dead
}

// answered reports whether the item's last call brought an answer with a good
// status, by the refusal or the failure that a guard has noted. Otherwise a result
// that says nothing stands for an error that the handle has dropped.
func (f *flight) answered() bool {
	noted := f.box.Item.Failure()
	status := call.StatusCode(noted)
	return f.box.Item.Refusal() == nil && (noted == nil || status >= 200 && status <= 399)
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
		if f.tries == 2 || !f.answered() || ctx.Err() != nil || isClosed(stopping) {
			return nil
		}
	}
}

// keep makes data the result of f.
func (r *run) keep(ctx context.Context, f *flight, data []byte) {
	f.fate = lost
	f.err = r.store(ctx, f, data)
	if f.err == nil && f.entry.old {
		// Its letter is all that would tell of it after a power cut.
		f.err = r.results.Sync(context.WithoutCancel(ctx))
	}
	if f.err != nil {
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
	f.tell()
	f.fate = dead
	if err := r.cfg.Letters.Fail(f.box, f.entry.it.Input, f.err); err != nil {
		f.unfit = errors.Is(err, deadletter.ErrTooLarge)
		f.fate, f.err = lost, errors.Join(f.err, err)
	}
}

// tell notes in f the failure as the item's letter tells it.
func (f *flight) tell() { f.failure = deadletter.FailureOf(&call.Met{Box: f.box, Err: f.err}) }

// errGoexit is what guarded says of code that ended its goroutine.
var errGoexit = errors.New("batch: the caller's code has ended its goroutine (runtime.Goexit, as t.FailNow does)")

// guarded calls fn, and fail if fn panics or ends its goroutine. Then what comes
// after guarded may not run.
func guarded(fn func(), fail func(error)) {
	returned := false
	defer func() {
		switch p := recover(); {
		case p != nil:
			fail(&panicError{value: p, stack: debug.Stack()})
		case !returned:
			fail(errGoexit)
		}
	}()
	fn()
	returned = true
}

// safely calls the handle. A panic in it is a failure of the item.
func (r *run) safely(ctx context.Context, it Item) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			data, err = nil, &panicError{value: p, stack: debug.Stack()}
		}
	}()
	data, err = r.handle(ctx, it)
	return data, nils.Error(err)
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
	if err := nils.Error(r.cfg.Validate(it, data)); err != nil {
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
// breaker does not count and a retry takes for final.
func ofTheItem(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return true
	}
	return status >= 400 && status <= 499
}

// ofTheKey reports whether f's failure, which was told, is a refusal of the key or
// the account, or of a proxy's: the item is as good as before. A quota that is
// used up often comes with another status, a 429.
func (r *run) ofTheKey(f *flight) bool {
	switch f.failure.Status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired:
		return true
	}
	for _, err := range []error{f.err, f.box.Item.Failure()} {
		v, _ := modelapi.OfError(err, r.cfg.Clock.Now())
		switch v.Class {
		case modelapi.Auth, modelapi.Quota, modelapi.QuotaPerDay:
			return true
		}
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
