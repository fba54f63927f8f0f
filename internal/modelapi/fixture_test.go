package modelapi_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// noon is when the fixtures' answers arrived.
var noon = time.Date(2026, 11, 29, 15, 0, 0, 0, time.UTC)

// chunked gives at most n bytes a Read, and the error with the last of them
// when it can.
type chunked struct {
	data   []byte
	n      int
	err    error // io.EOF when nil
	closed int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		return 0, io.EOF
	}
	n := min(len(p), len(c.data))
	if c.n > 0 {
		n = min(n, c.n)
	}
	copy(p, c.data[:n])
	c.data = c.data[n:]
	return n, nil
}

func (c *chunked) Close() error { c.closed++; return nil }

// response makes a response of a body. header has lines as they stand in HTTP.
func response(status int, header, body string, chunk int) *http.Response {
	h := make(http.Header)
	for line := range strings.Lines(header) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			h.Add(k, strings.TrimSpace(v))
		}
	}
	return &http.Response{
		StatusCode: status, Header: h, ContentLength: -1,
		Body: &chunked{data: []byte(body), n: chunk},
	}
}

// fixture reads a sample with what its README says about the forms.
func fixture(t testing.TB, name string, chunk int) (*http.Response, string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "samples", name))
	if err != nil {
		t.Fatal(err)
	}
	switch filepath.Ext(name) {
	case ".sse":
		return response(200, "Content-Type: text/event-stream; charset=utf-8", string(data), chunk), string(data)
	case ".json":
		return response(200, "Content-Type: application/json", string(data), chunk), string(data)
	}
	if filepath.Ext(name) == ".headers" {
		data = append(data, '\n')
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = &chunked{data: body, n: chunk}
	if len(body) == 0 {
		// These samples are about headers, as the answer to a HEAD is.
		resp.Body, resp.Request = http.NoBody, &http.Request{Method: http.MethodHead}
	}
	return resp, string(body)
}

// watched reads a response to its end and returns the verdict, which OnEnd must
// have told, and once.
func watched(t testing.TB, resp *http.Response, want string) modelapi.Verdict {
	t.Helper()
	v := modelapi.Watch(nil, resp, noon)
	var told []modelapi.Verdict
	v.OnEnd(func(d modelapi.Verdict) { told = append(told, d) })
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("bytes changed on their way: %q", got)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 {
		t.Fatalf("the end was told %d times", len(told))
	}
	if d := cmp.Diff(v.Verdict(), told[0], equalErrors); d != "" {
		t.Errorf("told and final differ (-final +told):\n%s", d)
	}
	return told[0]
}

var equalErrors = cmpopts.EquateErrors()

var chunks = []int{1, 7, 4096, 0}

