package budget

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The reasons in a [*RefusedError].
var (
	// ErrExhausted: what is left of the window does not cover the estimate.
	ErrExhausted = errors.New("exhausted")
	// ErrStore: the store failed, so nobody knows what is left.
	ErrStore = errors.New("the store failed")
	// ErrTooLarge: the estimate exceeds the whole cap. Waiting does not help.
	ErrTooLarge = errors.New("the estimate exceeds the cap")
	// ErrEstimate: the amount is zero, negative or above MaxAmount. Budget.Do
	// finds none when nobody said WithEstimate.
	ErrEstimate = errors.New("the estimate or amount must be above 0 and at most 1<<53 (see WithEstimate)")
	// ErrUnknownOwner: the budget has no such owner, or has several and none
	// was named.
	ErrUnknownOwner = errors.New("unknown owner (see WithOwner)")
)

// A RefusedError says why [Budget.Reserve] said no. It is immutable.
//
// With ErrExhausted and ErrStore the budget refuses: the item is pending and
// can be tried again. With the others the fault is the item's or the caller's,
// and trying again does not help.
type RefusedError struct {
	Budget string
	Owner  string
	Reason error // one of the package's errors

	Estimate int64 // what was asked for
	Spent    int64 // of Cap, when it was refused; reserved amounts included
	Cap      int64 // the limit that refused: the pool's soft or hard cap, or the owner's ceiling
	OwnerCap bool  // Cap is the owner's ceiling, not the pool's
	Window   string
	Until    time.Time // the window's end; with ErrStore when to ask again

	// Outstanding counts this process's open reservations under the limit that
	// refused, at that time. What they do not use comes back before the window
	// ends.
	Outstanding int

	// Err is the store's error, nil unless Reason is ErrStore.
	Err error

	clock   Clock
	settled bool            // something was settled while the store was asked
	wake    <-chan struct{} // closed at the next settlement
}

// Error says until when and why.
func (e *RefusedError) Error() string {
	who := "budget: "
	if e.Budget != defaultName {
		who += e.Budget + ": "
	}
	if e.Owner != "" && e.Reason != ErrUnknownOwner {
		who += "owner " + e.Owner + ": "
	}
	switch e.Reason {
	case ErrExhausted:
		of := "are spent"
		if e.OwnerCap {
			of = "of the owner's own are spent"
		}
		until := "until " + e.Until.Format(time.RFC3339)
		if e.waits() {
			until = fmt.Sprintf("until one of %d open reservations is settled", e.Outstanding)
		}
		return fmt.Sprintf("%srefused %s: %d of %d %s in %s, %d more asked for: %v",
			who, until, e.Spent, e.Cap, of, e.Window, e.Estimate, e.Reason)
	case ErrStore:
		return fmt.Sprintf("%srefused until %s: %v: %v", who, e.Until.Format(time.RFC3339), e.Reason, e.Err)
	case ErrTooLarge:
		return fmt.Sprintf("%sasked for %d of %d: %v", who, e.Estimate, e.Cap, e.Reason)
	case ErrEstimate:
		return fmt.Sprintf("%sasked for %d: %v", who, e.Estimate, e.Reason)
	}
	return fmt.Sprintf("%s%q: %v", who, e.Owner, e.Reason)
}

// Unwrap returns the reason, and the store's error if there is one.
func (e *RefusedError) Unwrap() []error {
	if e.Err != nil {
		return []error{e.Reason, e.Err}
	}
	return []error{e.Reason}
}

// RefusedBy returns "budget" when the budget refused, and "" when the fault is
// the item's: an estimate that is none or can never fit. An unknown owner is a
// fault of the program's, and every item is as good as before.
func (e *RefusedError) RefusedBy() string {
	switch e.Reason {
	case ErrExhausted, ErrStore, ErrUnknownOwner:
		return "budget"
	}
	return ""
}

// NotSent is true: nothing left the process.
func (e *RefusedError) NotSent() bool { return true }

// Retryable is false: another attempt at once meets the same answer.
func (e *RefusedError) Retryable() bool { return false }

// RetryableError is false; the AWS SDK asks for it.
func (e *RefusedError) RetryableError() bool { return false }

func (e *RefusedError) waits() bool { return e.settled || e.Outstanding > 0 }

// RetryAt returns the window's end, and false while open reservations may give
// something back before, or when trying again is pointless.
func (e *RefusedError) RetryAt() (time.Time, bool) {
	if e.RefusedBy() == "" || e.Reason == ErrUnknownOwner || e.waits() {
		return time.Time{}, false
	}
	return e.Until, true
}

// Await blocks until it may be worth asking again: until the next settlement
// in this process when reservations were open, and in any case until the
// window ends or somebody adjusts the budget. Its error is the context's
// cause, or e itself when waiting is pointless.
func (e *RefusedError) Await(ctx context.Context) error {
	if e.RefusedBy() == "" || e.Reason == ErrUnknownOwner {
		return e
	}
	for !e.settled {
		left := e.Until.Sub(e.clock.Now())
		if left <= 0 {
			return nil
		}
		select {
		case <-e.wake:
			return nil
		case <-e.clock.After(left):
			// A wall clock may have been set back: look again.
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
