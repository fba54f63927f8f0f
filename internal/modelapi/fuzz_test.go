package modelapi_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

var fuzzHeaders = []string{jsonType, sseType, ndjsonType, "Content-Type: text/plain\n"}

// FuzzWatch: whatever comes passes unchanged, nothing panics, and the verdict
// does not depend on how the bytes were cut.
func FuzzWatch(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "samples", "*.*"))
	if err != nil || len(files) == 0 {
		f.Fatal(err, len(files))
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		kind := uint8(0)
		if filepath.Ext(name) == ".sse" {
			kind = 1
		}
		f.Add(data, kind, uint16(200), uint16(3))
		f.Add(data, kind, uint16(429), uint16(11))
	}
	f.Fuzz(func(t *testing.T, data []byte, kind uint8, status, cut uint16) {
		code := 100 + int(status)%500
		header := fuzzHeaders[int(kind)%len(fuzzHeaders)]
		read := func(chunk int) modelapi.Verdict {
			resp := response(code, header, string(data), chunk)
			v := modelapi.Watch(nil, resp, noon)
			if err := iotest.TestReader(resp.Body, data); err != nil && code != 101 && code != 204 && code != 304 && len(data) > 0 {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			d := v.Verdict()
			if d.Usage.Input < 0 || d.Usage.Output < 0 || d.Wait < 0 || len(d.Text) > 512 || len(d.Code) > 128 {
				t.Errorf("out of bounds: %+v", d)
			}
			return d
		}
		want := read(0)
		for _, chunk := range []int{1, 2, int(cut)%64 + 1} {
			if d := cmp.Diff(read(chunk), want, equalErrors); d != "" {
				t.Errorf("in chunks of %d (-got +whole):\n%s", chunk, d)
			}
		}
	})
}

// FuzzUsage: a usage is found where encoding/json finds it, and nowhere else.
func FuzzUsage(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"a":"\"usage\":{\"prompt_tokens\":1}","usage":{"prompt_tokens":3,"completion_tokens":4}}`))
	f.Add([]byte(`{"usage":{"prompt_tokens":3,"completion_tokens":4},"usage":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := modelapi.ParseUsage(nil, data)
		// Only the plainest shape is compared, and names as they are written:
		// encoding/json folds case and takes the last of two.
		var doc map[string]json.RawMessage
		if json.Unmarshal(data, &doc) != nil || len(doc) != 1 || doc["usage"] == nil {
			return
		}
		var usage map[string]json.RawMessage
		if json.Unmarshal(doc["usage"], &usage) != nil || len(usage) != 2 || usage["prompt_tokens"] == nil || usage["completion_tokens"] == nil {
			return
		}
		var in, out uint32
		if json.Unmarshal(usage["prompt_tokens"], &in) != nil || json.Unmarshal(usage["completion_tokens"], &out) != nil || in == 0 ||
			string(usage["prompt_tokens"]) == "null" || string(usage["completion_tokens"]) == "null" {
			return
		}
		if want := (modelapi.Usage{Input: int64(in), Output: int64(out)}); len(data) < 100 && countQuotes(data) == 6 && (!ok || got != want) {
			t.Errorf("%s: %+v, %v, want %+v", data, got, ok, want)
		}
	})
}

// countQuotes keeps documents with a key twice, or with escapes in a key, out
// of the comparison.
func countQuotes(data []byte) int {
	n := 0
	for _, c := range data {
		switch c {
		case '"':
			n++
		case '\\':
			return -1
		}
	}
	return n
}
