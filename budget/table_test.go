package budget

import (
	"bytes"
	"testing"
	"time"
)

// Whatever a file holds is either refused or read as what it says: written
// again it is the same counters, none negative or beyond the range.
func FuzzParseTable(f *testing.F) {
	for _, seed := range []string{
		"", "budget|2026-05-04\t12\t99999999999\n", "a\t1\t99999999999\nb c\t9007199254740992\t99999999999\n",
		"a\t1\t1\n", "a\t-1\t5\n", "null", "a\t1\t5", "\t\t\n", "a\t1\t5\na\t2\t99999999999\n",
	} {
		f.Add([]byte(seed))
	}
	now := time.Unix(1000, 0)
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := parseTable(data)
		if err != nil {
			return
		}
		text := first.text(now)
		second, err := parseTable(text)
		if err != nil {
			t.Fatalf("%q is written as %q, which is refused: %v", data, text, err)
		}
		if !bytes.Equal(second.text(now), text) {
			t.Fatalf("%q is written as %q and then as %q", data, text, second.text(now))
		}
		for k, v := range first.counters {
			if v < 0 || v > MaxAmount {
				t.Fatalf("%q: counter %q is %d", data, k, v)
			}
			if first.expires[k] > now.Unix() && second.counters[k] != v {
				t.Fatalf("%q: counter %q is %d and then %d", data, k, v, second.counters[k])
			}
		}
	})
}
