package deadletter_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Cut anywhere, as by a crash or a full disk: all whole records and the next
// ones are there (anthropics/claude-code#52387, pmcfadin/cqlite#1390).
func TestJournalCutAtEveryOffset(t *testing.T) {
	t.Parallel()
	items := map[string]string{"a": "alpha", "b": "bravo", "c": "charlie"}
	whole := journalOf(t, items, "a", "b", "c")
	ends := lineEnds(whole)
	for cut := 0; cut <= len(whole); cut += cutStep {
		disk := diskWith(t, whole[:cut])
		want := map[string]string{}
		for i, item := range []string{"a", "b", "c"} {
			if cut >= ends[i]-1 { // the line feed may be missing
				want[item] = items[item]
			}
		}
		for _, next := range []string{"d", "e"} {
			j := openOn(t, disk)
			if diff := cmp.Diff(contents(t, j), want); diff != "" {
				t.Fatalf("cut at %d, before %s: %s", cut, next, diff)
			}
			put(t, j, next, next)
			want[next] = next
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		j := openOn(t, disk)
		if diff := cmp.Diff(contents(t, j), want); diff != "" {
			t.Fatalf("cut at %d: %s", cut, diff)
		}
		if sum := summary(t, j); sum.Corrupt != 0 {
			t.Fatalf("cut at %d: a torn tail counts as damage", cut)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func lineEnds(b []byte) (ends []int) {
	for i, c := range b {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	return ends
}

// One flipped bit costs at most the record it is in, and is told
// (huggingface/OpenEnv#1154).
func TestJournalWithEveryBitFlipped(t *testing.T) {
	t.Parallel()
	items := map[string]string{"a": "alpha", "b": "bravo", "c": "charlie"}
	whole := journalOf(t, items, "a", "b", "c")
	ends := lineEnds(whole)
	for bit := 0; bit < len(whole)*8; bit += bitStep {
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		disk := diskWith(t, b)
		want := map[string]string{"new": "n"}
		start := 0
		feed := false
		for i, item := range []string{"a", "b", "c"} {
			if bit/8 < start || bit/8 >= ends[i]-1 {
				want[item] = items[item] // a line feed that is hit costs nothing
			}
			feed = feed || bit/8 == ends[i]-1
			start = ends[i]
		}
		j := openOn(t, disk)
		put(t, j, "new", "n")
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = openOn(t, disk)
		if diff := cmp.Diff(contents(t, j), want); diff != "" {
			t.Fatalf("bit %d: %s", bit, diff)
		}
		if sum := summary(t, j); sum.Corrupt+sum.Torn == 0 {
			t.Fatalf("bit %d: the damage is not told (line feed: %v)", bit, feed)
		}
		if found, err := j.Verify(t.Context()); err != nil || len(found) == 0 {
			t.Fatalf("bit %d: Verify found %v, %v", bit, found, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A whole last line without its line feed counts, and gets it before the next
// one, also when a reader of this process saw it first.
func TestLastLineWithoutItsFeed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	put(t, j, "a", "alpha")
	line := bytes.TrimSuffix(journalOf(t, map[string]string{"b": "bravo"}, "b"), []byte("\n"))
	f, err := os.OpenFile(segment(dir, 1), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(line); err != nil {
		t.Fatal(err)
	}
	if n := len(contents(t, j)); n != 2 {
		t.Errorf("%d letters, want 2", n)
	}
	put(t, j, "c", "charlie")
	if n := len(contents(t, j)); n != 3 {
		t.Errorf("%d letters, want 3", n)
	}
	b, err := os.ReadFile(segment(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(lineEnds(b)); n != 3 {
		t.Errorf("%d lines, want 3:\n%s", n, b)
	}
}
