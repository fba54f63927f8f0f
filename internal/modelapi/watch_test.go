package modelapi_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

func TestStreaming(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]bool{
		"text/event-stream": true, "Text/Event-Stream; charset=utf-8": true, "application/x-ndjson": true, "application/jsonl": true,
		"application/stream+json": true, "application/vnd.amazon.eventstream": true,
		"application/json": false, "": false, "text/plain": false,
	} {
		resp := response(200, "Content-Type: "+kind+"\n", "", 0)
		if got := modelapi.Watch(nil, resp, noon).Streaming(); got != want {
			t.Errorf("%q: %v", kind, got)
		}
	}
}

func TestRealServer(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, good)
			_ = z.Close()
		case "/short":
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, good[:30])
		default:
			_, _ = io.WriteString(w, good)
		}
	}))
	t.Cleanup(srv.Close)
	tests := map[string]struct {
		path, accept string
		want         modelapi.Verdict
		err          error
	}{
		"plain":                 {"/", "", modelapi.Verdict{Class: modelapi.OK, HasUsage: true, Usage: modelapi.Usage{Input: 5, Output: 2}, Ended: true}, nil},
		"gzip, undone below us": {"/gzip", "", modelapi.Verdict{Class: modelapi.OK, HasUsage: true, Usage: modelapi.Usage{Input: 5, Output: 2}, Ended: true}, nil},
		"gzip, by the caller":   {"/gzip", "gzip", modelapi.Verdict{Class: modelapi.Unjudged, Ended: true}, nil},
		"cut off":               {"/short", "", modelapi.Verdict{Class: modelapi.Truncated, Err: io.ErrUnexpectedEOF}, io.ErrUnexpectedEOF},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.accept != "" {
				req.Header.Set("Accept-Encoding", tt.accept)
			}
			resp, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			v := modelapi.Watch(nil, resp, noon)
			if _, err := io.ReadAll(resp.Body); err != tt.err {
				t.Errorf("read: %v", err)
			}
			_ = resp.Body.Close()
			tt.want.Status = 200
			if d := cmp.Diff(v.Verdict(), tt.want, equalErrors); d != "" {
				t.Errorf("(-got +want):\n%s", d)
			}
		})
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	resp := response(200, sseType, strings.Repeat("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", 200)+"data: [DONE]\n\n", 13)
	v := modelapi.Watch(attempt(), resp, noon)
	var wg sync.WaitGroup
	var mu sync.Mutex
	told := 0
	for range 4 {
		wg.Go(func() {
			for range 50 {
				_ = v.Verdict()
				_ = v.Head()
				v.OnEnd(func(modelapi.Verdict) { mu.Lock(); told++; mu.Unlock() })
			}
		})
	}
	wg.Go(func() { _, _ = io.Copy(io.Discard, resp.Body) })
	wg.Wait()
	_ = resp.Body.Close()
	if told != 200 {
		t.Errorf("told %d times", told)
	}
}

// What is said of a failed stream whose error has no message does not depend on
// how its bytes came, nor does it show the protocol for a text.
func TestTextOfAFailedStream(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\ndata: more\n\n": "",
		"Too many requests\n": "Too many requests",
	} {
		for _, chunk := range []int{0, 1, 7} {
			if d := watched(t, response(429, sseType, body, chunk), body); d.Text != want {
				t.Errorf("%q in chunks of %d: text %q, want %q", body, chunk, d.Text, want)
			}
		}
	}
}

// Why: upstreams tell whom they do not know, and keys have no common shape.
func TestEchoedCredentials(t *testing.T) {
	t.Parallel()
	resp := response(401, jsonType, `{"error":{"message":"who is my-own-key-of-1999?","code":"my-own-key-of-1999"}}`, 0)
	resp.Request = &http.Request{Method: http.MethodPost, Header: http.Header{"Authorization": {"Bearer my-own-key-of-1999"}}}
	v := modelapi.Watch(nil, resp, noon)
	_, _ = io.Copy(io.Discard, resp.Body)
	if d := v.Verdict(); d.Text != "who is REDACTED?" || d.Code != "REDACTED" {
		t.Errorf("text %q, code %q", d.Text, d.Code)
	}
}
