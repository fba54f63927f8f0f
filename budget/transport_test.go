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
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// samples are answers of the providers, made by hand from their documents.
const samples = "../internal/modelapi/testdata/samples"

func sample(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(samples, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const estimated = 5000

// Every provider's usage is read as the answer passes, whatever the size of
// the reads; where there is none, or only a part, the estimate stays.
func TestTransportChargesUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, kind string
		want       int64
	}{
		{"openai-chat-200.json", "application/json", 1540},
		{"openai-chat-stream-usage.sse", "text/event-stream", 1540},
		{"openai-chat-stream-nousage.sse", "text/event-stream", estimated},
		{"openai-responses-stream.sse", "text/event-stream", 1540},
		{"compat-cumulative-usage-every-chunk.sse", "text/event-stream", 103}, // ogx-ai/ogx#5122
		{"anthropic-message-200.json", "application/json", 1540},
		{"anthropic-stream.sse", "text/event-stream", 1540}, // envoyproxy/ai-gateway#2279
		{"anthropic-stream-overloaded-midway.sse", "text/event-stream", estimated},
		{"gemini-200.json", "application/json", 1540}, // simonw/llm-gemini#75
		{"gemini-stream.sse", "text/event-stream", 1540},
		{"gemini-stream-jsonarray.json", "application/json", 1540},
		{"bedrock-converse-200.json", "application/json", 1540},
	} {
		for _, n := range []int{1, 7, 4096, 1 << 20} {
			body := sample(t, c.file)
			b := mustNew(t, budget.Config{Limit: 100_000})
			rt := budget.NewTransport(always(func() *http.Response {
				resp := answer(200, "", "Content-Type: "+c.kind)
				resp.Body = &chunked{data: body, n: n, err: io.EOF}
				return resp
			}), b)
			resp, err := rt.RoundTrip(post(t, budget.WithEstimate(t.Context(), estimated), "{}"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%s in reads of %d: the caller saw other bytes (%v)", c.file, n, err)
			}
			// Before anybody closes: a program may exit at the end of the answer.
			equal(t, fmt.Sprintf("%s in reads of %d", c.file, n), spent(t, b), c.want)
			_ = resp.Body.Close()
			st := b.Stats()
			equal(t, c.file+" settled", []int64{st.Settled, st.Outstanding, st.EndedTwice}, []int64{1, 0, 0})
			if noUsage := c.want == estimated && c.file != "anthropic-stream-overloaded-midway.sse"; (st.NoUsage == 1) != noUsage {
				t.Errorf("%s: counted %d answers without usage", c.file, st.NoUsage)
			}
		}
	}
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

// A stream that is cut, by either side, may have been generated in full
// (QuantumNous/new-api#5235).
func TestTransportCutStreams(t *testing.T) {
	t.Parallel()
	whole := string(sample(t, "openai-chat-stream-usage.sse"))
	anthropic := string(sample(t, "anthropic-stream.sse"))
	sse := "Content-Type: text/event-stream"
	broken := errors.New("connection reset by peer")
	for _, c := range []struct {
		name     string
		body     string
		err      error
		read     int // bytes before Close, -1 = all
		estimate int64
		want     int64
	}{
		{"closed at once", whole, io.EOF, 0, estimated, estimated},
		{"closed after the first event", whole, io.EOF, 100, estimated, estimated},
		{"usage null until the cut", whole[:strings.Index(whole, `"prompt_tokens"`)], broken, -1, estimated, estimated},
		{"ends without the last events", whole[:strings.Index(whole, `"prompt_tokens"`)], io.EOF, -1, estimated, estimated},
		{"closed at [DONE]", whole, io.EOF, len(whole) - 1, estimated, 1540},
		{"a part of the usage is known", anthropic[:len(anthropic)/2], broken, -1, estimated, estimated},
	} {
		b := mustNew(t, budget.Config{Limit: 100_000})
		rt := budget.NewTransport(always(func() *http.Response {
			a := answer(200, c.body, sse)
			a.Body = &chunked{data: []byte(c.body), n: 1, err: c.err}
			return a
		}), b)
		resp, err := rt.RoundTrip(post(t, budget.WithEstimate(t.Context(), c.estimate), "{}"))
		if err != nil {
			t.Fatal(err)
		}
		if c.read < 0 {
			_, _ = io.Copy(io.Discard, resp.Body)
		} else if c.read > 0 {
			_, _ = io.ReadFull(resp.Body, make([]byte, c.read))
		}
		_ = resp.Body.Close()
		equal(t, c.name, spent(t, b), c.want)
		equal(t, c.name+" outstanding", b.Stats().Outstanding, int64(0))
	}
}

// A body that nobody closes is a call that may still cost: it stays spent.
func TestTransportBodyNeverClosed(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 100_000})
	rt := budget.NewTransport(always(func() *http.Response { return answer(200, "{}") }), b)
	resp, err := rt.RoundTrip(post(t, budget.WithEstimate(t.Context(), estimated), "{}"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "spent", spent(t, b), int64(estimated))
	equal(t, "outstanding", b.Stats().Outstanding, int64(1))
	_ = resp.Body.Close()
	equal(t, "outstanding", b.Stats().Outstanding, int64(0))
}

// The cost is known at the end of a stream only: without an estimate first,
// all that run at once pass (envoyproxy/ai-gateway#680).
func TestTransportSlowStreamsAgainstTheCap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reached atomic.Int32
		b := mustNew(t, budget.Config{Limit: 5 * estimated, Headroom: -1})
		body := sample(t, "openai-chat-stream-usage.sse")
		rt := budget.NewTransport(trip(func(req *http.Request) (*http.Response, error) {
			reached.Add(1)
			time.Sleep(time.Minute)
			return answer(200, string(body), "Content-Type: text/event-stream"), nil
		}), b)
		var refused atomic.Int32
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				resp, err := rt.RoundTrip(post(t, budget.WithEstimate(t.Context(), estimated), "{}"))
				if err != nil {
					if !errors.Is(err, budget.ErrExhausted) {
						t.Error(err)
					}
					refused.Add(1)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			})
		}
		wg.Wait()
		equal(t, "reached the server, refused", []int32{reached.Load(), refused.Load()}, []int32{5, 15})
		equal(t, "spent", spent(t, b), int64(5*1540))
	})
}

