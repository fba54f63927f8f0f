package retry

import (
	"errors"
	"net/http"
	"time"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// Stop marks err as final: no further attempt is made. The mark works through
// any number of wrappers. Stop(nil) is nil, so that a function may end with
// "return retry.Stop(err)".
func Stop(err error) error {
	if err == nil {
		return nil
	}
	return &stopError{err}
}

type stopError struct{ err error }

func (e *stopError) Error() string   { return e.err.Error() }
func (e *stopError) Unwrap() error   { return e.err }
func (e *stopError) Retryable() bool { return false }

// After marks err as worth another attempt, not before d from now: d has the
// weight of a server's hint, so it is never shortened, and beyond
// Config.MaxHint it ends the item. A negative d counts as 0. A nil err is
// replaced, since asking for a retry is no success.
func After(d time.Duration, err error) error {
	if err == nil {
		err = errors.New("retry: the call asked to be made again")
	}
	return &afterError{max(d, 0), err}
}

type afterError struct {
	d   time.Duration
	err error
}

func (e *afterError) Error() string   { return e.err.Error() }
func (e *afterError) Unwrap() error   { return e.err }
func (e *afterError) Retryable() bool { return true }

// ParseHint returns how long a server asks to wait, and false when it does not
// say or what it says makes no sense. It reads retry-after-ms,
// x-ms-retry-after-ms, Retry-After (seconds, fractions, the three HTTP date
// forms against now), then the reset of the rate-limit axis that stands at
// zero; the first that parses wins. Values that overflow saturate; a date in
// the past is 0, true.
func ParseHint(h http.Header, now time.Time) (time.Duration, bool) {
	return modelapi.ParseHint(h, now)
}
