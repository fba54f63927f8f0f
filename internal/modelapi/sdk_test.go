package modelapi_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// sdkError has the fields that SDKs give their errors.
type sdkError struct {
	StatusCode int
	Code       string
	Message    string
	Response   *http.Response
}

func (e *sdkError) Error() string { return fmt.Sprintf("%d %s", e.StatusCode, e.Code) }

// rawError keeps the body.
type rawError struct {
	StatusCode int
	raw        string
}

func (e *rawError) Error() string   { return "raw" }
func (e *rawError) RawJSON() string { return e.raw }

// wildError panics at every question.
type wildError struct{ StatusCode int }

func (*wildError) Error() string             { return "wild" }
func (*wildError) RawJSON() string           { panic("no") }
func (*wildError) Verdict() modelapi.Verdict { panic("no") }

func TestOfError(t *testing.T) {
	t.Parallel()
	type V = modelapi.Verdict
	waits := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"300"}, "Content-Encoding": {"gzip"}}}
	empty := V{Class: modelapi.Empty, Status: 200, Ended: true}
	for name, c := range map[string]struct {
		err  error
		want V
		ok   bool
	}{
		"nil":                {nil, V{}, false},
		"no status":          {errors.New("boom"), V{}, false},
		"a good status":      {&sdkError{StatusCode: 200, Code: "x"}, V{}, false},
		"a redirect":         {&sdkError{StatusCode: 302}, V{}, false},
		"a status alone":     {&sdkError{StatusCode: 503}, V{Class: modelapi.Overloaded, Status: 503, Ended: true}, true},
		"no credit":          {&sdkError{StatusCode: 429, Code: "insufficient_quota"}, V{Class: modelapi.Quota, Status: 429, Code: "insufficient_quota", Ended: true}, true},
		"a hint":             {&sdkError{StatusCode: 429, Response: waits}, V{Class: modelapi.RateLimited, Status: 429, Wait: 5 * time.Minute, Waits: true, Ended: true}, true},
		"the body":           {&rawError{429, `{"code":429,"message":"m","details":[{"retryDelay":"34s"}]}`}, V{Class: modelapi.RateLimited, Status: 429, Code: "429", Text: "m", Wait: 34 * time.Second, Waits: true, Ended: true}, true},
		"wrapped":            {fmt.Errorf("ask: %w", errors.Join(io.EOF, &sdkError{StatusCode: 401})), V{Class: modelapi.Auth, Status: 401, Ended: true}, true},
		"panics":             {&wildError{500}, V{Class: modelapi.ServerError, Status: 500, Ended: true}, true},
		"an answer":          {&url.Error{Op: "Post", URL: "http://h/", Err: empty.AsError()}, empty, true},
		"an unjudged answer": {V{Status: 500}.AsError(), V{Class: modelapi.ServerError, Status: 500, Ended: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := modelapi.OfError(c.err, noon)
			if d := cmp.Diff(got, c.want); d != "" || ok != c.ok {
				t.Errorf("%v (-got +want):\n%s", ok, d)
			}
		})
	}
	if waits.Header.Get("Content-Encoding") == "" || len(waits.Header) != 2 {
		t.Errorf("the caller's header was changed: %v", waits.Header)
	}
}

func TestStandIn(t *testing.T) {
	t.Parallel()
	const body = `{"error":{"message":"retry: 2 calls in 1s","type":"nightfuse_failed","code":"server_error"}}`
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"the body":       {fmt.Errorf("ask: %w", &rawError{503, body}), true},
		"its error":      {&rawError{503, `{"type":"nightfuse_refused_by_budget"}`}, true},
		"a field":        {&sdkError{StatusCode: 503, Code: "nightfuse_failed"}, true},
		"a text":         {errors.New("503: " + body), true},
		"another answer": {&sdkError{StatusCode: 503, Code: "server_error", Message: "nightfuse_fixture"}, false},
		"panics":         {&wildError{503}, false},
	} {
		if got := modelapi.StandIn(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAnswerError(t *testing.T) {
	t.Parallel()
	type V = modelapi.Verdict
	for _, c := range []struct {
		v    V
		want string
	}{
		{V{Class: modelapi.Overloaded, Status: 503}, "503 Service Unavailable"},
		{V{Class: modelapi.Overloaded, Status: 529, Code: "overloaded_error", Text: "busy"}, "529: overloaded_error: busy"},
		{V{Class: modelapi.ServerError, Status: 200, Inner: 500, InBody: true, Text: "boom"}, "500 Internal Server Error: 200 with an error inside: boom"},
		{V{Class: modelapi.ServerError, Status: 200, Inner: 502, InBody: true, Code: "html"}, "502 Bad Gateway: 200 with an error inside: html"},
		{V{Class: modelapi.Empty, Status: 200}, "200 OK: an empty answer"},
		{V{Class: modelapi.Truncated, Status: 200, Code: "length"}, "200 OK: a truncated answer: length"},
		{V{Class: modelapi.Truncated, Status: 200, Err: io.ErrUnexpectedEOF}, "200 OK: the body ended too early: unexpected EOF"},
		{V{Class: modelapi.Refused, Status: 200, Code: "content_filter"}, "200 OK: the model or a filter declined: content_filter"},
		{V{Class: modelapi.OK, Status: 302}, "302 Found: a redirect that was not followed"},
		{V{Class: modelapi.OK, Status: 200}, "200 OK: refused by Classify"},
	} {
		err := c.v.AsError()
		if err.Error() != c.want {
			t.Errorf("got  %q\nwant %q", err, c.want)
		}
		if err.StatusCode() != c.v.Effective() || c.v.Err != nil && !errors.Is(err, c.v.Err) {
			t.Errorf("%v: status %d, wraps %v", err, err.StatusCode(), err.Unwrap())
		}
	}
}
