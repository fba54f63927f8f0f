package signature_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nightfuse/nightfuse/signature"
	"github.com/nightfuse/nightfuse/signature/internal/grouping"
)

// TestGrouping holds the signatures of labelled messages to their labels.
// testdata/README.md says how the files came about, what they measured before
// any rule was changed for them, and what stays wrong.
func TestGrouping(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file   string
		ga, f1 float64
		merged int // clusters that may be merged, a family each
		codes  int // families of other codes that may be broken
	}{
		{"public.tsv", 0.98, 0.99, 0, 0},
		{"go.tsv", 0.98, 0.99, 0, 0},
		{"kinds.tsv", 0.98, 0.99, 0, 1},
		{"shapes.tsv", 0.98, 0.99, 0, 1},
		{"wordings.tsv", 0.97, 0.97, 1, 0},
		{"statuses.tsv", 0.97, 0.96, 1, 0},
	} {
		r := grouping.Measure(labelled(t, "testdata/"+c.file), signature.Normalize)
		if r.GA < c.ga || r.F1 < c.f1 || len(r.Merged) > c.merged {
			t.Errorf("%s: GA %.3f, F1 %.3f, merged %v; want at least %.2f and %.2f, at most %d merged", c.file, r.GA, r.F1, r.Merged, c.ga, c.f1, c.merged)
		}
		if r.HTTPFamilies-r.HTTPIntact > c.merged || r.CodeFamilies-r.CodesIntact > c.codes || r.DecoysWhole < r.Decoys {
			t.Errorf("%s: intact are %d of %d HTTP families, %d of %d others, %d of %d decoys", c.file,
				r.HTTPIntact, r.HTTPFamilies, r.CodesIntact, r.CodeFamilies, r.DecoysWhole, r.Decoys)
		}
		for _, s := range r.Split {
			t.Logf("%s: split %s: %q", c.file, s.Name, s.Parts)
		}
	}
}

// TestMeasure holds the measure itself to a case counted by hand: of six
// messages three are grouped right, one cluster mixes, one group falls apart.
func TestMeasure(t *testing.T) {
	t.Parallel()
	list := []grouping.Message{
		{Group: "a@429", Text: "1"},
		{Group: "a@429", Text: "1"},
		{Group: "a@500", Text: "2"},
		{Group: "b", Text: "3"},
		{Group: "decoy_c", Text: "3"},
		{Group: "decoy_c", Text: "4"},
	}
	r := grouping.Measure(list, func(s string) string { return s })
	got := []any{r.GA, r.F1, len(r.Merged), len(r.Split), r.HTTPFamilies, r.HTTPIntact, r.Decoys, r.DecoysWhole}
	want := []any{0.5, 0.5, 1, 1, 1, 1, 1, 0}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("(-got +want)\n%s", d)
	}
}

// TestLogs measures grouping of whole log files, whose labels are
// group<TAB>message without escapes. They are not part of this repository:
// SIGNATURE_LOGS names a folder with the labelled samples of logpai/loghub as
// *.tsv.
func TestLogs(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("SIGNATURE_LOGS")
	if dir == "" {
		t.Skip("SIGNATURE_LOGS names no folder of labelled logs")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.tsv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no *.tsv in %s: %v", dir, err)
	}
	sum := 0.0
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		list, err := grouping.Read(f, true)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		r := grouping.Measure(list, signature.Normalize)
		t.Logf("%s: GA %.3f F1 %.3f", filepath.Base(name), r.GA, r.F1)
		sum += r.GA
	}
	if mean := sum / float64(len(files)); mean < 0.78 {
		t.Errorf("mean GA %.3f, want at least 0.78", mean)
	}
}
