package fakemodel_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

func newModel(t *testing.T, c fakemodel.Config) *fakemodel.Model {
	t.Helper()
	m, err := fakemodel.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ask is a request body with one user message and further fields.
func ask(prompt string, fields ...string) string {
	text, err := json.Marshal(prompt)
	if err != nil {
		panic(err)
	}
	var more strings.Builder
	for _, f := range fields {
		more.WriteString("," + f)
	}
	return `{"model":"fake-1","messages":[{"role":"user","content":` + string(text) + `}]` + more.String() + `}`
}

// reply is what came back.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of the round trip or of reading the body
}

// post sends body to m, as the batch.
func post(ctx context.Context, rt http.RoundTripper, body string, headers ...string) reply {
	return postTo(ctx, rt, "http://fake/v1/chat/completions", body, headers...)
}

func postTo(ctx context.Context, rt http.RoundTripper, url, body string, headers ...string) reply {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return reply{err: err}
	}
	data, err := io.ReadAll(resp.Body)
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(data), err: err}
}

// outcome names a reply: its status and, under an error, the code.
func (r reply) outcome() string {
	if r.err != nil {
		return "error: " + r.err.Error()
	}
	var w struct {
		Error *struct {
			Type string
			Code *string
		}
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.Unmarshal([]byte(r.body), &w); err != nil {
		return "not JSON: " + r.body
	}
	status := http.StatusText(r.status)
	switch {
	case w.Error != nil && w.Error.Code != nil:
		return status + ": " + w.Error.Type + "/" + *w.Error.Code
	case w.Error != nil:
		return status + ": " + w.Error.Type + "/null"
	case len(w.Choices) != 1:
		return status + ": no choice"
	case w.Choices[0].Message.Content == "":
		return status + ": empty"
	}
	return status
}

// The outcomes most tests see.
const (
	ok         = "OK"
	empty      = "OK: empty"
	limited    = "Too Many Requests: requests/rate_limit_exceeded"
	limitedTPM = "Too Many Requests: tokens/rate_limit_exceeded"
	noQuota    = "Too Many Requests: insufficient_quota/insufficient_quota"
	overloaded = "Service Unavailable: server_error/overloaded"
	flaky      = "Internal Server Error: server_error/server_error"
	poisoned   = "Bad Request: invalid_request_error/null"
	badKey     = "Unauthorized: invalid_request_error/invalid_api_key"
)

// step is a call at a time and what becomes of it.
type step struct {
	at   time.Duration // since the model was made
	want string
}

// timeline makes a call at each step. Call it in a bubble.
func timeline(t *testing.T, c fakemodel.Config, body string, steps []step) {
	t.Helper()
	start := time.Now()
	m := newModel(t, c)
	for i, s := range steps {
		time.Sleep(time.Until(start.Add(s.at)))
		if got := post(t.Context(), m, body).outcome(); got != s.want {
			t.Errorf("call %d at %v: got %q, want %q", i, s.at, got, s.want)
		}
	}
}
