//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package durable

import (
	"errors"
	"os"
	"syscall"
)

func flock(f *os.File) (bool, error) {
	err := flockCall(f, syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return false, nil
	}
	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
}

func funlock(f *os.File) error {
	if err := flockCall(f, syscall.LOCK_UN); err != nil {
		return &os.PathError{Op: "unlock", Path: f.Name(), Err: err}
	}
	return nil
}

func flockCall(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := conn.Control(func(fd uintptr) {
		for {
			if err = syscall.Flock(int(fd), how); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	}); cerr != nil {
		return os.ErrClosed // the only error of Control
	}
	return err
}