// Reservations that leak on error paths have grown into false refusals for a
// month (BerriAI/litellm#27639): every path settles.
func TestTransportEveryExitSettles(t *testing.T) {
	t.Parallel()
	usage := `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":100,"completion_tokens":20}}`
	paths := []struct {
		rt   trip
		cost int64
	}{
		{always(func() *http.Response { return answer(200, usage, "Content-Type: application/json") }), 120},
		{always(func() *http.Response { return answer(429, "{}") }), 0},
		{always(func() *http.Response { return answer(500, "{}") }), 0},
		{func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}, 0},
		{func(*http.Request) (*http.Response, error) { return nil, os.ErrDeadlineExceeded }, 500},
		{func(*http.Request) (*http.Response, error) { panic("base") }, 500},
		{func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }, 500},
		{always(func() *http.Response { return answer(200, usage, "Content-Type: application/json") }), 500}, // closed unread
	}
	b := mustNew(t, budget.Config{Limit: 10_000_000})
	want := int64(0)
	for i := range 1000 {
		k := i * 7 % len(paths)
		want += paths[k].cost
		done := make(chan any)
		go func() {
			defer func() { done <- recover() }()
			resp, err := budget.NewTransport(paths[k].rt, b).RoundTrip(post(t, budget.WithEstimate(t.Context(), 500), "{}"))
			if err == nil {
				if k < 7 {
					_, _ = io.Copy(io.Discard, resp.Body)
				}
				_ = resp.Body.Close()
			}
		}()
		if p := <-done; (p != nil) != (k == 5) {
			t.Fatalf("path %d: panicked with %v", k, p)
		}
	}
	equal(t, "spent", spent(t, b), want)
	st := b.Stats()
	equal(t, "outstanding", []int64{st.Outstanding, st.OutstandingUnits, st.EndedTwice}, []int64{0, 0, 0})
	equal(t, "ended", st.Settled+st.Cancelled, int64(1000))
}

// closes counts Close and keeps what the base has read.
type closes struct {
	io.Reader
	n atomic.Int32
}

func (c *closes) Close() error { c.n.Add(1); return nil }

// The caller's body is closed once and its request stays as it is, whether the
// call is sent or refused, and whether the body can be had again or not.
func TestTransportAndTheRequest(t *testing.T) {
	t.Parallel()
	text := `{"max_tokens":1,"max_completion_tokens":10000,"messages":[]}` + strings.Repeat(" ", 3000)
	for _, again := range []bool{true, false} {
		for _, refuse := range []bool{true, false} {
			var asked int64
			c := budget.Config{Limit: 1_000_000, Estimate: func(req *http.Request, body []byte) int64 {
				if string(body) != text {
					t.Errorf("Estimate saw %d bytes, want %d", len(body), len(text))
				}
				asked = budget.EstimateBody(req, body)
				return asked
			}}
			b := mustNew(t, c)
			if refuse {
				mustReserve(t, b, "", 850_000)
			}
			body := &closes{Reader: strings.NewReader(text)}
			req := post(t, t.Context(), "")
			req.Body, req.GetBody, req.ContentLength = body, nil, -1
			if again {
				req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
			}
			before := *req
			var sent string
			rt := budget.NewTransport(trip(func(r *http.Request) (*http.Response, error) {
				data, err := io.ReadAll(r.Body)
				sent = string(data)
				_ = r.Body.Close()
				return answer(200, "{}"), err
			}), b)
			resp, err := rt.RoundTrip(req)
			if refuse != (err != nil) {
				t.Fatalf("refuse %v: err = %v", refuse, err)
			}
			if err == nil {
				_ = resp.Body.Close()
				if sent != text {
					t.Errorf("%d bytes were sent, want %d", len(sent), len(text))
				}
			}
			// The larger of two caps wins (BerriAI/litellm#37001).
			if asked < 10_000 {
				t.Errorf("estimate = %d, want the larger cap", asked)
			}
			equal(t, "closed", body.n.Load(), int32(1))
			if req.Body != before.Body || req.Context() != before.Context() || req.ContentLength != before.ContentLength {
				t.Error("the caller's request was changed")
			}
		}
	}
}

