package signature_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nightfuse/nightfuse/signature"
	"github.com/nightfuse/nightfuse/signature/internal/grouping"
)

// TestGrouping holds the signatures of the labelled messages to their labels.
func TestGrouping(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file   string
		ga, f1 float64
	}{
		{"testdata/public.tsv", 0.98, 0.99},
	} {
		f, err := os.Open(c.file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		list, err := grouping.Read(f, false)
		if err != nil {
			t.Fatal(err)
		}
		r := grouping.Measure(list, signature.Normalize)
		if r.GA < c.ga || r.F1 < c.f1 || len(r.Merged) > 0 {
			t.Errorf("%s: GA %.3f, F1 %.3f, merged %v; want at least %.2f and %.2f, none merged", c.file, r.GA, r.F1, r.Merged, c.ga, c.f1)
		}
		got := []int{r.HTTPIntact, r.CodesIntact, r.DecoysWhole}
		want := []int{r.HTTPFamilies, r.CodeFamilies, r.Decoys}
		if d := cmp.Diff(got, want); d != "" {
			t.Errorf("%s: families intact (-got +want)\n%s", c.file, d)
		}
		for _, s := range r.Split {
			t.Logf("%s: split %s: %q", c.file, s.Name, s.Parts)
		}
	}
}
