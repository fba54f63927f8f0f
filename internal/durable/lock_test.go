package durable_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

func TestTryLockNamesTheHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "LOCK")
	held, err := durable.TryLock(nil, path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = durable.TryLock(nil, path)
	var locked *durable.LockedError
	if !errors.Is(err, durable.ErrLocked) || !errors.As(err, &locked) {
		t.Fatalf("second TryLock: %v, want a LockedError", err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if locked.Holder.Host != host || locked.Holder.PID != os.Getpid() || locked.Holder.Start.IsZero() {
		t.Errorf("holder %+v, want this process on %s", locked.Holder, host)
	}
	for _, part := range []string{path, host, "pid ", "since "} {
		if !strings.Contains(locked.Error(), part) {
			t.Errorf("text %q does not say %q", locked, part)
		}
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := durable.TryLock(nil, path)
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := again.Unlock(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || len(text) != 0 {
		t.Errorf("a free lock file says %q, %v; want an empty file that is still there", text, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestLockEndsWithItsContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "LOCK")
	held, err := durable.TryLock(nil, path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	waiter, err := durable.OpenLock(nil, path)
	if err != nil {
		t.Fatal(err)
	}

	why := errors.New("shutting down")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() { done <- waiter.Lock(ctx) }()
	cancel(why)
	err = <-done
	if !errors.Is(err, why) {
		t.Errorf("Lock with an ended context: %v, want its cause", err)
	}
	if err := waiter.Lock(ctx); !errors.Is(err, why) || errors.Is(err, durable.ErrLocked) {
		t.Errorf("Lock with a context that ended before: %v, want only its cause", err)
	}
	// The refused waiter left nothing behind.
	if err := held.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := waiter.Lock(t.Context()); err != nil {
		t.Errorf("Lock of a free file: %v", err)
	}
	if err := errors.Join(waiter.Unlock(), waiter.Close()); err != nil {
		t.Error(err)
	}
}

// A context that ends during the wait, not before it, gives ErrLocked.
func TestLockWaitIsRefused(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	faults := &durabletest.Faults{FS: durabletest.NewDisk(1), Hook: func(op durabletest.Op) (int, error) {
		if op.Kind == "lock" {
			if looks++; looks == 5 {
				cancel()
			}
		}
		return 0, nil
	}}
	held, err := durable.TryLock(faults.FS, "LOCK")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	waiter, err := durable.OpenLock(faults, "LOCK")
	if err != nil {
		t.Fatal(err)
	}
	err = waiter.Lock(ctx)
	var locked *durable.LockedError
	if !errors.As(err, &locked) || !errors.Is(err, context.Canceled) || locked.Holder.PID != os.Getpid() {
		t.Errorf("Lock = %v, want a LockedError with the holder and context.Canceled", err)
	}
	if looks != 5 {
		t.Errorf("looked %d times, want 5", looks)
	}
}

func TestLockExcludesGoroutines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "LOCK")
	// The race detector does not see a lock file, so the check is atomic.
	var inside atomic.Bool
	var n atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		lock, err := durable.OpenLock(nil, path)
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			wg.Go(func() {
				for range 10 {
					if err := lock.Lock(t.Context()); err != nil {
						t.Error(err)
						return
					}
					if !inside.CompareAndSwap(false, true) {
						t.Error("two holders of one lock")
					}
					n.Add(1)
					inside.Store(false)
					if err := lock.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if diff := cmp.Diff(n.Load(), int64(320)); diff != "" {
		t.Errorf("counted (-got +want):\n%s", diff)
	}
}

func TestLockEndsWithAKilledProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "LOCK")
	cmd, lines := child(t, "hold", path)
	if !lines.Scan() {
		t.Fatalf("the child took no lock: %v", lines.Err())
	}
	_, err := durable.TryLock(nil, path)
	var locked *durable.LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != cmd.Process.Pid {
		t.Errorf("TryLock = %v, want refused by pid %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	held, err := durable.TryLock(nil, path)
	if err != nil {
		t.Fatalf("after the holder was killed: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
}

func TestLockErrorsArePassedOn(t *testing.T) {
	t.Parallel()
	if _, err := durable.TryLock(nil, filepath.Join(t.TempDir(), "missing", "LOCK")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("TryLock in a missing directory: %v, want not-exist", err)
	}
	why := errors.New("no locks available")
	for _, kind := range []string{"lock", "write", "truncate"} {
		faults := &durabletest.Faults{FS: durabletest.NewDisk(1), Hook: func(op durabletest.Op) (int, error) {
			if op.Kind == kind {
				return 0, why
			}
			return 0, nil
		}}
		if _, err := durable.TryLock(faults, "LOCK"); !errors.Is(err, why) || errors.Is(err, durable.ErrLocked) {
			t.Errorf("%s fails: TryLock = %v, want %v and not ErrLocked", kind, err, why)
		}
		held, err := durable.TryLock(faults.FS, "LOCK")
		if err != nil {
			t.Errorf("%s failed: the lock is not free afterwards: %v", kind, err)
			continue
		}
		if err := held.Close(); err != nil {
			t.Error(err)
		}
	}
}
