package deadletter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

func openJournal(t testing.TB, dir string) *deadletter.Journal {
	t.Helper()
	j, err := deadletter.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func put(t testing.TB, s deadletter.Writer, item, payload string) {
	t.Helper()
	if err := s.Put(t.Context(), letter(item, payload)); err != nil {
		t.Fatalf("put %s: %v", item, err)
	}
}

func letter(item, payload string) deadletter.Record {
	return deadletter.Record{
		Queue: "q", ItemID: item, Payload: []byte(payload), Status: 500, Attempts: 4,
		Signature: "1:0123456789ab", SignatureText: "the upstream answered 500", Err: "boom <&> \u2028",
	}
}

// contents returns the payloads in s by item.
func contents(t testing.TB, s deadletter.Reader) map[string]string {
	t.Helper()
	out := map[string]string{}
	for r, err := range s.List(t.Context(), deadletter.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		whole, err := s.Get(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		out[r.ItemID] = string(whole.Payload)
	}
	return out
}

func summary(t testing.TB, s deadletter.Reader) deadletter.Summary {
	t.Helper()
	sum, err := s.Stats(t.Context(), deadletter.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// segment returns the path of a journal's segment.
func segment(dir string, n int) string {
	return filepath.Join(dir, fmt.Sprintf("deadletter-%06d.jsonl", n))
}

// journalOf writes letters into a new journal and returns the bytes of its
// only segment.
func journalOf(t testing.TB, items map[string]string, order ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	j := openJournal(t, dir)
	for _, item := range order {
		put(t, j, item, items[item])
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(segment(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestJournalKeepsWhatWasPut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	put(t, j, "a", "alpha")
	put(t, j, "b", "")
	put(t, j, "a", "alpha")
	want := map[string]string{"a": "alpha", "b": ""}
	if diff := cmp.Diff(contents(t, j), want); diff != "" {
		t.Error(diff)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openJournal(t, dir)
	if diff := cmp.Diff(contents(t, j), want); diff != "" {
		t.Error(diff)
	}
	r, err := j.Get(t.Context(), deadletter.ID("q", "a"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Failures != 2 || r.TotalCalls != 8 || len(r.History) != 2 || r.State != deadletter.Dead {
		t.Errorf("after two failures: %+v", r)
	}
}

// A payload beyond 64 KiB is where line scanners stop (elastic/logstash#10881).
func TestPayloadsOfEverySize(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	want := map[string]string{}
	for _, n := range []int{1, 2, 3, 3000, 32767, 32768, 32769, 65535, 65536, 65537, 1<<20 + 1, 12 << 20} {
		item := fmt.Sprint(n)
		want[item] = string(bytes.Repeat([]byte{0, 255, '\n', '"'}, n/4+1)[:n])
		put(t, j, item, want[item])
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openJournal(t, dir)
	got := contents(t, j)
	if len(got) != len(want) {
		t.Fatalf("%d letters, want %d", len(got), len(want))
	}
	for item, p := range want {
		if got[item] != p {
			t.Errorf("payload of %s bytes came back with %d", item, len(got[item]))
		}
	}
	r := letter("big", strings.Repeat("x", deadletter.DefaultMaxPayload+1))
	if err := j.Put(t.Context(), r); !errors.Is(err, deadletter.ErrTooLarge) {
		t.Errorf("above MaxPayload: %v, want ErrTooLarge", err)
	}
}

func TestJournalFilesAreTheOwnersAlone(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing there")
	}
	dir := filepath.Join(t.TempDir(), "a", "letters")
	j := openJournal(t, dir)
	put(t, j, "a", "alpha")
	for _, p := range []string{dir, segment(dir, 1), filepath.Join(dir, "LOCK")} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", p, info.Mode())
		}
	}

	wide := t.TempDir()
	if err := os.Chmod(wide, 0o755); err != nil {
		t.Fatal(err)
	}
	openJournal(t, wide)
	if info, err := os.Stat(wide); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("an empty directory stays at %v, %v", info.Mode(), err)
	}

	shared := t.TempDir()
	if err := os.Chmod(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shared, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := deadletter.OpenJournal(shared); err == nil {
		t.Error("a directory with other people's files was taken")
	}
}

const diskDir = "letters"

// diskWith returns a disk in memory with a journal of one segment.
func diskWith(t *testing.T, b []byte) *durabletest.Disk {
	t.Helper()
	disk := durabletest.NewDisk(1)
	if err := durable.WriteFile(disk, segment(diskDir, 1), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return disk
}

func openOn(t *testing.T, fsys durable.FS) *deadletter.Journal {
	t.Helper()
	j, err := deadletter.OpenJournalFS(fsys, deadletter.StoreConfig{}, diskDir)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestLinesAreJSON(t *testing.T) {
	t.Parallel()
	whole := journalOf(t, map[string]string{"a": "alpha"}, "a")
	var line struct {
		Op      string
		Rec     deadletter.Record
		Payload []byte
		CRC     string
	}
	if err := json.Unmarshal(whole, &line); err != nil {
		t.Fatal(err)
	}
	if line.Op != "put" || line.Rec.ItemID != "a" || string(line.Payload) != "alpha" || len(line.CRC) != 8 {
		t.Errorf("a line reads as %+v", line)
	}
}

func TestWritersShareSyncs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := range 20 {
				if err := j.Put(t.Context(), letter(fmt.Sprint(w, "-", i), "x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(contents(t, j)); n != 320 {
		t.Errorf("%d letters, want 320", n)
	}
}

func TestReadOnlyJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := (deadletter.StoreConfig{ReadOnly: true}).Journal(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
	w := openJournal(t, dir)
	put(t, w, "a", "alpha")
	r, err := deadletter.StoreConfig{ReadOnly: true}.Journal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	put(t, w, "b", "bravo")
	if diff := cmp.Diff(contents(t, r), map[string]string{"a": "alpha", "b": "bravo"}); diff != "" {
		t.Error(diff)
	}
	if err := r.Put(t.Context(), letter("c", "c")); !errors.Is(err, deadletter.ErrReadOnly) {
		t.Errorf("Put: %v, want ErrReadOnly", err)
	}
	// A tail in the making is left alone.
	f, err := os.OpenFile(segment(dir, 1), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(`{"v":1,"op":"put"`); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(segment(dir, 1))
	if n := len(contents(t, r)); n != 2 {
		t.Errorf("%d letters beside a tail, want 2", n)
	}
	if after, _ := os.ReadFile(segment(dir, 1)); !bytes.Equal(after, before) {
		t.Error("a reader changed the file")
	}
	put(t, w, "c", "charlie")
	if diff := cmp.Diff(contents(t, r), map[string]string{"a": "alpha", "b": "bravo", "c": "charlie"}); diff != "" {
		t.Errorf("after the writer mended the end: %s", diff)
	}
}

func TestJournalSaysWhenItIsClosed(t *testing.T) {
	t.Parallel()
	j := openJournal(t, t.TempDir())
	put(t, j, "a", "alpha")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if err := j.Put(t.Context(), letter("b", "b")); !errors.Is(err, deadletter.ErrClosed) {
		t.Errorf("Put: %v, want ErrClosed", err)
	}
	if _, err := j.Get(t.Context(), "x"); !errors.Is(err, deadletter.ErrClosed) {
		t.Errorf("Get: %v, want ErrClosed", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Put(ended, letter("b", "b")); !errors.Is(err, context.Canceled) {
		t.Errorf("Put with an ended context: %v", err)
	}
}
