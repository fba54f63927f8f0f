package budget_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/nightfuse/nightfuse/budget"
)

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

// texts finds where an answer's own text begins.
var texts = regexp.MustCompile(`"(content|text|delta)"\s*:\s*"`)

// fake is a usage in a text, in every form in which one might be taken for the
// answer's own.
const fake = `${0}\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":7,\"input_tokens\":7,\"output_tokens\":7} ` +
	`\"}]},\"usageMetadata\":{\"promptTokenCount\":7,\"totalTokenCount\":7} \\n\\ndata: {\"usage\":{\"input_tokens\":7}}\\n\\n\u0022usage\u0022:7 `

// Every provider's usage is read as the answer passes, whatever the size of the
// reads and whatever its text says; where there is none, or only a part, the
// estimate stays.
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
		{"cohere-chat-200.json", "application/json", 1541},
	} {
		plain := sample(t, c.file)
		faked := texts.ReplaceAll(plain, []byte(fake))
		if bytes.Equal(plain, faked) {
			t.Errorf("%s has no text to put a usage into", c.file)
		}
		for _, body := range [][]byte{plain, faked} {
			for _, n := range []int{1, 7, 4096, 1 << 20} {
				what := fmt.Sprintf("%s, %d bytes in reads of %d", c.file, len(body), n)
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
					t.Errorf("%s: the caller saw other bytes (%v)", what, err)
				}
				// Before anybody closes: a program may exit at the end of the answer.
				equal(t, what, spent(t, b), c.want)
				_ = resp.Body.Close()
				st := b.Stats()
				equal(t, what+", settled", []int64{st.Settled, st.Outstanding, st.EndedTwice}, []int64{1, 0, 0})
				if noUsage := c.want == estimated && c.file != "anthropic-stream-overloaded-midway.sse"; (st.NoUsage == 1) != noUsage {
					t.Errorf("%s: counted %d answers without usage", what, st.NoUsage)
				}
			}
		}
	}
}
