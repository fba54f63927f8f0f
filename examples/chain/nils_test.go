package chain_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/retry"
)

// sdkError is a program's own error, with all that guards ask of one.
type sdkError struct {
	status int
	cause  error
}

func (e *sdkError) Error() string   { return e.cause.Error() }
func (e *sdkError) StatusCode() int { return e.status }
func (e *sdkError) Unwrap() error   { return e.cause }

// A function that returns a nil pointer as its error has failed, though nothing
// can be asked of it: each guard says so and goes on.
func TestNilPointerAsError(t *testing.T) {
	t.Parallel()
	type guard interface {
		Do(ctx context.Context, fn func(context.Context) error) error
	}
	up, err := breaker.New(breaker.Config{Threshold: 1})
	must(t, up, err)
	day, err := budget.New(budget.Config{Limit: 100})
	must(t, day, err)
	pace, err := budget.NewPacer(budget.PacerConfig{Requests: 60})
	must(t, pace, err)
	again, err := retry.New(retry.Config{Attempts: 1})
	must(t, again, err)
	for name, g := range map[string]guard{"breaker": up, "budget": day, "pacer": pace} {
		err := g.Do(budget.WithEstimate(t.Context(), 10), func(context.Context) error {
			var none *sdkError
			return none
		})
		if err == nil || !strings.Contains(err.Error(), "a nil *chain_test.sdkError") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if up.State() != breaker.Open {
		t.Errorf("the breaker has not counted it: %v", up.State())
	}
	fn := func(context.Context) (int, error) {
		var none *sdkError
		return 1, none
	}
	if n, err := retry.Do(t.Context(), again, fn); n != 0 || err == nil || !strings.Contains(err.Error(), "a nil *chain_test.sdkError") {
		t.Errorf("retry: %d, %v", n, err)
	}
	if err := again.Do(t.Context(), func(ctx context.Context) error { _, err := fn(ctx); return err }); err == nil {
		t.Error("retry: no error")
	}
}
