//go:build !windows && !darwin && !dragonfly && !freebsd && !illumos && !linux && !netbsd && !openbsd

package durable

import (
	"errors"
	"fmt"
	"os"
)

// flock refuses: the locks of fcntl belong to a process, not to an open file,
// and vanish when anybody in the process closes the same file.
func flock(f *os.File) (bool, error) {
	return false, &os.PathError{Op: "lock", Path: f.Name(), Err: fmt.Errorf("this system has no flock: %w", errors.ErrUnsupported)}
}

func funlock(*os.File) error { return nil }
