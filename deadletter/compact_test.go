package deadletter_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// ackAll claims and acks every letter.
func ackAll(t testing.TB, s deadletter.Claimer) (n int) {
	t.Helper()
	for {
		claims, err := s.Claim(t.Context(), deadletter.ClaimReq{N: 50})
		if err != nil {
			t.Fatal(err)
		}
		if len(claims) == 0 {
			return n
		}
		for _, c := range claims {
			if err := s.Resolve(t.Context(), c.Token, deadletter.Outcome{Verb: deadletter.Ack}); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
}

// A journal whose letters come and go does not grow for ever.
func TestJournalCompactsItself(t *testing.T) {
	t.Parallel()
	j, err := deadletter.OpenJournalFS(durabletest.NewDisk(1), deadletter.StoreConfig{Segment: 64 << 10}, diskDir)
	if err != nil {
		t.Fatal(err)
	}
	put(t, j, "stays", "p")
	if c, err := j.Claim(t.Context(), deadletter.ClaimReq{By: "somebody"}); err != nil || len(c) != 1 {
		t.Fatal(c, err)
	}
	most := int64(0)
	for range 20 {
		fill(t, j, 20)
		if n := ackAll(t, j); n != 20 {
			t.Fatalf("%d letters acked, want 20", n)
		}
		most = max(most, summary(t, j).Disk)
	}
	if most > 100<<10 {
		t.Errorf("400 letters that are done take %d bytes", most)
	}
	if r, err := j.Get(t.Context(), deadletter.ID("q", "stays")); err != nil || r.State != deadletter.Claimed || r.ClaimedBy != "somebody" || string(r.Payload) != "p" {
		t.Errorf("a claimed letter came through as %+v, %v", r, err)
	}
}

// What cannot be read any more is kept aside when its segment is compacted.
func TestCompactionKeepsDamagedBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := journalOf(t, map[string]string{"a": "alpha", "b": "bravo", "c": "charlie"}, "a", "b", "c")
	whole[lineEnds(whole)[0]+20] ^= 1
	if err := os.WriteFile(segment(dir, 1), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, dir)
	found, err := j.Verify(t.Context())
	if err != nil || len(found) != 1 || found[0].File != filepath.Base(segment(dir, 1)) || found[0].Line != 2 {
		t.Errorf("Verify: %v, %v; want line 2", found, err)
	}
	if err := j.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(contents(t, j), map[string]string{"a": "alpha", "c": "charlie"}); diff != "" {
		t.Error(diff)
	}
	kept, err := os.ReadFile(segment(dir, 1) + ".damaged")
	if err != nil || !bytes.Equal(kept, whole) {
		t.Errorf("the damaged segment is gone: %v", err)
	}
	if found, err = j.Verify(t.Context()); err != nil || len(found) != 1 || !strings.HasSuffix(found[0].File, ".damaged") {
		t.Errorf("Verify: %v, %v; want the segment set aside", found, err)
	}
}

// A compaction that was cut off after its rename, or could not remove the old
// segment (as on Windows while it is being read): nothing comes back.
func TestOldSegmentsDoNotComeBack(t *testing.T) {
	t.Parallel()
	disk := durabletest.NewDisk(1)
	fsys := &durabletest.Faults{FS: disk, Hook: func(op durabletest.Op) (int, error) {
		if op.Kind == "remove" {
			return 0, os.ErrPermission
		}
		return 0, nil
	}}
	j := openOn(t, fsys)
	put(t, j, "acked", "p")
	ackAll(t, j)
	put(t, j, "dead", "p")
	if err := j.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"dead": "p"}
	if diff := cmp.Diff(contents(t, j), want); diff != "" {
		t.Error(diff)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Stat(segment(diskDir, 1)); err != nil {
		t.Fatalf("the old segment is not there: %v", err)
	}
	j = openOn(t, disk)
	if diff := cmp.Diff(contents(t, j), want); diff != "" {
		t.Error(diff)
	}
	if _, err := disk.Stat(segment(diskDir, 1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old segment was not removed: %v", err)
	}
}

// A line of a later version is whole: it is no damage, and nothing here knows
// what it means.
func TestLaterVersionIsRefused(t *testing.T) {
	t.Parallel()
	for _, line := range []string{`{"v":2,"op":"put","id":"x"`, `{"v":1,"op":"merge","id":"x"`} {
		b := deadletter.AppendCRC([]byte(line))
		disk := diskWith(t, b)
		if _, err := deadletter.OpenJournalFS(disk, deadletter.StoreConfig{}, diskDir); err == nil || !strings.Contains(err.Error(), "later version") {
			t.Errorf("%s: %v", line, err)
		}
		if now, err := durable.ReadFile(disk, segment(diskDir, 1)); err != nil || !bytes.Equal(now, b) {
			t.Errorf("%s: the file was changed: %q, %v", line, now, err)
		}
	}
}

// Several users of one directory, each seeing what the others do, while it is
// compacted under them.
func TestManyUsersOfOneDirectory(t *testing.T) {
	t.Parallel()
	disk := durabletest.NewDisk(1)
	open := func() *deadletter.Journal {
		j, err := deadletter.OpenJournalFS(disk, deadletter.StoreConfig{Segment: 16 << 10}, diskDir)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	const users, letters = 3, 40
	var acked atomic.Int64
	var wg, writing sync.WaitGroup
	var done atomic.Bool
	for u := range users {
		j := open()
		writing.Add(1)
		wg.Go(func() {
			defer writing.Done()
			for i := range letters {
				if err := j.Put(t.Context(), letter(fmt.Sprint(u, "-", i), "payload")); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for last := false; ; last = done.Load() {
				claims, err := j.Claim(t.Context(), deadletter.ClaimReq{N: 3})
				if err != nil {
					t.Error(err)
					return
				}
				if len(claims) == 0 && last {
					return
				}
				for _, c := range claims {
					if string(c.Record.Payload) != "payload" {
						t.Errorf("payload %q", c.Record.Payload)
					}
					if err := j.Resolve(t.Context(), c.Token, deadletter.Outcome{Verb: deadletter.Ack}); err != nil {
						t.Error(err)
					}
					acked.Add(1)
				}
			}
		})
		wg.Go(func() {
			for i := 0; !done.Load(); i++ {
				for _, err := range j.List(t.Context(), deadletter.Filter{}) {
					if err != nil {
						t.Errorf("list: %v", err)
					}
				}
				if i%20 == 19 {
					if err := j.Compact(t.Context()); err != nil {
						t.Errorf("compact: %v", err)
					}
				}
			}
		})
	}
	writing.Wait()
	done.Store(true)
	wg.Wait()
	if acked.Load() != users*letters {
		t.Errorf("%d letters acked, want %d", acked.Load(), users*letters)
	}
	j := open()
	if sum := summary(t, j); sum.Letters(deadletter.Dead, deadletter.Claimed) != 0 || sum.Corrupt+sum.Torn != 0 {
		t.Errorf("left over: %+v", sum)
	}
}
