package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/retry"
)

// What the module's other packages and the AWS SDK ask an Error for.
func TestBehavioursOfAnError(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	r := mustNew(t, noWait(retry.Config{Attempts: 2}))
	err := r.Do(t.Context(), func(context.Context) error { return statusErr(503) })
	err = fmt.Errorf("item 7: %w", err)
	if retryable, said := call.Retryable(err); retryable || !said {
		t.Errorf("Retryable = %v, %v", retryable, said)
	}
	var aws interface{ RetryableError() bool }
	if !errors.As(err, &aws) || aws.RetryableError() {
		t.Error("the AWS SDK would retry it")
	}
	equal(t, "attempts, status", []int{call.Attempts(err), call.StatusCode(err)}, []int{2, 503})
	equal(t, "refused by", call.RefusedBy(err), "")
	if _, ok := call.RetryAt(err); ok {
		t.Error("RetryAt says something although nobody asked")
	}
	equal(t, "signs as the last", asError(t, err).Signs() == error(statusErr(503)), true)

	err = r.Do(t.Context(), func(context.Context) error { return refusedUntil{at} })
	got, ok := call.RetryAt(err)
	equal(t, "retry at", []any{got, ok}, []any{at, true})
	equal(t, "signs as the refusal", asError(t, err).Signs() == error(refusedUntil{at}), true)
	equal(t, "text", err.Error(), "retry: not sent: pacer: full")
	if waited, _ := call.Await(t.Context(), r.Do(t.Context(), func(context.Context) error { return refusal{} })); !waited {
		t.Error("the refusal's waiting is not passed on")
	}
}

// A Stop from an item inside is final for a loop of somebody else, and so is an
// Error whose context was lost on the way.
func TestAnErrorFromARetryInsideIsFinal(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{}))
	n := 0
	err := r.Do(t.Context(), func(context.Context) error {
		return r.Do(context.Background(), func(context.Context) error { n++; return errUpstream })
	})
	equal(t, "calls", n, 4)
	if !errors.Is(err, retry.ErrFinal) || !errors.Is(err, errUpstream) {
		t.Errorf("error %v", err)
	}
}
