package breaker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nightfuse/nightfuse/signature"
)

// ErrOpen is the sentinel of OpenError.
var ErrOpen = errors.New("breaker: open")

// OpenError says that a call was refused and never sent. One value serves a
// whole opening: it must not be changed.
type OpenError struct {
	Name      string
	State     State        // Open or HalfOpen
	Until     time.Time    // when a call may pass: the end of the cooldown, or of the probe's lease
	Reason    string       // why it opened
	Signature signature.ID // of the failure that tripped it; "" when it had none

	b *Breaker
}

// Error tells the name, until when and why.
func (e *OpenError) Error() string {
	text := "breaker: " + e.Name + " is open until "
	if e.State == HalfOpen {
		text = "breaker: " + e.Name + " is half-open, a probe is out until at most "
	}
	text += e.Until.UTC().Format(time.RFC3339Nano)
	if e.Signature != "" {
		text += fmt.Sprintf(" (signature %s)", e.Signature)
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Is reports whether target is ErrOpen.
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// RefusedBy returns "breaker": a guard said no, the item itself did not fail.
func (e *OpenError) RefusedBy() string { return "breaker" }

// NotSent reports true: the call never left the process.
func (e *OpenError) NotSent() bool { return true }

// RetryAt returns Until. A probe that ends earlier is seen by Await.
func (e *OpenError) RetryAt() (time.Time, bool) { return e.Until, true }

// Await is Breaker.Wait of the breaker that refused. Its error is the cause of
// ctx.
func (e *OpenError) Await(ctx context.Context) error {
	if e.b == nil {
		return e
	}
	return e.b.Wait(ctx)
}

// RetryableError reports false, in the words of the AWS SDK: its own retries
// cannot help.
func (e *OpenError) RetryableError() bool { return false }

// ErrorSignature is one signature for all refusals, whatever opened the
// breaker, so that they are not taken for failures of their own kinds.
func (e *OpenError) ErrorSignature() string { return "breaker: open" }

// StoreError is reported to OnChange and the Logger when the store fails or
// holds a damaged record, and returned by Trip and Reset. The breaker goes on
// from memory.
type StoreError struct {
	Name    string
	Damaged string // the name under which a damaged record was set aside
	Err     error
}

// Error tells the breaker's name and what failed.
func (e *StoreError) Error() string {
	if e.Damaged != "" {
		return fmt.Sprintf("breaker: the stored state of %s was damaged and is now kept as %s: %v", e.Name, e.Damaged, e.Err)
	}
	return fmt.Sprintf("breaker: store of %s failed, going on from memory: %v", e.Name, e.Err)
}

// Unwrap returns Err.
func (e *StoreError) Unwrap() error { return e.Err }
