package chain_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/retry"
)

// mediaTypes are what an upstream may call its answer.
var mediaTypes = []string{"application/json", "text/event-stream", "text/html; charset=iso-8859-1", "application/x-ndjson", "text/plain", ""}

// FuzzAnswers: whatever an upstream answers, the chain makes one call, passes the
// bytes on as they came, leaves no reservation open, and keeps a letter exactly
// where the item has failed.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`), uint16(200), uint8(0), "", false)
	f.Add([]byte(`{"choices":[{"message":{"content":"{\"text\":\"n/a\"}"}}]}`), uint16(200), uint8(0), "", false)
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n"), uint16(200), uint8(1), "", true)
	f.Add([]byte("<html><!-- \xe9 --><title>"), uint16(503), uint8(2), "Sun, 29 Nov 2026 15:02:00 GMT", false)
	f.Add([]byte(`{"error":{"type":"rate_limit","message":"Please try again in 20s","code":"429"}}`), uint16(429), uint8(0), "20", true)
	f.Add([]byte("Amount 1.5 at https://u:p@h/x?key=v req_0123456789abcdef"), uint16(400), uint8(4), "\u023a", false)
	f.Fuzz(func(t *testing.T, data []byte, status uint16, media uint8, wait string, slow bool) {
		code := int(status)
		if code < 200 || code > 599 {
			code = 200 + code%400
		}
		calls, closed := 0, 0
		base := upstream(func(req *http.Request) (*http.Response, error) {
			calls++
			body := io.Reader(bytes.NewReader(data))
			if slow {
				body = iotest.OneByteReader(body)
			}
			return &http.Response{
				StatusCode: code, ContentLength: -1, Request: req,
				Header: http.Header{
					"Content-Type": {mediaTypes[int(media)%len(mediaTypes)]}, "Retry-After": {wait},
					"X-Ratelimit-" + wait + "-Remaining": {"0"}, "X-Ratelimit-" + wait + "-Reset": {wait},
				},
				Body: struct {
					io.Reader
					io.Closer
				}{body, closer(func() { closed++ })},
			}, nil
		})
		day, err := budget.New(budget.Config{Limit: budget.MaxAmount})
		must(t, day, err)
		store := deadletter.NewMemory()
		letters, err := deadletter.New(deadletter.Config{Name: "q", Store: store})
		must(t, letters, err)
		rt := guarded(t, budget.NewTransport(base, day))
		rt = deadletter.NewTransport(retry.NewTransport(paced(t, rt), once(t)), letters)
		req, err := http.NewRequestWithContext(deadletter.WithItem(t.Context(), "item"), http.MethodPost,
			"http://model.test/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[]}`))
		must(t, req, err)
		resp, err := rt.RoundTrip(req)
		if (resp == nil) == (err == nil) {
			t.Fatal(resp, err)
		}
		failed := err != nil || resp.StatusCode >= 400
		if err == nil {
			got, broke := io.ReadAll(resp.Body)
			if !bytes.HasPrefix(data, got) || broke == nil && len(got) < len(data) {
				t.Errorf("%q became %q, %v", data, got, broke)
			}
			failed = failed || broke != nil
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		if calls != 1 || closed == 0 {
			t.Errorf("%d calls, closed %d times", calls, closed)
		}
		if s := day.Stats(); s.Outstanding != 0 || s.EndedTwice != 0 || s.HookPanics != 0 || s.Settled+s.Cancelled != 1 {
			t.Errorf("%+v", s)
		}
		kept := 0
		for r, err := range store.List(t.Context(), deadletter.Filter{}) {
			if err != nil || r.ItemID != "item" || r.Signature == "" || r.PayloadSize == 0 {
				t.Errorf("%v: %+v", err, r)
			}
			kept++
		}
		if failed != (kept == 1) {
			t.Errorf("failed: %v (%v), letters: %d", failed, err, kept)
		}
	})
}

type closer func()

func (c closer) Close() error { c(); return nil }
