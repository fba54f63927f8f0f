package durable

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

const (
	errSharingViolation = syscall.Errno(32)
	errLockViolation    = syscall.Errno(33)

	lockFailImmediately = 0x1
	lockExclusive       = 0x2

	// Locks are mandatory on Windows: a locked range cannot be read by others.
	// So the lock is on one byte far behind any content, and the text in the
	// lock file stays readable.
	lockOffsetHigh = 0x7fffffff

	// An open file cannot be renamed.
	closeBeforeRename = true
)

var (
	kernel32     = syscall.NewLazyDLL("kernel32.dll")
	lockFileEx   = kernel32.NewProc("LockFileEx")
	unlockFileEx = kernel32.NewProc("UnlockFileEx")
)

// renameMayPass knows the errors of a rename onto a file that is open.
func renameMayPass(err error) bool {
	return errors.Is(err, syscall.ERROR_ACCESS_DENIED) || errors.Is(err, errSharingViolation) || errors.Is(err, errLockViolation)
}

func syncDir(string) error { return nil }

func datasync(f *os.File) error { return f.Sync() }

func flock(f *os.File) (bool, error) {
	if err := lockFileEx.Find(); err != nil {
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	r, err := rangeCall(f, func(h uintptr, at *syscall.Overlapped) (uintptr, error) {
		r, _, err := lockFileEx.Call(h, lockExclusive|lockFailImmediately, 0, 1, 0, uintptr(unsafe.Pointer(at)))
		return r, err
	})
	switch {
	case r != 0:
		return true, nil
	case errors.Is(err, errLockViolation), errors.Is(err, syscall.ERROR_IO_PENDING):
		return false, nil
	}
	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
}

func funlock(f *os.File) error {
	r, err := rangeCall(f, func(h uintptr, at *syscall.Overlapped) (uintptr, error) {
		r, _, err := unlockFileEx.Call(h, 0, 1, 0, uintptr(unsafe.Pointer(at)))
		return r, err
	})
	if r != 0 {
		return nil
	}
	return &os.PathError{Op: "unlock", Path: f.Name(), Err: err}
}

// rangeCall runs call with f's handle, which cannot be closed meanwhile.
func rangeCall(f *os.File, call func(h uintptr, at *syscall.Overlapped) (uintptr, error)) (r uintptr, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	if cerr := conn.Control(func(h uintptr) {
		r, err = call(h, &syscall.Overlapped{OffsetHigh: lockOffsetHigh})
	}); cerr != nil {
		return 0, os.ErrClosed // the only error of Control
	}
	return r, err
}
