package budget_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/call"
)

// trip is a RoundTripper.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// chunked gives n bytes a Read, then err.
type chunked struct {
	data   []byte
	n      int
	err    error
	closed int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, c.err
	}
	n := copy(p[:min(len(p), max(c.n, 1))], c.data)
	c.data = c.data[n:]
	return n, nil
}

func (c *chunked) Close() error { c.closed++; return nil }

// answer is a response with these headers ("K: v" each) and body.
func answer(status int, body string, headers ...string) *http.Response {
	h := make(http.Header)
	for _, line := range headers {
		k, v, _ := strings.Cut(line, ": ")
		h.Add(k, v)
	}
	return &http.Response{StatusCode: status, Header: h, ContentLength: -1, Body: &chunked{data: []byte(body), n: 4096, err: io.EOF}}
}

func always(r func() *http.Response) trip {
	return func(req *http.Request) (*http.Response, error) {
		if req.Body != nil {
			_, _ = io.Copy(io.Discard, req.Body)
			_ = req.Body.Close()
		}
		resp := r()
		resp.Request = req
		return resp, nil
	}
}

const chatURL = "http://upstream.test/v1/chat/completions"

func post(t testing.TB, ctx context.Context, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, chatURL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestTransportReadsUsageInHeaders(t *testing.T) {
	t.Parallel()
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(append(bytes.TrimSpace(sample(t, "bedrock-invoke-200.headers")), "\r\n\r\n"...))), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := budget.ParseUsage(resp.Header, nil)
	if !ok || got.Total() != 1540 {
		t.Errorf("ParseUsage = %+v, %v", got, ok)
	}
	b := mustNew(t, budget.Config{Limit: 100_000})
	rt := budget.NewTransport(always(func() *http.Response {
		a := answer(200, `{"text":"x"}`)
		a.Header = resp.Header
		return a
	}), b)
	read(t, rt, post(t, budget.WithEstimate(t.Context(), estimated), "{}"))
	equal(t, "spent", spent(t, b), int64(1540))
}

// read makes a call and reads its answer to the end.
func read(t testing.TB, rt http.RoundTripper, req *http.Request) int {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Request != req {
		t.Error("the response is for another request")
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// Cached and reasoning tokens are a part in one provider's count and beside it
// in another's.
func TestParseUsage(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int64{
		`{"usage":{"prompt_tokens":1000,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":800}}}`:                                 1050,
		`{"usage":{"input_tokens":150,"cache_read_input_tokens":12000,"cache_creation_input_tokens":3000,"output_tokens":50},"type":"message"}`: 15200,
		`{"choices":[]}`:                       0,
		`{"usage":null}`:                       0,
		`{"text":"\"usage\":{\"input_tokens"}`: 0,
	} {
		u, ok := budget.ParseUsage(nil, []byte(body))
		if ok != (want > 0) || u.Total() != want && ok {
			t.Errorf("ParseUsage(%s) = %+v, %v, want %d", body, u, ok, want)
		}
	}
	for _, u := range []budget.Usage{{Input: -1, Output: 5}, {Input: 5, Cached: -2}, {Input: budget.MaxAmount, Output: 1}} {
		equal(t, "impossible total", u.Total(), int64(-1))
	}
}

// A part of the usage can be more than the estimate, and an answer that broke
// off can have cost more than the part.
func TestCharge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call budget.Call
		want int64
	}{
		{budget.Call{Estimate: 100}, 0},
		{budget.Call{Estimate: 100, Sent: true}, 100},
		{budget.Call{Estimate: 100, Sent: true, Status: 200, HasUsage: true, Usage: budget.Usage{Input: 30}}, 100},
		{budget.Call{Estimate: 100, Sent: true, Status: 200, HasUsage: true, Usage: budget.Usage{Input: 300}}, 300},
		{budget.Call{Estimate: 100, Sent: true, Status: 200, HasUsage: true, Usage: budget.Usage{Input: 30, Output: 4}, Complete: true}, 34},
		{budget.Call{Estimate: 100, Sent: true, Status: 200, Usage: budget.Usage{Input: 30}, Complete: true}, 100},
	} {
		equal(t, fmt.Sprintf("%+v", c.call), budget.Charge(c.call), c.want)
	}
}

