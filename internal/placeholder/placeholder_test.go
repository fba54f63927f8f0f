package placeholder_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/internal/placeholder"
)

func TestIs(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/texts.tsv")
	if err != nil {
		t.Fatal(err)
	}
	n := map[string]int{}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		text, err := strconv.Unquote(f[1])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		n[f[0]]++
		if got := placeholder.Is(text); got != (f[0] == "-") {
			t.Errorf("%q: %v", text, got)
		}
		if placeholder.Word(text) != placeholder.Word([]byte(text)) {
			t.Errorf("%q: string and bytes differ", text)
		}
	}
	if n["-"] < 40 || n["+"] < 20 || len(n) != 2 {
		t.Errorf("the table has %v", n)
	}
}

func TestWordDoesNotAllocate(t *testing.T) {
	texts := []string{"N/A", "<p>No summary available.</p>", "N\u200b/A", "Sorts a slice.", "[object Object]"}
	if n := testing.AllocsPerRun(100, func() {
		for _, s := range texts {
			placeholder.Word(s)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What is around a text and cannot be seen makes no difference, nor does being
// quoted as JSON or held by a JSON document.
func FuzzIs(f *testing.F) {
	for _, s := range []string{"", "N/A", "\n A", "<p>", "<", "&nbsp", `{"a":""}`, `{"n":"a"}`, "\ufeff{}", "\xff", "日本", "null", "<nil>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) <= placeholder.Longest-8 {
			want := placeholder.Word(s)
			for _, around := range []string{" " + s + ".", "\u200b" + s + "\n", "<p>" + s + "</p>"} {
				if placeholder.Word(around) != want {
					t.Errorf("%q: %v, and %q: %v", s, want, around, !want)
				}
			}
		}
		if !utf8.ValidString(s) {
			return // JSON would change it
		}
		want := placeholder.Is(s)
		quoted, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range []string{" \n" + s + "\t", "\ufeff" + s, string(quoted), "[" + string(quoted) + "]", `{"a":` + string(quoted) + "}"} {
			if placeholder.Is(form) != want {
				t.Errorf("%q: %v, and %q: %v", s, want, form, !want)
			}
		}
	})
}
