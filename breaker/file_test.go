package breaker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// Every step of a write fails once: no good call becomes an error, the breaker
// trips all the same, the fault is counted and reported once, and the trip
// reaches the file when the disk works again.
func TestFileFaults(t *testing.T) {
	t.Parallel()
	fails := func(kind string, err error) func(durabletest.Op) (int, error) {
		return func(op durabletest.Op) (int, error) {
			if op.Kind == kind {
				return 3, err
			}
			return 0, nil
		}
	}
	for name, hook := range map[string]func(durabletest.Op) (int, error){
		"disk full":           fails("write", syscall.ENOSPC),
		"fsync":               fails("sync", syscall.EIO),
		"rename":              fails("rename", syscall.EACCES),
		"directory sync":      fails("syncdir", syscall.EIO),
		"read":                fails("read", syscall.EIO),
		"read-only directory": fails("open", syscall.EROFS),
		"locks":               fails("lock", syscall.ENOLCK),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			clk := newClock()
			cfg := plain(clk)
			cfg.Store = newFile(t, dir)
			allow(t, newBreaker(t, cfg)).Failure(errUp) // there is a record

			var on atomic.Bool
			faults := &durabletest.Faults{Hook: func(op durabletest.Op) (int, error) {
				if on.Load() {
					return hook(op)
				}
				return 0, nil
			}}
			store, err := breaker.FileOn(faults, dir)
			if err != nil {
				t.Fatal(err)
			}
			var reports []error
			cfg.Store = store
			cfg.OnChange = func(c breaker.Change) {
				if c.Err != nil {
					reports = append(reports, c.Err)
				}
			}
			b := newBreaker(t, cfg)
			on.Store(true)
			fail(t, b, 1)
			if err := b.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
				t.Errorf("a good call became %v", err)
			}
			fail(t, b, 3)
			refusal(t, b)
			if s := b.Stats(); s.StoreErrors == 0 || len(reports) != 1 {
				t.Errorf("%d store errors, reports %v; want some and one", s.StoreErrors, reports)
			}
			on.Store(false)
			clk.Add(5 * time.Second)
			refusal(t, b)
			cfg.Store, cfg.OnChange = newFile(t, dir), nil
			refusal(t, newBreaker(t, cfg))
		})
	}
}

// A lock that another process holds is a store that does not answer.
func TestFileLockHeld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := plain(newClock())
	cfg.Store, cfg.StoreTimeout = newFile(t, dir), 50*time.Millisecond
	b := newBreaker(t, cfg)
	other, err := durable.OpenLock(nil, filepath.Join(dir, "up.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	fail(t, b, 3)
	refusal(t, b)
	err = b.Trip(t.Context(), "by hand")
	var store *breaker.StoreError
	if !errors.As(err, &store) {
		t.Errorf("Trip = %v, want a StoreError", err)
	}
	if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// Files that were deleted under a running program are made again.
func TestDeletedFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	clk := newClock()
	cfg := plain(clk)
	cfg.Store = newFile(t, dir)
	b := newBreaker(t, cfg)
	allow(t, b).Failure(errUp)
	removeAll(t, dir)
	fail(t, b, 3)
	cfg.Store = newFile(t, dir)
	again := newBreaker(t, cfg)
	refusal(t, again)
	// And both exclude each other again.
	clk.Add(10 * time.Second)
	if got := race(t, 20, b, again); got != 1 {
		t.Errorf("%d probes, want 1", got)
	}
}

func TestNamesOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := plain(newClock())
	cfg.Store = newFile(t, dir)
	for _, name := range []string{"api.x.com", "API.x.com", "a/b:c", strings.Repeat("Q", 150)} {
		cfg.Name = name
		fail(t, newBreaker(t, cfg), 1)
	}
	got := list(t, dir, ".json")
	if len(got) != 4 || len(got[1]) > 210 {
		t.Fatalf("files: %q, want four with short names", got)
	}
	want := []string{"%41%50%49%2ex%2ecom.json", got[1], "a%2fb%3ac.json", "api%2ex%2ecom.json"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("files (-got +want):\n%s", diff)
	}
}

// Killed in every single step of the file system in turn: the next process
// finds one of the states that the life before it went through, never damage,
// and never an older one than was there when a call was let out.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	type seen struct {
		State         breaker.State
		Streak, Trips int
	}
	state := func(s breaker.Stats) seen { return seen{s.State, s.Streak, int(s.TripsTotal)} }
	life := func(clk *clock.Mock, b *breaker.Breaker, after func()) {
		for range 3 {
			if p, err := b.Allow(t.Context()); err == nil {
				p.Failure(errUp)
				after()
			}
		}
		clk.Add(10 * time.Second)
		p, err := b.Allow(t.Context())
		after()
		if err == nil {
			p.Success()
			after()
		}
	}
	// In a bubble the naps of the mock cost nothing.
	synctest.Test(t, func(t *testing.T) {
		clk := newClock()
		cfg := plain(clk)
		b := newBreaker(t, cfg)
		order := []seen{{}}
		life(clk, b, func() { order = append(order, state(b.Stats())) })

		for kill := 0; ; kill++ {
			dir := filepath.Join(t.TempDir(), "state")
			steps := 0
			store, err := breaker.FileOn(&durabletest.Faults{Hook: func(op durabletest.Op) (int, error) {
				if steps++; steps == kill {
					return durabletest.KillNow(op.Size / 2)
				}
				return 0, nil
			}}, dir)
			if err != nil && kill != 1 {
				t.Fatal(err)
			}
			if err != nil {
				continue // killed before there was a folder
			}
			clk := newClock()
			cfg := plain(clk)
			cfg.Store = store
			b := newBreaker(t, cfg)
			written := 0 // transitions known to be in the file
			life(clk, b, func() {
				if kill == 0 || steps < kill {
					written++
				}
			})
			cfg.Store = newFile(t, dir)
			got := newBreaker(t, cfg).Stats()
			if i := slices.Index(order, state(got)); got.Damaged != 0 || got.StoreErrors != 0 || i < written || i > written+1 {
				t.Fatalf("killed in step %d, after %d changes: found %+v", kill, written, state(got))
			}
			if kill > steps {
				break // the whole life passed
			}
		}
	})
}

// Opening the folder removes what killed writers have left in it, once it is
// old enough not to be in use.
func TestLeftoversAreSwept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, durable.TempPrefix+"OLD")
	if err := os.WriteFile(old, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(old, start, start); err != nil {
		t.Fatal(err)
	}
	newFile(t, dir)
	if got := list(t, dir, ""); len(got) != 0 {
		t.Errorf("files left: %q", got)
	}
}

func TestFileNeedsAFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, filepath.Join(file, "below")} {
		if _, err := breaker.File(dir); err == nil {
			t.Errorf("File(%q) says nothing", dir)
		}
	}
}
