package signature_test

import (
	"os"
	"testing"

	"github.com/nightfuse/nightfuse/signature/internal/grouping"
)

// labelled reads a file of labelled messages.
func labelled(tb testing.TB, name string) []grouping.Message {
	tb.Helper()
	f, err := os.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	list, err := grouping.Read(f, false)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

// seeds gives one message of each group.
func seeds(tb testing.TB) []string {
	tb.Helper()
	var list []string
	seen := map[string]bool{}
	for _, file := range []string{"testdata/public.tsv", "testdata/go.tsv", "testdata/kinds.tsv", "testdata/shapes.tsv"} {
		for _, m := range labelled(tb, file) {
			if !seen[m.Group] {
				seen[m.Group] = true
				list = append(list, m.Text)
			}
		}
	}
	return list
}
