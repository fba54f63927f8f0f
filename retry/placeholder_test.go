package retry_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/retry"
)

// An answer's text gets the verdict that the same text gets as a result.
func TestPlaceholderTable(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../internal/placeholder/testdata/texts.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		text, err := strconv.Unquote(f[1])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		content, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		sc := newScript(step{
			status: 200, header: "Content-Type: application/json",
			body: `{"choices":[{"finish_reason":"stop","message":{"content":` + string(content) + `}}]}`,
		})
		resp, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
		if err == nil {
			_ = resp.Body.Close()
		}
		if refused := err != nil; refused != (f[0] == "-") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