// What each outcome costs, by the table of Charge.
func TestTransportChargesOutcomes(t *testing.T) {
	t.Parallel()
	json := "Content-Type: application/json"
	usage := `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":100,"completion_tokens":20}}`
	status := func(code int) trip {
		return always(func() *http.Response { return answer(code, `{"error":{"message":"no"}}`, json) })
	}
	fails := func(err error) trip { return func(*http.Request) (*http.Response, error) { return nil, err } }
	gone, cancel := context.WithCancel(t.Context())
	for _, c := range []struct {
		name string
		rt   trip
		want int64
	}{
		{"usage", always(func() *http.Response { return answer(200, usage, json) }), 120},
		{"no usage", always(func() *http.Response { return answer(200, `{"choices":[]}`, json) }), estimated},
		{"usage of zero", always(func() *http.Response {
			return answer(200, `{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`, json)
		}), estimated},
		{"negative usage", always(func() *http.Response {
			return answer(200, `{"choices":[],"usage":{"prompt_tokens":-100,"completion_tokens":20}}`, json)
		}), estimated},
		{"compressed", always(func() *http.Response { return answer(200, usage, json, "Content-Encoding: gzip") }), estimated},
		{"400", status(400), 0},
		{"401", status(401), 0},
		{"429", status(429), 0},
		{"500", status(500), 0},
		{"503", status(503), 0},
		{"529", status(529), 0}, // a storm of these must not spend the day
		{"408", status(408), estimated},
		{"499", status(499), estimated},
		{"504", status(504), estimated},
		{"524", status(524), estimated},
		{"dial", fails(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}), 0},
		{"no such host", fails(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}), 0},
		{"refused inside", fails(&budget.RefusedError{Reason: budget.ErrExhausted}), 0},
		{"reset", fails(&net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}), estimated},
		{"EOF", fails(io.ErrUnexpectedEOF), estimated},
		{"unknown", fails(errors.New("what")), estimated},
		{"timeout", fails(os.ErrDeadlineExceeded), estimated},
		{"cancelled after sending", func(*http.Request) (*http.Response, error) { cancel(); return nil, gone.Err() }, estimated},
		{"nothing at all", func(*http.Request) (*http.Response, error) { return nil, nil }, estimated},
	} {
		b := mustNew(t, budget.Config{Limit: 100_000})
		ctx := t.Context()
		if c.name == "cancelled after sending" {
			ctx = gone
		}
		resp, err := budget.NewTransport(c.rt, b).RoundTrip(post(t, budget.WithEstimate(ctx, estimated), "{}"))
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		equal(t, c.name, spent(t, b), c.want)
		equal(t, c.name+" outstanding", b.Stats().Outstanding, int64(0))
	}
}

func TestTransportOwners(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 10_000, Owners: []budget.Owner{{Name: "nightly"}, {Name: "human", UseHeadroom: true}}})
	rt := budget.NewTransport(always(func() *http.Response { return answer(200, "{}") }), b)
	job := budget.WithEstimate(budget.WithOwner(t.Context(), "nightly"), 100)
	read(t, rt, post(t, job, "{}"))
	read(t, rt, post(t, budget.WithOwner(job, "human"), "{}"))
	_, err := rt.RoundTrip(post(t, t.Context(), "{}"))
	if !errors.Is(err, budget.ErrUnknownOwner) || call.RefusedBy(err) != "budget" {
		t.Errorf("err = %v", err)
	}
	st, err := b.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "spent", []int64{st.Owners[0].Spent, st.Owners[1].Spent}, []int64{100, 100})
}

// A Charge that panics is the caller's to see, and loses nothing.
func TestTransportChargePanics(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 10_000, Charge: func(budget.Call) int64 { panic("mine") }})
	for _, base := range []trip{
		always(func() *http.Response { return answer(200, "{}") }),
		func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
	} {
		func() {
			defer func() {
				if p := recover(); p != "mine" {
					t.Errorf("recovered %v", p)
				}
			}()
			read(t, budget.NewTransport(base, b), post(t, budget.WithEstimate(t.Context(), 100), "{}"))
		}()
	}
	equal(t, "spent", spent(t, b), int64(200))
	equal(t, "outstanding", b.Stats().Outstanding, int64(0))
}

// The refusal stands in the box, because http.Client and some SDKs replace
// errors by texts; what is the item's own fault does not.
func TestTransportNotesRefusals(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 1000})
	mustReserve(t, b, "", 850)
	rt := budget.NewTransport(always(func() *http.Response { return answer(200, "{}") }), b)
	for n, want := range map[int64]bool{10: true, 5000: false} {
		box := call.With(budget.WithEstimate(t.Context(), n))
		_, err := rt.RoundTrip(post(t, box, "{}"))
		if err == nil || (box.Item.Refusal() != nil) != want {
			t.Errorf("estimate %d: err = %v, noted %v", n, err, box.Item.Refusal())
		}
	}
}

func TestTransportOrder(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 1000})
	p := mustPacer(t, budget.PacerConfig{Requests: 600})
	base := always(func() *http.Response { return answer(200, "{}") })
	good := budget.NewPacedTransport(budget.NewTransport(base, b), p)
	if err := good.Err(); err != nil {
		t.Errorf("the right order: %v", err)
	}
	for name, rt := range map[string]interface {
		http.RoundTripper
		Err() error
		Unwrap() http.RoundTripper
		CloseIdleConnections()
	}{
		"wrong order": budget.NewTransport(budget.NewPacedTransport(base, p), b),
		"nil budget":  budget.NewTransport(base, nil),
		"nil pacer":   budget.NewPacedTransport(base, nil),
	} {
		body := &closes{Reader: strings.NewReader("x")}
		req := post(t, t.Context(), "")
		req.Body = body
		if _, err := rt.RoundTrip(req); err == nil || rt.Err() == nil || body.n.Load() != 1 {
			t.Errorf("%s: RoundTrip = %v, Err = %v, body closed %d times", name, err, rt.Err(), body.n.Load())
		}
		rt.CloseIdleConnections()
		if rt.Unwrap() == nil {
			t.Errorf("%s: nothing inside", name)
		}
	}
}
