package neterr

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// streamError has the shape of the HTTP/2 stream error that net/http bundles:
// its As method fills in any struct with these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "" }

// refusedStream is REFUSED_STREAM (RFC 9113, section 7).
const refusedStream = 0x7

// ofHTTP2 recognises the errors of the bundled HTTP/2, whose types net/http
// does not export.
func ofHTTP2(err error) Kind {
	var stream streamError
	if errors.As(err, &stream) {
		if stream.Code == refusedStream {
			return Unsent
		}
		return Broken
	}
	text := leaf(err).Error()
	if !strings.Contains(text, "http2:") && !strings.Contains(text, "stream error:") {
		return None
	}
	switch {
	case strings.Contains(text, "graceful shutdown GOAWAY"), strings.Contains(text, "REFUSED_STREAM"),
		strings.Contains(text, "sent GOAWAY") && strings.Contains(text, "LastStreamID=0,"):
		return Unsent
	case timedOut(err):
		return Timeout
	}
	// GOAWAY with a last stream at or above ours, a lost connection: nobody
	// can tell.
	return Broken
}

// ofWire recognises what went wrong on the connection.
func ofWire(err error) Kind {
	var errno syscall.Errno
	var op *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.As(err, &errno):
		// ETIMEDOUT is the kernel's verdict on the connection, not a limit of
		// ours.
		return Broken
	case timedOut(err):
		return Timeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe),
		errors.As(err, &op):
		return Broken
	}
	text := err.Error()
	if strings.Contains(text, "server closed idle connection") || strings.Contains(text, "transport connection broken") ||
		strings.Contains(text, "malformed HTTP") {
		return Broken
	}
	return Unknown
}
