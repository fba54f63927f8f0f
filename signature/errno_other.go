//go:build !windows

package signature

import "syscall"

// errnoSystem has nothing to add where the numbers are those of Unix.
func errnoSystem(syscall.Errno) string { return "" }
