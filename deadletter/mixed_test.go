package deadletter_test

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// pieces are the lines of a journal's segments, by number from 1.
type pieces [][][]byte

// mixed returns a journal with every kind of line, in several segments that a
// compaction begins.
func mixed(t *testing.T) pieces {
	t.Helper()
	disk := durabletest.NewDisk(1)
	j, err := deadletter.OpenJournalFS(disk, deadletter.StoreConfig{Segment: 4 << 10}, diskDir)
	if err != nil {
		t.Fatal(err)
	}
	claim := func(item string) deadletter.Token {
		c, err := j.Claim(t.Context(), deadletter.ClaimReq{Lease: 24 * time.Hour, Filter: deadletter.Filter{IDs: []string{deadletter.ID("q", item)}}})
		if err != nil || len(c) != 1 {
			t.Fatal(c, err)
		}
		return c[0].Token
	}
	resolve := func(item string, o deadletter.Outcome) {
		if err := j.Resolve(t.Context(), claim(item), o); err != nil {
			t.Fatal(err)
		}
	}
	put(t, j, "purged", "p")
	resolve("purged", deadletter.Outcome{Verb: deadletter.Ack})
	if n, err := j.Purge(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	failure := deadletter.Failure{Status: 400, Attempts: 1, Signature: "1:abcdefabcdef", Err: "other"}
	long := strings.Repeat("payload ", 40) // so that no compaction is worth it
	payloads := map[string]string{"acked": "p", "returned": long, "held": long, "released": long, "quarantined": long, "discarded": "", "twice": long}
	for _, item := range slices.Sorted(maps.Keys(payloads)) {
		put(t, j, item, payloads[item])
	}
	resolve("acked", deadletter.Outcome{Verb: deadletter.Ack})
	resolve("returned", deadletter.Outcome{Verb: deadletter.Return, Failure: failure})
	if err := j.Extend(t.Context(), claim("held"), 48*time.Hour); err != nil {
		t.Fatal(err)
	}
	resolve("released", deadletter.Outcome{Verb: deadletter.Release})
	resolve("quarantined", deadletter.Outcome{Verb: deadletter.Quarantine, Failure: failure, Reason: "in vain"})
	resolve("discarded", deadletter.Outcome{Verb: deadletter.Discard, Reason: "obsolete"})
	put(t, j, "twice", long)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	var p pieces
	for n := range 10 {
		b, err := durable.ReadFile(disk, segment(diskDir, n))
		if err != nil {
			continue // the compaction has removed it, or it never was
		}
		p = append(p, slices.DeleteFunc(bytes.SplitAfter(b, []byte("\n")), func(l []byte) bool { return len(l) == 0 }))
	}
	if len(p) < 2 || !bytes.Contains(p[0][0], []byte(`"op":"base"`)) {
		t.Fatalf("%d segments, the first begins with %.40s", len(p), p[0][0])
	}
	return p
}

// on returns a disk with a journal of the given segments.
func on(t *testing.T, segments ...[]byte) *durabletest.Disk {
	t.Helper()
	disk := durabletest.NewDisk(1)
	for i, b := range segments {
		if err := durable.WriteFile(disk, segment(diskDir, i+1), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return disk
}

// without returns the segments without one line.
func (p pieces) without(seg, line int) [][]byte {
	out := make([][]byte, len(p))
	for i := range p {
		for k, l := range p[i] {
			if i != seg || k != line {
				out[i] = append(out[i], l...)
			}
		}
	}
	return out
}

// tale is all that a journal tells of its letters, resolved ones too, by item.
func tale(t *testing.T, j *deadletter.Journal) map[string]string {
	t.Helper()
	out := map[string]string{}
	all := []deadletter.State{deadletter.Dead, deadletter.Claimed, deadletter.Quarantined, deadletter.Acked, deadletter.Discarded}
	for r, err := range j.List(t.Context(), deadletter.Filter{States: all}) {
		if err != nil {
			t.Fatal(err)
		}
		whole, err := j.Get(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		out[r.ItemID] = fmt.Sprintf("%+v", whole)
	}
	return out
}

// told opens the journal on disk, puts a letter, opens it again, and returns
// what it tells of the others, the same both times, and how much damage.
func told(t *testing.T, disk *durabletest.Disk, where string) (map[string]string, int) {
	t.Helper()
	j := openOn(t, disk)
	first := tale(t, j)
	put(t, j, "new", "n")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openOn(t, disk)
	defer j.Close()
	second := tale(t, j)
	if _, ok := second["new"]; !ok {
		t.Fatalf("%s: the next letter is gone", where)
	}
	delete(second, "new")
	if diff := cmp.Diff(second, first); diff != "" {
		t.Fatalf("%s: opened again: %s", where, diff)
	}
	sum := summary(t, j)
	return first, sum.Corrupt + sum.Torn
}

// Damage anywhere in any kind of line, in any segment, costs at most that
// line: all is as if it had never been written, and it is told.
func TestDamageCostsOneLine(t *testing.T) {
	t.Parallel()
	p := mixed(t)
	whole, damaged := told(t, on(t, p.without(-1, -1)...), "whole")
	if len(whole) != 7 || damaged != 0 {
		t.Fatalf("%d letters, %d places damaged", len(whole), damaged)
	}
	lost := 0
	for seg := range p {
		at := 0
		for k, line := range p[seg] {
			want, _ := told(t, on(t, p.without(seg, k)...), "a line left out")
			if !maps.Equal(want, whole) {
				lost++
			}
			for i := range line {
				if i%(7*cutStep) != k%7 && i != len(line)-1 {
					continue // each of those opens a journal twice
				}
				where := fmt.Sprintf("segment %d, line %d, byte %d (%.30s)", seg+1, k+1, i, line)
				b := p.without(-1, -1)
				b[seg][at+i] ^= 1 << (i % 8)
				want := want
				if i == len(line)-1 {
					want = whole // a line feed that is hit costs nothing
				}
				got, damaged := told(t, on(t, b...), where)
				if diff := cmp.Diff(got, want); diff != "" {
					t.Fatalf("%s: %s", where, diff)
				}
				if damaged == 0 {
					t.Fatalf("%s: the damage is not told", where)
				}
			}
			at += len(line)
		}
	}
	if lost < 12 {
		t.Errorf("only %d lines say anything", lost)
	}
}

// A segment that ends early, the one in use or one before it, costs what is cut
// off; what stands in the next one counts.
func TestSegmentsCutAnywhere(t *testing.T) {
	t.Parallel()
	p := mixed(t)
	for seg := range p {
		all := bytes.Join(p[seg], nil)
		ends := lineEnds(all)
		wants := make([]map[string]string, len(ends)+1)
		for k := range wants {
			b := p.without(-1, -1)
			b[seg] = bytes.Join(p[seg][:k], nil)
			wants[k], _ = told(t, on(t, b...), filepath.Base(segment("", seg+1)))
		}
		for cut := 0; cut <= len(all); cut += 11 * cutStep {
			b := p.without(-1, -1)
			b[seg] = all[:cut]
			whole, _ := slices.BinarySearch(ends, cut+2) // a line feed may be missing
			where := fmt.Sprintf("segment %d of %d cut at %d", seg+1, len(p), cut)
			got, _ := told(t, on(t, b...), where)
			if diff := cmp.Diff(got, wants[whole]); diff != "" {
				t.Fatalf("%s: %s", where, diff)
			}
		}
	}
}
