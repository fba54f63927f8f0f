package breaker_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// good is an answer that can be used.
const good = `{"choices":[{"message":{"role":"assistant","content":"A fine summary."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`

// trip is a base transport.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f(req)
	if req.Body != nil {
		_ = req.Body.Close()
	}
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}

func answer(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// dyingAnswer is cut off in the middle.
func dyingAnswer() *http.Response {
	resp := answer(200, good)
	resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(good[:20]), brokenReader{}))
	return resp
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

// send makes one request and reads its answer.
func send(t *testing.T, rt http.RoundTripper, url, body string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// roundTrip makes one request and survives what happens.
func roundTrip(t *testing.T, rt http.RoundTripper) {
	t.Helper()
	defer func() { _ = recover() }()
	_, _ = send(t, rt, "https://api.example.com/v1/chat/completions", `{"model":"m"}`)
}

func modelOf(req *http.Request) string {
	body, _ := io.ReadAll(req.Body)
	return modelapi.ParseRequest(req.URL.Path, body).Model
}

// goexit runs f in a goroutine of its own and waits until it has ended.
func goexit(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func exit() { runtime.Goexit() }

// list returns the names in dir that end so, sorted.
func list(t *testing.T, dir, suffix string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	return names
}

func removeAll(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}
