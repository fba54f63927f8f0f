package durable

import (
	"errors"
	"os"
	"syscall"
)

// datasync is fdatasync: content and size, without the journal commit that the
// file's times would cost.
func datasync(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	cerr := conn.Control(func(fd uintptr) {
		for {
			if err = syscall.Fdatasync(int(fd)); !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	})
	switch {
	case cerr != nil: // the only error of Control
		err = os.ErrClosed
	case err == nil:
		return nil
	case errors.Is(err, syscall.EINVAL), errors.Is(err, errors.ErrUnsupported):
		return f.Sync()
	}
	return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
}
