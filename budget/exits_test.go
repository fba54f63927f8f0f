package budget_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

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
