//go:build unix && !solaris && !aix

package durable_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// Between fork and exec a new process holds a copy of every descriptor. A lock
// that was closed meanwhile is free all the same.
func TestCloseEndsTheLockOfACopy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "LOCK")
	held, err := durable.TryLock(nil, path)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := syscall.Dup(int(held.File().(interface{ Fd() uintptr }).Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(copied) }()
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := durable.TryLock(nil, path)
	if err != nil {
		t.Fatalf("closed and still held: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