func TestFixtures(t *testing.T) {
	t.Parallel()
	type V = modelapi.Verdict
	type U = modelapi.Usage
	ok := func(u U) V { return V{Class: modelapi.OK, Status: 200, Usage: u, HasUsage: true, Ended: true} }
	tests := map[string]V{
		"openai-chat-200.json":                    ok(U{1200, 340, 1024, 256}),
		"openai-chat-stream-usage.sse":            ok(U{1200, 340, 1024, 256}),
		"openai-chat-stream-nousage.sse":          {Class: modelapi.OK, Status: 200, Ended: true},
		"openai-responses-stream.sse":             ok(U{1200, 340, 1024, 256}),
		"anthropic-message-200.json":              ok(U{1200, 340, 1024, 0}),
		"anthropic-stream.sse":                    ok(U{1200, 340, 1024, 0}),
		"gemini-200.json":                         ok(U{1200, 340, 1024, 256}),
		"gemini-stream.sse":                       ok(U{1200, 340, 0, 256}),
		"gemini-stream-jsonarray.json":            ok(U{1200, 340, 0, 256}),
		"bedrock-converse-200.json":               ok(U{1200, 340, 1024, 0}),
		"bedrock-invoke-200.headers":              ok(U{1200, 340, 1024, 0}),
		"cohere-chat-200.json":                    ok(U{1200, 341, 0, 0}),
		"compat-cumulative-usage-every-chunk.sse": ok(U{100, 3, 0, 0}),
		"openai-chat-200.headers":                 {Class: modelapi.OK, Status: 200, Ended: true},
		"anthropic-200.headers":                   {Class: modelapi.OK, Status: 200, Ended: true},
		"anthropic-stream-overloaded-midway.sse": {
			Class: modelapi.Overloaded, Status: 200, Inner: 529, Code: "overloaded_error", Text: "Overloaded",
			Usage: U{Input: 1200, Output: 1}, InBody: true, Ended: true,
		},
		"openai-429-tpm.http": {
			Class: modelapi.RateLimited, Status: 429, Code: "rate_limit_exceeded", Wait: 1874 * time.Millisecond, Waits: true, Ended: true,
			Text: "Rate limit reached for gpt-sample-mini in organization org-fixture on tokens per min (TPM): Limit 200000, Used 199100, Requested 7147. Please try again in 1.874s.",
		},
		"openai-429-insufficient-quota.http": {
			Class: modelapi.Quota, Status: 429, Code: "insufficient_quota", Ended: true,
			Text: "You exceeded your current quota, please check your plan and billing details.",
		},
		"anthropic-429.http": {
			Class: modelapi.RateLimited, Status: 429, Code: "rate_limit_error", Wait: 14 * time.Second, Waits: true, Ended: true,
			Text: "This request would exceed the rate limit for your organization of 8,000 output tokens per minute.",
		},
		"anthropic-529.http": {
			Class: modelapi.Overloaded, Status: 529, Code: "overloaded_error", Text: "Overloaded", Should: true, Retry: true, Ended: true,
		},
		"gemini-429-perday.http": {
			Class: modelapi.QuotaPerDay, Status: 429, Code: "RESOURCE_EXHAUSTED", Wait: 22 * time.Second, Waits: true, Ended: true,
			Text: "You exceeded your current quota. Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 250, model: gemini-sample. Please retry in 22.4s.",
		},
		"gemini-429-perminute.http": {
			Class: modelapi.RateLimited, Status: 429, Code: "RESOURCE_EXHAUSTED", Wait: 38 * time.Second, Waits: true, Ended: true,
			Text: "You exceeded your current quota. Please retry in 38.9s.",
		},
		"bedrock-429.http": {
			Class: modelapi.RateLimited, Status: 429, Code: "ThrottlingException", Ended: true,
			Text: "Too many tokens, please wait before trying again.",
		},
		"groq-429.http": {
			Class: modelapi.RateLimited, Status: 429, Code: "rate_limit_exceeded", Wait: 8 * time.Second, Waits: true, Ended: true,
			Text: "Rate limit reached for model sample on tokens per minute (TPM): Limit 18000, Used 17988, Requested 900.",
		},
		"azure-429.http": {
			Class: modelapi.RateLimited, Status: 429, Code: "429", Wait: 25412 * time.Millisecond, Waits: true, Ended: true,
			Text: "Requests to the ChatCompletions_Create Operation have exceeded the token rate limit of your current tier. Please retry after 26 seconds.",
		},
		"proxy-503-html.http": {
			Class: modelapi.Overloaded, Status: 503, Text: "503 Service Temporarily Unavailable", Wait: 2 * time.Minute, Waits: true, Ended: true,
		},
	}
	files, err := os.ReadDir(filepath.Join("testdata", "samples"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := file.Name()
		if name == "README.md" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, ok := tests[name]
			if !ok {
				t.Fatal("a sample without an expectation")
			}
			for _, chunk := range chunks {
				resp, body := fixture(t, name, chunk)
				got := watched(t, resp, body)
				if d := cmp.Diff(got, want); d != "" {
					t.Errorf("in chunks of %d (-got +want):\n%s", chunk, d)
				}
			}
		})
	}
}
