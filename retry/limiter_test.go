package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/retry"
)

// An attempt's context and timer are made when somebody looks. Whoever does,
// whenever and in whatever way, must see what a context with a timer from the
// begin would show.
func TestAnAttemptsContextIsLikeAnEagerOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for seed := uint64(0); seed < 1500 && !t.Failed(); seed++ {
			a := &attempted{t: t, rand: rand.New(rand.NewPCG(seed, 1)), log: fmt.Sprint("seed ", seed, ":")}
			a.run()
		}
	})
}

// Steps, limits and the caller's cancel never come at one instant.
const (
	unit         = 4 * time.Millisecond
	attemptLimit = 101 * time.Millisecond
	idleLimit    = 62 * time.Millisecond
)

var errCaller, errOwn = errors.New("the caller's"), errors.New("a limit")

// attempted is the base and the body of one attempt, which do this and that
// with its context, and with the eager one.
type attempted struct {
	t       *testing.T
	rand    *rand.Rand
	log     string
	parent  *counted // the caller's context
	ctx     context.Context
	derived []context.Context
	after   atomic.Int32 // functions that wait for the end
	eager   eager
}

// eager is the reference.
type eager struct {
	context.Context
	timer *time.Timer
	until time.Time
	left  time.Duration
	whole bool // the limit is the attempt's, which stands still while held
	held  int
}

func (a *attempted) run() {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer time.AfterFunc(time.Duration(a.rand.IntN(200))*unit+3*time.Millisecond, func() { cancel(errCaller) }).Stop()
	a.parent = &counted{Context: ctx}
	caller := context.Context(a.parent)
	if a.rand.IntN(2) == 0 {
		caller = ctx
	}
	eager, end := context.WithCancelCause(caller)
	a.eager.Context = eager
	a.eager.timer = time.AfterFunc(attemptLimit, func() { end(errOwn) })
	a.eager.until, a.eager.whole = time.Now().Add(attemptLimit), true
	defer a.eager.timer.Stop()

	r := mustNew(a.t, retry.Config{Attempts: 1, AttemptTimeout: attemptLimit, IdleTimeout: idleLimit})
	resp, err := retry.NewTransport(a, r).RoundTrip(post(a.t, "http://upstream/", "{}").WithContext(caller))
	a.ended("round trip", err)
	for n := 0; err == nil && n < 4; n++ {
		a.wait(a.rand.IntN(30)) // under no limit
		a.log += " read"
		a.eager.whole = false
		a.eager.timer.Reset(idleLimit)
		_, err = resp.Body.Read(make([]byte, 1))
		a.eager.timer.Stop()
		a.ended("read", err)
	}
	if resp != nil {
		noError(a.t, resp.Body.Close())
	}
	end(nil)
	a.released()
}

// ended compares how a step ended.
func (a *attempted) ended(what string, err error) {
	var limit interface{ Timeout() bool }
	switch cause := context.Cause(a.eager); {
	case err == nil && cause == nil:
	case err != nil && cause != nil && cause != errOwn && errors.Is(err, cause):
	case err != nil && cause == errOwn && (errors.As(err, &limit) || a.parent.Err() != nil):
	default:
		a.t.Errorf("%s the %s ends with %v, want %v", a.log, what, err, cause)
	}
}

// released looks at what is left when nothing of the attempt is.
func (a *attempted) released() {
	a.log += " released"
	a.check()
	for _, ctx := range a.derived {
		if ctx.Err() == nil {
			a.t.Errorf("%s a derived context lives on", a.log)
		}
	}
	if a.after.Load() != 0 {
		a.t.Errorf("%s %d functions not called", a.log, a.after.Load())
	}
	if a.parent.Err() == nil && a.parent.waiting.Load() != 0 {
		a.t.Errorf("%s %d still wait for the caller's context", a.log, a.parent.waiting.Load())
	}
}

func (a *attempted) RoundTrip(req *http.Request) (*http.Response, error) {
	a.ctx = req.Context()
	_ = req.Body.Close()
	if err := a.script(); err != nil {
		return nil, err
	}
	a.eager.timer.Stop()
	resp := respond(req, step{status: 200, header: "Content-Type: application/octet-stream"}, func() {})
	resp.ContentLength, resp.Body = -1, a
	return resp, nil
}

