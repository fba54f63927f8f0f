package retry

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/nightfuse/nightfuse/internal/nils"
)

// The defaults that [Config] names.
const (
	defaultAttempts       = 4
	defaultBase           = 1500 * time.Millisecond
	defaultMax            = 30 * time.Second
	defaultMaxHint        = 2 * time.Minute
	defaultAttemptTimeout = 10 * time.Minute
	defaultIdleTimeout    = 2 * time.Minute
)

// Config says how a [Retrier] retries. The zero value is usable: 4 calls, full
// jitter from 1.5 s, server hints obeyed up to 2 minutes.
type Config struct {
	// Name stands in logs and stats; "" = "retry".
	Name string

	// Attempts is the number of calls in all; 0 = 4, 1 = no retry. A failure
	// that a guard's refusal follows within Hold is not charged, since it was
	// the outage's: such an item may make more calls in a long outage.
	// WithLimit is the cap that always holds.
	Attempts int

	// The wait before call n+1 is drawn from [0, min(Max, Base*2^(n-1))].
	// Base: 0 = 1.5s, or Max where that is shorter. Max: 0 = 30s, or Base
	// where that is longer. Max below Base is refused.
	Base, Max time.Duration

	// MaxHint is the longest wait a server may ask for; 0 = 2m. A longer one
	// ends the item at once, with "not before".
	MaxHint time.Duration

	// MaxElapsed bounds the time from the first failure (not from the first
	// call: a long first call keeps its retry) to the start of the last
	// attempt; 0 = none. Time held for refusals is not counted.
	MaxElapsed time.Duration

	// AttemptTimeout bounds one attempt, up to the response's headers; it
	// never cuts a body, and stands still while a pacer keeps the call
	// waiting. 0 = 10m, since a shorter one cuts long answers that
	// are not streamed, which are then paid again; <0 = none. A function's
	// headers cannot be seen: in the function form a value that is set bounds
	// the whole attempt, and 0 means none.
	AttemptTimeout time.Duration

	// IdleTimeout bounds the silence between reads of a response body; 0 =
	// 2m, <0 = none. Only the transport has bodies.
	IdleTimeout time.Duration

	// Hold is how long in all an item may wait for refusals, such as an open
	// breaker; 0 = a refusal ends the item unsent. The failure before the
	// refusal is then not charged to Attempts. It is not meant for a budget's
	// window, which may be a day away.
	Hold time.Duration

	// Quota bounds the retries per call over all callers that share it; nil =
	// no such bound.
	Quota *Quota

	// Classify decides about a failed call, or a good one: its zero Decision
	// means "as you would". The response is a copy whose Body gives what was
	// read for judging (an error's body; the whole of a JSON answer; the begin
	// of a stream), so reading or keeping it does no harm. The function form
	// passes (nil, nil, err). nil = the rules of this package.
	Classify func(*http.Request, *http.Response, error) Decision

	// Validate decides whether a 2xx answer can be used. body is the whole of
	// it: streams, bodies above 4 MiB and bodies that are not JSON are not
	// asked about. Its error is retried once, or as the
	// error's own Retryable method, [Stop] or [After] says. An error object
	// under 2xx has been dealt with before. nil = the known shapes: an answer
	// that is empty, a placeholder, truncated or a refusal is a failure.
	Validate func(resp *http.Response, body []byte) error

	// Exhausted chooses what the transport returns for an item that failed.
	Exhausted Exhausted

	// Clock is the time; nil = real time. Attempt and idle timeouts are
	// runtime timers whatever the Clock.
	Clock Clock

	// Rand draws from [0, 1); nil = math/rand/v2. Calls are serialised.
	Rand func() float64

	// Logger hears of retries (info) and of what was given up (warning, with
	// refused_by when a guard has refused it: it has not failed); nil = silent.
	Logger *slog.Logger

	// OnAttempt is called after every attempt, OnWait at the begin of every
	// wait, when the timer exists already, so that a test may advance its
	// clock from there. They run on the caller's goroutine with no lock held;
	// their panics are recovered, logged and counted in Stats.HookPanics. A
	// panic of Classify, Validate or Rand goes on to the caller.
	OnAttempt func(Attempt)
	OnWait    func(Wait)
}

// Exhausted says what [Transport] returns for an item that failed.
type Exhausted int

const (
	// ExhaustedAuto is ExhaustedResponse for requests of SDKs that build
	// their own API errors and retry every transport error (they send
	// X-Stainless-Retry-Count), else ExhaustedError.
	ExhaustedAuto Exhausted = iota
	// ExhaustedError returns a nil response and the *Error. Final 4xx answers
	// are returned as they came.
	ExhaustedError
	// ExhaustedResponse returns a response for every failure but the caller's
	// own cancel and deadline: the provider's if its status is 400 or above,
	// else a synthetic 503, see "SDKs retry too". It carries "X-Should-Retry: false", and its Body
	// has a method Err() error that returns the *Error.
	ExhaustedResponse
)

// New returns a Retrier, or one error that names all bad fields.
func New(c Config) (*Retrier, error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("retry: "+format, args...))
	}
	if c.Attempts < 0 {
		bad("Attempts is %d, must be 0 (for %d) or more", c.Attempts, defaultAttempts)
	}
	for _, d := range []struct {
		name string
		v    time.Duration
	}{
		{"Base", c.Base}, {"Max", c.Max}, {"MaxHint", c.MaxHint}, {"MaxElapsed", c.MaxElapsed}, {"Hold", c.Hold},
	} {
		if d.v < 0 {
			bad("%s is %v, must not be negative", d.name, d.v)
		}
	}
	if c.Base > 0 && c.Max > 0 && c.Max < c.Base {
		bad("Max (%v) is below Base (%v)", c.Max, c.Base)
	}
	if c.Exhausted < ExhaustedAuto || c.Exhausted > ExhaustedResponse {
		bad("Exhausted is %d, which is no known mode", c.Exhausted)
	}
	if err := nils.Field("Clock", c.Clock); err != nil {
		bad("%w", err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}

	if c.Name == "" {
		c.Name = "retry"
	}
	if c.Attempts == 0 {
		c.Attempts = defaultAttempts
	}
	switch {
	case c.Base == 0 && c.Max == 0:
		c.Base, c.Max = defaultBase, defaultMax
	case c.Base == 0:
		c.Base = min(defaultBase, c.Max)
	case c.Max == 0:
		c.Max = max(defaultMax, c.Base)
	}
	if c.MaxHint == 0 {
		c.MaxHint = defaultMaxHint
	}
	r := &Retrier{cfg: c, clock: c.Clock, ownClock: c.Clock != nil, draw: c.Rand, callTimeout: max(c.AttemptTimeout, 0)}
	if c.AttemptTimeout == 0 {
		c.AttemptTimeout = defaultAttemptTimeout
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = defaultIdleTimeout
	}
	if c.AttemptTimeout > 0 {
		r.headers = &timeoutError{"no response headers", c.AttemptTimeout}
	}
	if c.IdleTimeout > 0 {
		r.idle = &timeoutError{"nothing of the body", c.IdleTimeout}
	}
	if r.clock == nil {
		r.clock = wall{}
	}
	if r.draw == nil {
		r.draw = rand.Float64
	}
	r.epoch = r.clock.Now()
	r.stats.window.init()
	return r, nil
}
