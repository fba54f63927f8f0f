package signature

import "syscall"

// errnoText gives an error number the text it has on Linux, so that the same
// fault signs alike on every system; "" if the number is none of those below.
func errnoText(e syscall.Errno) string {
	if t := errnoSystem(e); t != "" {
		return t
	}
	switch e {
	case syscall.ECONNREFUSED:
		return "connection refused"
	case syscall.ECONNRESET:
		return "connection reset by peer"
	case syscall.ECONNABORTED:
		return "software caused connection abort"
	case syscall.ETIMEDOUT:
		return "connection timed out"
	case syscall.EHOSTUNREACH:
		return "no route to host"
	case syscall.ENETUNREACH:
		return "network is unreachable"
	case syscall.EADDRINUSE:
		return "address already in use"
	case syscall.EADDRNOTAVAIL:
		return "cannot assign requested address"
	case syscall.EPIPE:
		return "broken pipe"
	case syscall.ENOTCONN:
		return "transport endpoint is not connected"
	case syscall.ENOBUFS:
		return "no buffer space available"
	case syscall.EMFILE:
		return "too many open files"
	case syscall.ENFILE:
		return "too many open files in system"
	case syscall.ENOENT:
		return "no such file or directory"
	case syscall.EACCES:
		return "permission denied"
	case syscall.EEXIST:
		return "file exists"
	case syscall.ENOSPC:
		return "no space left on device"
	case syscall.ENOTDIR:
		return "not a directory"
	case syscall.EISDIR:
		return "is a directory"
	case syscall.ENOTEMPTY:
		return "directory not empty"
	case syscall.EDQUOT:
		return "disk quota exceeded"
	case syscall.EROFS:
		return "read-only file system"
	case syscall.EIO:
		return "input/output error"
	case syscall.EINVAL:
		return "invalid argument"
	}
	return ""
}
