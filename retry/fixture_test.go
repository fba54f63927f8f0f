package retry_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/retry"
)

const samples = "../internal/modelapi/testdata/samples"

// Answers as providers send them, and what is made of them.
func TestProvidersAnswers(t *testing.T) {
	t.Parallel()
	files := sampleFiles(t)
	for _, tc := range []struct {
		file  string
		calls int           // for an upstream that says this for ever
		wait  time.Duration // the floor of the first wait
		ends  error         // what the item ends with; nil = it is done
	}{
		{"openai-429-tpm.http", 4, 1874 * time.Millisecond, retry.ErrExhausted},
		{"openai-429-insufficient-quota.http", 1, 0, retry.ErrFinal},
		{"anthropic-429.http", 4, 14 * time.Second, retry.ErrExhausted},
		{"anthropic-529.http", 4, 0, retry.ErrExhausted},
		{"gemini-429-perday.http", 2, 22 * time.Second, retry.ErrFinal},
		{"gemini-429-perminute.http", 4, 38 * time.Second, retry.ErrExhausted},
		{"bedrock-429.http", 4, 0, retry.ErrExhausted},
		{"groq-429.http", 4, 8 * time.Second, retry.ErrExhausted},
		{"azure-429.http", 4, 25412 * time.Millisecond, retry.ErrExhausted},
		{"openai-chat-200.json", 1, 0, nil},
		{"anthropic-message-200.json", 1, 0, nil},
		{"gemini-200.json", 1, 0, nil},
		{"bedrock-converse-200.json", 1, 0, nil},
		{"cohere-chat-200.json", 1, 0, nil},
		{"gemini-stream-jsonarray.json", 1, 0, nil},
		{"openai-chat-stream-usage.sse", 1, 0, nil},
		{"openai-chat-stream-nousage.sse", 1, 0, nil},
		{"openai-responses-stream.sse", 1, 0, nil},
		{"compat-cumulative-usage-every-chunk.sse", 1, 0, nil},
		{"anthropic-stream.sse", 1, 0, nil},
		{"gemini-stream.sse", 1, 0, nil},
		{"anthropic-stream-overloaded-midway.sse", 1, 0, retry.ErrBody},
		{"openai-chat-200.headers", 1, 0, nil},
		{"anthropic-200.headers", 1, 0, nil},
		{"bedrock-invoke-200.headers", 1, 0, nil},
		{"proxy-503-html.http", 4, 2 * time.Minute, retry.ErrExhausted},
	} {
		delete(files, tc.file)
		data := readSample(t, tc.file)
		synctest.Test(t, func(t *testing.T) {
			// When the answers came.
			time.Sleep(time.Until(time.Date(2026, 11, 29, 15, 0, 0, 0, time.UTC)))
			n := 0
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				n++
				return sample(t, req, tc.file, data), nil
			})
			var w waits
			r := mustNew(t, retry.Config{OnWait: w.add})
			ctx, out := retry.WithOutcome(t.Context())
			resp, err := retry.NewTransport(base, r).RoundTrip(post(t, "http://upstream/", "{}").WithContext(ctx))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			equal(t, tc.file+": calls", n, tc.calls)
			if ds := w.delays(); len(ds) > 0 && (ds[0] < tc.wait || ds[0] > tc.wait+1500*time.Millisecond) {
				t.Errorf("%s: waited %v, want %v or a little more", tc.file, ds[0], tc.wait)
			}
			if tc.ends == nil && (err != nil || out.Err() != nil) || !errors.Is(out.Err(), tc.ends) {
				t.Errorf("%s: %v, outcome %v, want %v", tc.file, err, out.Err(), tc.ends)
			}
		})
	}
	for file := range files {
		t.Errorf("%s: a sample without an expectation", file)
	}
}

func sampleFiles(t *testing.T) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(samples)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]bool)
	for _, e := range entries {
		files[e.Name()] = true
	}
	delete(files, "README.md")
	return files
}

func readSample(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(samples, file))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// bodyOf names the body that a sample of headers goes with.
var bodyOf = map[string]string{
	"openai-chat-200.headers":    "openai-chat-200.json",
	"anthropic-200.headers":      "anthropic-message-200.json",
	"bedrock-invoke-200.headers": "anthropic-message-200.json",
}

// sample makes a response of a fixture: *.http is a whole one, *.headers what
// stands before a body.
func sample(t *testing.T, req *http.Request, file string, data []byte) *http.Response {
	t.Helper()
	switch filepath.Ext(file) {
	case ".http", ".headers":
		if name := bodyOf[file]; name != "" {
			data = append(append(bytes.TrimSpace(data), "\n\n"...), readSample(t, name)...)
		}
		head, body, _ := bytes.Cut(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\n\n"))
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(append(append(head, "\n\n"...), body...))), req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body = io.NopCloser(bytes.NewReader(body))
		return resp
	case ".sse":
		return respond(req, step{status: 200, header: "Content-Type: text/event-stream", body: string(data)}, func() {})
	}
	return respond(req, step{status: 200, header: "Content-Type: application/json", body: string(data)}, func() {})
}