func TestTransportBodyThatFails(t *testing.T) {
	t.Parallel()
	no := errors.New("disk error")
	b := mustNew(t, budget.Config{Limit: 1000})
	rt := budget.NewTransport(trip(func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, nil }), b)
	body := &closes{Reader: io.MultiReader(strings.NewReader("x"), errReader{no})}
	req := post(t, t.Context(), "")
	req.Body, req.GetBody = body, nil
	_, err := rt.RoundTrip(req)
	if !errors.Is(err, no) || !call.NotSent(err) || body.n.Load() != 1 {
		t.Errorf("err = %v, body closed %d times", err, body.n.Load())
	}
	req = post(t, t.Context(), "x")
	req.GetBody = func() (io.ReadCloser, error) { return nil, no }
	if _, err := rt.RoundTrip(req); !errors.Is(err, no) {
		t.Errorf("err = %v", err)
	}
	equal(t, "spent", spent(t, b), int64(0))
}

type errReader struct{ error }

func (e errReader) Read([]byte) (int, error) { return 0, e.error }

func TestEstimateBody(t *testing.T) {
	t.Parallel()
	req := func(u string, length int64) *http.Request {
		p, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{URL: p, ContentLength: length}
	}
	pad := func(s string) string { return s + strings.Repeat(" ", 300-len(s)) }
	for _, c := range []struct {
		req  *http.Request
		body string
		want int64
	}{
		{nil, "", 1},
		{nil, pad(`{}`), 100 + 4096},
		{nil, pad(`{"max_tokens":50}`), 150},
		{nil, pad(`{"max_tokens":50,"n":3}`), 250},
		{nil, pad(`{"max_tokens":1,"max_completion_tokens":10000}`), 10100},
		{req(chatURL, 3000), pad(`{"max_tokens":50}`), 1050}, // a body of which only the head is here
		{nil, pad(`not JSON`), 100 + 4096},
	} {
		equal(t, c.body, budget.EstimateBody(c.req, []byte(c.body)), c.want)
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
	if !errors.Is(err, budget.ErrUnknownOwner) || call.RefusedBy(err) != "" {
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

func TestDo(t *testing.T) {
	t.Parallel()
	final := errors.New("no such model")
	for _, c := range []struct {
		name string
		fn   func(context.Context) error
		want int64
	}{
		{"says nothing", func(context.Context) error { return nil }, 100},
		{"says what it used", func(ctx context.Context) error { budget.Used(ctx, 30); budget.Used(ctx, 12); return nil }, 42},
		{"used and failed", func(ctx context.Context) error { budget.Used(ctx, 30); return final }, 30},
		{"used nothing", func(ctx context.Context) error { budget.Used(ctx, 0); return nil }, 0},
		{"used impossibly", func(ctx context.Context) error { budget.Used(ctx, -5); return nil }, 100},
		{"failed", func(context.Context) error { return final }, 100},
		{"failed with a status", func(context.Context) error { return statusError(429) }, 0},
		{"timed out upstream", func(context.Context) error { return statusError(504) }, 100},
		{"never sent", func(context.Context) error { return &net.OpError{Op: "dial", Err: final} }, 0},
		{"refused inside", func(context.Context) error { return &budget.LateError{} }, 0},
	} {
		b := mustNew(t, budget.Config{Limit: 1000})
		var inner error
		err := b.Do(budget.WithEstimate(t.Context(), 100), func(ctx context.Context) error {
			inner = c.fn(ctx)
			return inner
		})
		if err != inner {
			t.Errorf("%s: err = %v, want fn's own %v", c.name, err, inner)
		}
		equal(t, c.name, spent(t, b), c.want)
		equal(t, c.name+" outstanding", b.Stats().Outstanding, int64(0))
	}
	budget.Used(t.Context(), 5) // outside: nothing to tell
}

type statusError int

func (e statusError) Error() string   { return http.StatusText(int(e)) }
func (e statusError) StatusCode() int { return int(e) }

func TestDoRefusesAndPanics(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 1000})
	called := func(context.Context) error { t.Error("called"); return nil }
	if err := b.Do(t.Context(), called); !errors.Is(err, budget.ErrEstimate) {
		t.Errorf("without an estimate: %v", err)
	}
	mustReserve(t, b, "", 800)
	box := call.With(budget.WithEstimate(t.Context(), 100))
	if err := b.Do(box, called); !errors.Is(err, budget.ErrExhausted) || box.Item.Refusal() == nil {
		t.Errorf("err = %v, noted %v", err, box.Item.Refusal())
	}
	func() {
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("recovered %v", p)
			}
		}()
		_ = b.Do(budget.WithEstimate(t.Context(), 50), func(context.Context) error { panic("mine") })
	}()
	equal(t, "spent", spent(t, b), int64(850))
	equal(t, "outstanding", b.Stats().Outstanding, int64(1))
}

