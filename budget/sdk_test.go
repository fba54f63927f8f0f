package budget_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// sdkError has the fields that SDKs give their errors.
type sdkError struct {
	StatusCode int
	Code       string
	Response   *http.Response
	at         time.Time
}

func (e *sdkError) Error() string { return fmt.Sprintf("%d %s", e.StatusCode, e.Code) }

func (e *sdkError) RetryAt() (time.Time, bool) { return e.at, !e.at.IsZero() }

// How long the server asks to wait is known to the pacer also where it is an
// SDK's error that keeps the answer. What the error says itself goes first.
func TestPacerErrorsOfSDKs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		resp := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"300"}}}
		for want, err := range map[time.Duration]error{
			5 * time.Minute:  fmt.Errorf("ask: %w", &sdkError{StatusCode: 429, Response: resp}),
			20 * time.Second: &sdkError{StatusCode: 429, Response: resp, at: time.Now().Add(20 * time.Second)},
		} {
			p := mustPacer(t, budget.PacerConfig{Requests: 600})
			_ = p.Do(t.Context(), func(context.Context) error { return err })
			equal(t, "held", p.Stats().Held, want.Seconds())
			equal(t, "refused", p.Stats().Refused, int64(1))
		}
	})
}

// An error that is nothing but the text of a status may come of an answer: the
// turn stays taken.
func TestPacerStatusTexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustPacer(t, budget.PacerConfig{Requests: 600})
		for _, status := range []int{401, 429, 503} {
			_ = p.Do(t.Context(), func(context.Context) error { return errors.New(http.StatusText(status)) })
		}
		equal(t, "given back", p.Stats().Unsent, int64(0))
	})
}

// An error under 200 has been paid, also where a layer below has made an error
// of it that stands for 502.
func TestPaidErrors(t *testing.T) {
	t.Parallel()
	for want, v := range map[int64]modelapi.Verdict{
		100: {Class: modelapi.ServerError, Status: 200, Inner: 502, InBody: true},
		0:   {Class: modelapi.ServerError, Status: 502},
	} {
		day, err := budget.New(budget.Config{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		ctx := budget.WithEstimate(t.Context(), 100)
		_ = day.Do(ctx, func(context.Context) error { return fmt.Errorf("ask: %w", v.AsError()) })
		st, err := day.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "spent", st.Spent, want)
	}
}
