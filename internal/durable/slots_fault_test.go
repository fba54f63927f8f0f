package durable_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// Damage that comes while the slots are open.
func TestSlotsDamagedWhileOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	s := open(t, nil, path)
	set(t, s, "x")
	for i := range 2 {
		if err := os.Truncate(fmt.Sprintf("%s.%d", path, i), 3); err != nil {
			t.Fatal(err)
		}
	}
	_, seqErr := s.Seq()
	_, _, readErr := s.Read(t.Context())
	updateErr := s.Update(t.Context(), func([]byte) ([]byte, error) { return []byte("x"), nil })
	for _, err := range []error{seqErr, readErr, updateErr} {
		if !errors.Is(err, durable.ErrDamaged) || !strings.Contains(fmt.Sprint(err), "are kept") {
			t.Errorf("%v, want ErrDamaged with a hint", err)
		}
	}
}

// The rule of Slots, seen from outside: how many writes and syncs an update
// takes.
func TestSlotsRewriteWhatTheyDidNotSync(t *testing.T) {
	t.Parallel()
	disk := durabletest.NewDisk(1)
	type count struct{ Write, Sync int }
	var got count
	var fail string
	faults := &durabletest.Faults{FS: disk, Hook: func(op durabletest.Op) (int, error) {
		switch op.Kind {
		case "write":
			got.Write++
		case "sync":
			got.Sync++
		}
		if op.Kind == fail {
			fail = ""
			return 3, syscall.EIO
		}
		return 0, nil
	}}
	s, other := open(t, faults, "state"), open(t, disk, "state")
	steps := []struct {
		name string
		by   *durable.Slots
		fail string
		want count
	}{
		{"after opening", s, "", count{2, 2}},
		{"after its own", s, "", count{1, 1}},
		{"another process", other, "", count{0, 0}}, // not counted
		{"after another process", s, "", count{2, 2}},
		{"after its own again", s, "", count{1, 1}},
		{"its sync fails", s, "sync", count{1, 1}},
		{"after its failed sync", s, "", count{2, 2}},
		{"its write fails", s, "write", count{1, 0}},
		{"after its failed write", s, "", count{2, 2}},
		{"at rest", s, "", count{1, 1}},
	}
	for i, step := range steps {
		got, fail = count{}, step.fail
		_, err := increment(t.Context(), step.by, 8*i)
		if (err != nil) != (step.fail != "") || (err != nil && !errors.Is(err, syscall.EIO)) {
			t.Errorf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(got, step.want); diff != "" {
			t.Errorf("%s: writes and syncs (-got +want):\n%s", step.name, diff)
		}
	}
}

func TestOpenSlotsPassesErrorsOn(t *testing.T) {
	t.Parallel()
	if _, err := durable.OpenSlots(t.Context(), nil, filepath.Join(t.TempDir(), "missing", "state")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a missing directory: %v, want not-exist", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := durable.OpenSlots(ctx, durabletest.NewDisk(1), "state"); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v, want canceled", err)
	}
	for _, kind := range []string{"open", "stat", "lock", "write", "sync", "rename", "syncdir", "read"} {
		why := errors.New(kind + " fails")
		disk := durabletest.NewDisk(1)
		faults := &durabletest.Faults{FS: disk, Hook: func(op durabletest.Op) (int, error) {
			if op.Kind == kind && (kind != "lock" || strings.HasSuffix(op.Path, ".lock")) {
				return 1, why
			}
			return 0, nil
		}}
		if _, err := durable.OpenSlots(t.Context(), faults, "state"); !errors.Is(err, why) {
			t.Errorf("OpenSlots = %v, want %v", err, why)
		}
		// Nothing of the failure stays: the disk is as good as new.
		if _, err := increment(t.Context(), open(t, disk, "state"), 0); err != nil {
			t.Errorf("after %v: %v", why, err)
		}
	}
}
