package budget

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLate is in every [*LateError].
var ErrLate = errors.New("the turn comes after the deadline")

// A LateError says that a call's turn would come after its context's deadline,
// so that waiting for it would be in vain. The item is pending; nothing was
// sent. It is immutable.
type LateError struct {
	Pacer    string
	Turn     time.Time // an estimate
	Deadline time.Time
	Waiting  int // in the queue before it

	clock Clock
}

// Error says when the turn would be.
func (e *LateError) Error() string {
	return fmt.Sprintf("budget: pacer %s: refused until %s, the deadline is %s and %d are waiting: %v",
		e.Pacer, e.Turn.Format(time.RFC3339), e.Deadline.Format(time.RFC3339), e.Waiting, ErrLate)
}

// Unwrap returns ErrLate.
func (e *LateError) Unwrap() error { return ErrLate }

// RefusedBy returns "pacer".
func (e *LateError) RefusedBy() string { return "pacer" }

// NotSent is true: nothing left the process.
func (e *LateError) NotSent() bool { return true }

// Retryable is false: another attempt at once meets the same answer.
func (e *LateError) Retryable() bool { return false }

// RetryableError is false; the AWS SDK asks for it.
func (e *LateError) RetryableError() bool { return false }

// RetryAt returns the turn.
func (e *LateError) RetryAt() (time.Time, bool) { return e.Turn, true }

// Await blocks until the turn; its error is the context's cause.
func (e *LateError) Await(ctx context.Context) error {
	for {
		left := e.Turn.Sub(e.clock.Now())
		if left <= 0 {
			return nil
		}
		select {
		case <-e.clock.After(left):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
