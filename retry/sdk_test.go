package retry_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/retry"
)

// Errors in the shapes of the SDKs' own.
type (
	// openai-go: fields, the response, and the raw error object.
	stainlessError struct {
		Code, Message, Type string
		StatusCode          int
		Response            *http.Response
		raw                 string
	}
	// google genai.
	geminiError struct {
		Code    int
		Message string
		Status  string
		Details []map[string]any
	}
	// go-openai: a code of any type.
	anyCodeError struct {
		Code           any
		Message        string
		Type           string
		HTTPStatusCode int
	}
	// cohere-go.
	bareError struct{ StatusCode int }
)

func (e *stainlessError) Error() string   { return "API error" }
func (e *stainlessError) RawJSON() string { return e.raw }
func (e geminiError) Error() string       { return e.Message }
func (e *anyCodeError) Error() string     { return e.Message }
func (e *bareError) Error() string        { return "bare" }

// fullError has a status and says when to come back.
type fullError struct{ d time.Duration }

func (fullError) Error() string                { return "full" }
func (fullError) StatusCode() int              { return 503 }
func (e fullError) RetryAt() (time.Time, bool) { return time.Now().Add(e.d), true }

// hostileError panics when it is asked.
type hostileError struct{ StatusCode int }

func (*hostileError) Error() string   { return "hostile" }
func (*hostileError) RawJSON() string { panic("no") }

// T63 in the function form: an SDK's error is judged as its answer would be.
func TestErrorsOfSDKs(t *testing.T) {
	t.Parallel()
	with := func(h string) *http.Response { return &http.Response{StatusCode: 429, Header: headers(h)} }
	details := func(quota string) []map[string]any {
		return []map[string]any{
			{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []map[string]any{{"quotaId": quota}}},
			{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "22s"},
		}
	}
	var none *stainlessError
	for _, tc := range []struct {
		name  string
		err   error
		calls int
		wait  time.Duration // the floor of the first wait
		code  string
	}{
		{"quota by raw JSON", &stainlessError{StatusCode: 429, raw: `{"code":"insufficient_quota","type":"insufficient_quota","message":"m"}`}, 1, 0, "insufficient_quota"},
		{"quota by a whole body", &stainlessError{StatusCode: 400, raw: `{"type":"error","error":{"type":"billing_error","message":"m"}}`}, 1, 0, "billing_error"},
		{"rate limit with a header", &stainlessError{StatusCode: 429, raw: `{"code":"rate_limit_exceeded"}`, Response: with("Retry-After: 20")}, 4, 20 * time.Second, "rate_limit_exceeded"},
		{"x-should-retry", &stainlessError{StatusCode: 429, Response: with("X-Should-Retry: false")}, 1, 0, ""},
		{"Gemini per minute", geminiError{Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "m", Details: details("PerMinute")}, 4, 22 * time.Second, "RESOURCE_EXHAUSTED"},
		{"Gemini per day", geminiError{Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "m", Details: details("RequestsPerDay")}, 2, 22 * time.Second, "RESOURCE_EXHAUSTED"},
		{"go-openai quota", &anyCodeError{Code: "insufficient_quota", HTTPStatusCode: 429}, 1, 0, "insufficient_quota"},
		{"go-openai overload", &anyCodeError{Code: nil, Type: "server_error", HTTPStatusCode: 500}, 4, 0, "server_error"},
		{"a status and a time", fullError{25 * time.Second}, 4, 25 * time.Second, ""},
		{"bare 429", &bareError{429}, 4, 0, ""},
		{"bare 422", &bareError{422}, 1, 0, ""},
		{"no status", &bareError{}, 4, 0, ""},
		{"hostile", &hostileError{503}, 4, 0, ""},
		{"a nil one", fmt.Errorf("wrapped: %w", none), 4, 0, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var w waits
			r := mustNew(t, retry.Config{OnWait: w.add})
			n := 0
			err := r.Do(t.Context(), func(context.Context) error { n++; return fmt.Errorf("summarise: %w", tc.err) })
			equal(t, tc.name+": calls", n, tc.calls)
			if ds := w.delays(); len(ds) > 0 && (ds[0] < tc.wait || ds[0] > tc.wait+1500*time.Millisecond) {
				t.Errorf("%s: waited %v, want %v or a little more", tc.name, ds[0], tc.wait)
			}
			if e := asError(t, err); tc.code != "" && e.Code != tc.code {
				t.Errorf("%s: code %q, want %q", tc.name, e.Code, tc.code)
			}
			if last := asError(t, err).Last; !strings.HasPrefix(last.Error(), "summarise: ") {
				t.Errorf("%s: the last error is %v, not the SDK's", tc.name, last)
			}
		})
	}
}

// A guard that says "now" and refuses again makes no hot loop.
func TestAGuardThatAlwaysSaysNowIsNoHotLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{})
		close(wake)
		r := mustNew(t, retry.Config{Hold: time.Minute})
		n := 0
		start := time.Now()
		err := r.Do(t.Context(), func(context.Context) error { n++; return refusal{wake} })
		equal(t, "refused by", asError(t, err).RefusedBy(), "breaker")
		if n > 200 || time.Since(start) > time.Minute {
			t.Errorf("asked %d times in %v", n, time.Since(start))
		}
	})
}
