package signature

import "syscall"

// errnoSystem knows the numbers that Windows really returns; those of its
// syscall package named like Unix ones are inventions.
func errnoSystem(e syscall.Errno) string {
	switch e {
	case 2, 3: // ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND
		return "no such file or directory"
	case 4: // ERROR_TOO_MANY_OPEN_FILES
		return "too many open files"
	case 5, 10013: // ERROR_ACCESS_DENIED, WSAEACCES
		return "permission denied"
	case 80, 183: // ERROR_FILE_EXISTS, ERROR_ALREADY_EXISTS
		return "file exists"
	case 109, 232: // ERROR_BROKEN_PIPE, ERROR_NO_DATA
		return "broken pipe"
	case 112: // ERROR_DISK_FULL
		return "no space left on device"
	case 145: // ERROR_DIR_NOT_EMPTY
		return "directory not empty"
	case 10048: // WSAEADDRINUSE
		return "address already in use"
	case 10049: // WSAEADDRNOTAVAIL
		return "cannot assign requested address"
	case 10051: // WSAENETUNREACH
		return "network is unreachable"
	case 10053: // WSAECONNABORTED
		return "software caused connection abort"
	case 10054: // WSAECONNRESET
		return "connection reset by peer"
	case 10055: // WSAENOBUFS
		return "no buffer space available"
	case 10057: // WSAENOTCONN
		return "transport endpoint is not connected"
	case 10060, 121: // WSAETIMEDOUT, ERROR_SEM_TIMEOUT
		return "connection timed out"
	case 10061, 1225: // WSAECONNREFUSED, ERROR_CONNECTION_REFUSED
		return "connection refused"
	case 10065: // WSAEHOSTUNREACH
		return "no route to host"
	}
	return ""
}
