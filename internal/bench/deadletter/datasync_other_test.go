//go:build !linux

package deadletter_test

import "os"

func datasync(f *os.File) error { return f.Sync() }
