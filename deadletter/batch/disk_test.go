package batch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// Each result is synced before it has its name, and 64 names share one sync of
// the folder.
func TestSyncsOfResults(t *testing.T) {
	t.Parallel()
	var syncs, dirs, renames int
	f := &Folder{dir: "results", fs: &durabletest.Faults{FS: durabletest.NewDisk(1), Hook: func(op durabletest.Op) (int, error) {
		switch op.Kind {
		case "sync":
			syncs++
		case "syncdir":
			dirs++
		case "rename":
			if renames++; syncs != renames {
				t.Errorf("%s got its name before its %d. sync", op.Path, renames)
			}
		}
		return 0, nil
	}}}
	for i := range 3*syncEvery + 8 {
		if err := f.Store(t.Context(), Result{Item: fmt.Sprintf("item-%03d", i), Data: []byte("fine")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{syncs, renames, dirs}, []int{200, 200, 4}); diff != "" {
		t.Errorf("syncs of files, names, syncs of the folder (-got +want):\n%s", diff)
	}
}

// A power cut at any moment: every result that is there is whole, and of those
// that counted as done at most 64 are gone.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		disk := durabletest.NewDisk(seed)
		f := &Folder{dir: "results", fs: disk}
		n := int(seed)*7%300 + 1
		text := strings.Repeat("a result of several sectors ", 60)
		for i := range n {
			if err := f.Store(context.Background(), Result{Item: fmt.Sprintf("item-%03d", i), Data: []byte(text)}); err != nil {
				t.Fatal(err)
			}
		}
		disk.PowerCut()
		gone := 0
		for i := range n {
			r, ok, err := f.Load(context.Background(), fmt.Sprintf("item-%03d", i))
			switch {
			case err != nil:
				t.Fatalf("seed %d: %v", seed, err)
			case !ok:
				gone++
			case string(r.Data) != text:
				t.Errorf("seed %d: half a result passes as one: %.40q", seed, r.Data)
			}
		}
		if gone > n%syncEvery {
			t.Errorf("seed %d: %d of %d results are gone, the folder was synced %d ago", seed, gone, n, n%syncEvery)
		}
	}
}

// A result that could not be stored leaves the old one, on every step that can
// fail.
func TestFailingDisk(t *testing.T) {
	t.Parallel()
	old := Result{Item: "a", Data: []byte("old")}
	for _, kind := range []string{"open", "write", "sync", "rename"} {
		broken := false
		f := &Folder{dir: "results", fs: &durabletest.Faults{FS: durabletest.NewDisk(1), Hook: func(op durabletest.Op) (int, error) {
			if broken && op.Kind == kind && filepath.Dir(op.Path) == "results" {
				return op.Size / 2, fmt.Errorf("no %s", kind)
			}
			return 0, nil
		}}}
		if err := f.Store(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		broken = true
		if err := f.Store(t.Context(), Result{Item: "a", Data: []byte("new")}); err == nil || !strings.Contains(err.Error(), "no "+kind) {
			t.Errorf("%s fails: %v", kind, err)
		}
		broken = false
		if r, ok, err := f.Load(t.Context(), "a"); string(r.Data) != "old" || !ok || err != nil {
			t.Errorf("%s failed: %q, %v, %v", kind, r.Data, ok, err)
		}
	}
}

// A disk that is full has room for names still. Before anything is sent a folder
// shows that it takes a result.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const room = 4 << 10
	disk := durabletest.NewDisk(1)
	err := writable(&durabletest.Faults{FS: disk, Hook: func(op durabletest.Op) (int, error) {
		if op.Kind == "write" && op.Size > room {
			return room, syscall.ENOSPC
		}
		return 0, nil
	}}, "results")
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("with room for names only: %v", err)
	}
	if err := writable(disk, "results"); err != nil {
		t.Errorf("with room: %v", err)
	}
	if left, err := disk.ReadDir("results"); len(left) != 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