// The function form around a client that has the same budget pays once; two
// different budgets both pay.
func TestDoAroundATransport(t *testing.T) {
	t.Parallel()
	day := mustNew(t, budget.Config{Name: "day", Limit: 10_000})
	hour := mustNew(t, budget.Config{Name: "hour", Limit: 10_000})
	rt := budget.NewTransport(always(func() *http.Response { return answer(200, "{}") }), day)
	err := hour.Do(budget.WithEstimate(t.Context(), 100), func(ctx context.Context) error {
		return day.Do(ctx, func(ctx context.Context) error {
			read(t, rt, post(t, ctx, "{}"))
			budget.Used(ctx, 70)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "spent", []int64{spent(t, day), spent(t, hour)}, []int64{70, 70})
	equal(t, "reserved", []int64{day.Stats().Reserved, hour.Stats().Reserved}, []int64{1, 1})
}

func TestPacedTransport(t *testing.T) {
	t.Parallel()
	gemini := string(sample(t, "gemini-429-perminute.http"))
	_, body, _ := strings.Cut(strings.ReplaceAll(gemini, "\r\n", "\n"), "\n\n")
	for name, c := range map[string]struct {
		rt   trip
		held float64
	}{
		"good":   {always(func() *http.Response { return answer(200, "{}") }), 0},
		"header": {always(func() *http.Response { return answer(429, "{}", "Retry-After: 9") }), 9},
		"body":   {always(func() *http.Response { return answer(429, body, "Content-Type: application/json") }), 38},
		"error in a 200": {always(func() *http.Response {
			return answer(200, `{"error":{"message":"Rate limit reached","code":429}}`, "Content-Type: application/json")
		}), 0.2},
		"no answer": {func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := mustPacer(t, budget.PacerConfig{Requests: 600})
				rt := budget.NewPacedTransport(c.rt, p)
				if resp, err := rt.RoundTrip(post(t, t.Context(), "{}")); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				equal(t, "held", p.Stats().Held, c.held)
			})
		})
	}
}

// Tokens are settled when the answer ends, and given back when nothing was
// sent.
func TestPacedTransportTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustPacer(t, budget.PacerConfig{Tokens: 60_000})
		day := mustNew(t, budget.Config{Limit: 100_000})
		rt := budget.NewPacedTransport(budget.NewTransport(always(func() *http.Response {
			return answer(200, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":900,"completion_tokens":100}}`, "Content-Type: application/json")
		}), day), p)
		ctx := budget.WithEstimate(t.Context(), 8000)
		start := time.Now()
		read(t, rt, post(t, ctx, "{}"))
		read(t, rt, post(t, ctx, "{}"))
		equal(t, "after a refund of 7000", time.Since(start), time.Second)

		// The budget inside refuses: the turn is given back.
		mustReserve(t, day, "", 80_000)
		time.Sleep(time.Minute)
		start = time.Now()
		if _, err := rt.RoundTrip(post(t, ctx, "{}")); !errors.Is(err, budget.ErrExhausted) {
			t.Fatalf("err = %v", err)
		}
		equal(t, "next turn", turns(t, p, 1, 8000)[0], 0)
		equal(t, "unsent", p.Stats().Unsent, int64(1))

		// A turn past the deadline closes the body and is noted.
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		box := call.With(soon)
		body := &closes{Reader: strings.NewReader("x")}
		req := post(t, box, "")
		req.Body = body
		if _, err := rt.RoundTrip(req); !errors.Is(err, budget.ErrLate) || body.n.Load() != 1 || box.Item.Refusal() == nil {
			t.Errorf("err = %v, body closed %d times, noted %v", err, body.n.Load(), box.Item.Refusal())
		}
		_ = start
	})
}
