//go:build !linux && !windows

package durable

import "os"

// datasync is the full sync where syscall has no Fdatasync; on macOS it asks
// the drive to empty its cache as well.
func datasync(f *os.File) error { return f.Sync() }
