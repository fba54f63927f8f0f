//go:build !windows

package durable

import (
	"errors"
	"os"
	"syscall"
)

// A rename works on an open file here, so a temp file stays open, and locked
// against Sweep, until it has its final name.
const closeBeforeRename = false

func renameMayPass(error) bool { return false }

// syncDir ignores the answers of file systems that cannot sync a directory.
func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}