func (a *attempted) Read([]byte) (int, error) { return 1, a.script() }
func (a *attempted) Close() error             { return nil }

// script does what comes, and sees the end if it has come.
func (a *attempted) script() error {
	for range a.rand.IntN(8) {
		switch op := a.rand.IntN(7); op {
		case 0, 1:
			a.wait(1 + a.rand.IntN(20))
		case 2:
			a.check()
		case 3:
			a.log += " look"
			select {
			case <-a.ctx.Done():
			default:
			}
		case 4:
			a.derive()
		default:
			a.hold(op == 5)
		}
	}
	if a.eager.Err() == nil {
		return nil
	}
	a.check()
	return context.Cause(a.ctx)
}

func (a *attempted) wait(n int) {
	a.log += fmt.Sprint(" ", time.Duration(n)*unit)
	time.Sleep(time.Duration(n) * unit)
	synctest.Wait()
}

// check compares the contexts.
func (a *attempted) check() {
	a.log += " poll"
	got, want := a.ctx.Err(), a.eager.Err()
	if (got == nil) != (want == nil) {
		a.t.Errorf("%s %v, want %v", a.log, got, want)
	}
	synctest.Wait()
}

func (a *attempted) derive() {
	a.log += " derive"
	ctx, cancel := a.ctx, context.CancelFunc(func() {})
	switch a.rand.IntN(4) {
	case 0:
		ctx, cancel = context.WithCancel(ctx)
	case 1:
		ctx, cancel = context.WithTimeout(context.WithValue(ctx, errOwn, ""), time.Hour)
	case 2:
		a.after.Add(1)
		context.AfterFunc(ctx, func() { a.after.Add(-1) })
	case 3:
		ctx = call.With(ctx)
	}
	synctest.Wait()
	if got, want := ctx.Err(), a.eager.Err(); (got == nil) != (want == nil) {
		a.t.Errorf("%s %v, want %v", a.log, got, want)
	}
	a.derived = append(a.derived, ctx)
	if a.rand.IntN(4) == 0 {
		cancel()
	} else {
		context.AfterFunc(a.eager, cancel)
	}
}

// hold is a guard's beginning or end of a wait.
func (a *attempted) hold(begins bool) {
	e, attempt := &a.eager, call.From(a.ctx).Attempt
	switch {
	case begins:
		a.log += " hold"
		attempt.Hold()
		if e.held++; e.held == 1 && e.whole && e.timer.Stop() {
			e.left = time.Until(e.until)
		}
	case e.held > 0:
		a.log += " go"
		attempt.Go()
		if e.held--; e.held == 0 && e.whole && e.left > 0 {
			e.until = time.Now().Add(e.left)
			e.timer.Reset(e.left)
			e.left = 0
		}
	}
}

// counted is a caller's context of another make, which counts who waits for it.
type counted struct {
	context.Context
	waiting atomic.Int32
}

func (c *counted) Value(any) any { return nil }

func (c *counted) AfterFunc(f func()) func() bool {
	c.waiting.Add(1)
	stop := context.AfterFunc(c.Context, f)
	return func() bool {
		c.waiting.Add(-1)
		return stop()
	}
}

// A timer that goes off as the headers come is not that of the first read.
func TestALateTimerEndsNoRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := 0
		for range 500 {
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				_ = req.Body.Close()
				req.Context().Done()
				time.Sleep(attemptLimit)
				resp := respond(req, step{status: 200, header: "Content-Type: application/octet-stream"}, func() {})
				resp.ContentLength, resp.Body = -1, &drip{ctx: req.Context(), every: idleLimit - 1, left: 1}
				return resp, nil
			})
			r := mustNew(t, retry.Config{Attempts: 1, AttemptTimeout: attemptLimit, IdleTimeout: idleLimit})
			resp, err := retry.NewTransport(base, r).RoundTrip(post(t, "http://upstream/", "{}"))
			if err != nil {
				continue // the timer was first
			}
			answers++
			_, err = io.ReadAll(resp.Body)
			noError(t, err)
			noError(t, resp.Body.Close())
		}
		if answers == 0 {
			t.Error("the timer was always first, which tests nothing")
		}
	})
}
