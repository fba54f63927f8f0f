package durable_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// names lists a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	for _, want := range []string{"one", "a longer two", "", "3"} {
		if err := durable.WriteFile(nil, path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := durable.ReadFile(nil, path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(got), want); diff != "" {
			t.Errorf("content (-got +want):\n%s", diff)
		}
	}
	if diff := cmp.Diff(names(t, dir), []string{"state.json"}); diff != "" {
		t.Errorf("directory (-got +want):\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
}

func TestWriteFileFailsWhole(t *testing.T) {
	t.Parallel()
	tests := []struct {
		kind string
		keep int
		err  error
		want string // what the file holds afterwards
	}{
		{"open", 0, syscall.EROFS, "old"},
		{"write", 0, syscall.ENOSPC, "old"},
		{"write", 2, syscall.ENOSPC, "old"},
		{"sync", 0, syscall.EIO, "old"},
		{"rename", 0, syscall.EACCES, "old"},
		// In place, but not yet for certain: the one exception.
		{"syncdir", 0, syscall.EIO, "new text"},
		// No lock for Sweep to see: not worth failing for.
		{"lock", 0, syscall.ENOLCK, "new text"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s keeping %d", tt.kind, tt.keep), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "state")
			if err := durable.WriteFile(nil, path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			faults := &durabletest.Faults{Hook: func(op durabletest.Op) (int, error) {
				if op.Kind == tt.kind {
					return tt.keep, tt.err
				}
				return 0, nil
			}}
			err := durable.WriteFile(faults, path, []byte("new text"), 0o600)
			if wantErr := tt.kind != "lock"; errors.Is(err, tt.err) != wantErr {
				t.Errorf("WriteFile = %v, want %v: %v", err, tt.err, wantErr)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got), tt.want); diff != "" {
				t.Errorf("content (-got +want):\n%s", diff)
			}
			if diff := cmp.Diff(names(t, dir), []string{"state"}); diff != "" {
				t.Errorf("directory (-got +want):\n%s", diff)
			}
		})
	}
}

func TestReplaceLeavesTheDirectorySyncToTheCaller(t *testing.T) {
	t.Parallel()
	syncs := map[string]int{}
	faults := &durabletest.Faults{FS: durabletest.NewDisk(1), Hook: func(op durabletest.Op) (int, error) {
		syncs[op.Kind]++
		return 0, nil
	}}
	for i := range 3 {
		if err := durable.Replace(faults, fmt.Sprintf("out/%d", i), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if syncs["sync"] != 3 || syncs["syncdir"] != 0 {
		t.Errorf("%d file and %d directory syncs, want 3 and 0", syncs["sync"], syncs["syncdir"])
	}
	if err := durable.SyncDir(faults, "out"); err != nil || syncs["syncdir"] != 1 {
		t.Errorf("SyncDir: %v, %d directory syncs, want 1", err, syncs["syncdir"])
	}
}

func TestWriteFileByManyIsNeverTorn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 4 {
				if err := durable.WriteFile(nil, path, numberValue(uint64(w*4+i+1), 8<<w), 0o600); err != nil {
					t.Error(err)
				}
				data, err := durable.ReadFile(nil, path)
				if err == nil {
					_, err = number(data)
				}
				if err != nil {
					t.Error(err)
				}
				if _, err := durable.Sweep(nil, dir); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(names(t, dir), []string{"state"}); diff != "" {
		t.Errorf("directory (-got +want):\n%s", diff)
	}
}

func TestSweepTakesOnlyDeadWritersFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{durable.TempPrefix + "dead", durable.TempPrefix + "alive", "result", ".other-tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, durable.TempPrefix+"fresh"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := durable.OpenLock(nil, filepath.Join(dir, durable.TempPrefix+"alive"))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if err := writer.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, err := durable.Sweep(nil, dir)
	if err != nil || n != 1 {
		t.Errorf("Sweep = %d, %v; want 1", n, err)
	}
	want := []string{durable.TempPrefix + "alive", durable.TempPrefix + "fresh", ".other-tmp", "result"}
	if diff := cmp.Diff(names(t, dir), want); diff != "" {
		t.Errorf("directory (-got +want):\n%s", diff)
	}
	if n, err := durable.Sweep(nil, filepath.Join(dir, "missing")); n != 0 || err != nil {
		t.Errorf("Sweep of a missing directory = %d, %v; want 0, nil", n, err)
	}
}

func TestWriteFileSurvivesKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	last := ""
	for round := range 8 {
		cmd, lines := child(t, "replace", dir)
		for range 1 + round%4 {
			if !lines.Scan() {
				t.Fatalf("round %d: the child wrote nothing: %v", round, lines.Err())
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		last = lines.Text()
		for lines.Scan() { // acknowledged before the kill came
			last = lines.Text()
		}
		_ = cmd.Wait() // says that it was killed
		data, err := os.ReadFile(filepath.Join(dir, "state"))
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(data), "\n")
		if string(data) != strings.Repeat(line+"\n", 2000) {
			t.Fatalf("round %d: torn file of %d bytes", round, len(data))
		}
		var got, acked int
		if _, err := fmt.Sscan(line+" "+last, &got, &acked); err != nil {
			t.Fatal(err)
		}
		if got != acked && got != acked+1 {
			t.Errorf("round %d: the file says %d, acknowledged was %d", round, got, acked)
		}
	}
	// What the killed writers left goes once it is old enough.
	left := 0
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range names(t, dir) {
		if strings.HasPrefix(name, durable.TempPrefix) {
			left++
			if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	n, err := durable.Sweep(nil, dir)
	if err != nil || n != left {
		t.Errorf("Sweep = %d, %v; want %d", n, err, left)
	}
	if diff := cmp.Diff(names(t, dir), []string{"state"}); diff != "" {
		t.Errorf("directory (-got +want):\n%s", diff)
	}
}

func TestRenameIsRetriedForABoundedTime(t *testing.T) {
	t.Parallel()
	busy, final := errors.New("sharing violation"), errors.New("no such file")
	mayPass := func(err error) bool { return errors.Is(err, busy) }
	tests := []struct {
		name      string
		errs      []error // of the tries; nil from there on
		want      error
		wantTries int
	}{
		{"free", nil, nil, 1},
		{"busy twice", []error{busy, busy}, nil, 3},
		{"another error", []error{busy, final}, final, 2},
		{"busy for good", []error{busy, busy, busy, busy, busy, busy, busy, busy, busy, busy, busy}, busy, durable.RenameTries},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			err := durable.RetryRename(func() error {
				tries++
				if tries <= len(tt.errs) {
					return tt.errs[tries-1]
				}
				return nil
			}, mayPass)
			if !errors.Is(err, tt.want) || tries != tt.wantTries {
				t.Errorf("%v after %d tries, want %v after %d", err, tries, tt.want, tt.wantTries)
			}
		})
	}
}
