// Package neterr tells what a transport error means for the guards: whether
// the request can have been processed, and whether sending it again can help.
//
// It asks for types. A text is read only where net/http keeps its types to
// itself.
package neterr

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"syscall"
)

// Kind is what kind of failure an error is.
type Kind int

// The kinds.
const (
	None     Kind = iota // err is nil
	Unknown              // an error of which nothing is known: it may have been processed
	Dial                 // no connection: refused, unreachable, DNS trouble that may pass, TLS handshake time-out. Never sent
	NoHost               // NXDOMAIN. Never sent, and again will not help
	Cert                 // the certificate was not accepted. Never sent, and again will not help
	Bad                  // the request itself cannot be sent (URL, header, scheme). Never sent
	Unsent               // HTTP/2 GOAWAY or REFUSED_STREAM: the server says it did not process it
	Broken               // reset, EOF, broken pipe after the request may have been sent: maybe processed
	Timeout              // an own time limit ran out during the call: maybe processed
	Canceled             // the caller cancelled: no verdict on the upstream
	Deadline             // the caller's deadline ran out during the call: maybe processed
)

var names = [...]string{
	None: "none", Unknown: "unknown", Dial: "dial", NoHost: "no-host", Cert: "cert", Bad: "bad", Unsent: "unsent",
	Broken: "broken", Timeout: "timeout", Canceled: "canceled", Deadline: "deadline",
}

func (k Kind) String() string {
	if k < 0 || int(k) >= len(names) {
		return "invalid"
	}
	return names[k]
}

// Sent reports whether a call that failed so may have reached the server.
func (k Kind) Sent() bool {
	switch k {
	case None, Dial, NoHost, Cert, Bad, Unsent:
		return false
	}
	return true
}

// Of classifies err, the error of a call made under ctx, the caller's own
// context. The caller's cancel and deadline are known by ctx and its cause, not
// by text: an error that only happens beside a cancel keeps its own kind.
func Of(ctx context.Context, err error) Kind {
	if err == nil {
		return None
	}
	if k := ofContext(ctx, err); k != None {
		return k
	}
	if k := ofSetup(err); k != None {
		return k
	}
	if k := ofHTTP2(err); k != None {
		return k
	}
	return ofWire(err)
}

// ofContext recognises the caller's own end.
func ofContext(ctx context.Context, err error) Kind {
	over := ctx.Err()
	if over == nil {
		return None
	}
	own := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Cause(ctx))
	switch {
	case errors.Is(over, context.DeadlineExceeded):
		// The connection's own deadline is set from the context's and may fire
		// first.
		if own || timedOut(err) {
			return Deadline
		}
	case own:
		return Canceled
	}
	return None
}

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

// ofSetup recognises what went wrong before there was a connection to send on.
func ofSetup(err error) Kind {
	var (
		unverified *tls.CertificateVerificationError
		authority  x509.UnknownAuthorityError
		host       x509.HostnameError
		invalid    x509.CertificateInvalidError
		roots      x509.SystemRootsError
		record     tls.RecordHeaderError
		dns        *net.DNSError
		address    *net.AddrError
		op         *net.OpError
	)
	switch {
	case errors.As(err, &unverified), errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &roots):
		return Cert
	case errors.Is(err, http.ErrSchemeMismatch):
		return Bad
	case errors.As(err, &record):
		// The first record: what answers there does not speak TLS. When it is a
		// plain HTTP server, the URL's scheme is wrong.
		switch {
		case string(record.RecordHeader[:]) == "HTTP/":
			return Bad
		case strings.HasPrefix(record.Msg, "first record"):
			return Dial
		}
		return Broken
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return NoHost
		}
		return Dial
	case errors.As(err, &op):
		switch op.Op {
		case "remote error", "local error":
			if refusesUs(op.Err) {
				return Cert
			}
			return Broken
		case "dial", "proxyconnect", "socks connect", "connect":
			if errors.As(err, &address) {
				return Bad
			}
			return Dial
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return Dial
	}
	if badURL(err) {
		return Bad
	}
	return ofSetupText(leaf(err).Error())
}

// badURL reports whether err comes from net/url, below the *url.Error that
// http.Client wraps everything in.
func badURL(err error) bool {
	var (
		escape url.EscapeError
		host   url.InvalidHostError
		ue     *url.Error
	)
	if errors.As(err, &escape) || errors.As(err, &host) {
		return true
	}
	for errors.As(err, &ue) {
		if ue.Op == "parse" {
			return true
		}
		err = ue.Err
	}
	return false
}

// refusesUs reports whether a TLS alert is about a certificate or about what
// both sides can speak: the same again would meet it again. The numbers are RFC
// 8446's, section 6; crypto/tls does not export the type of alerts over TCP.
func refusesUs(alert error) bool {
	v := reflect.ValueOf(alert)
	if v.Kind() != reflect.Uint8 {
		return false
	}
	switch v.Uint() {
	case 40, 42, 43, 44, 45, 46, 48, 49, 70, 71, 109, 112, 116, 120:
		return true
	}
	return false
}

// leaf is the innermost error of a plain chain.
func leaf(err error) error {
	for range 64 {
		in := errors.Unwrap(err)
		if in == nil {
			return err
		}
		err = in
	}
	return err
}

// badTexts are the refusals of net/http to send what it was given. None of
// them has a type.
var badTexts = [...]string{
	"unsupported protocol scheme", "http: no Host in request URL", "http: nil Request.", "net/http: invalid method",
	"net/http: invalid header field", "net/http: invalid trailer field", "http: invalid Host header",
	"net/http: nil Context", "invalid URL port", "http: Request.RequestURI can't be set",
}

func ofSetupText(text string) Kind {
	switch {
	case strings.HasSuffix(text, "TLS handshake timeout"):
		return Dial
	case strings.HasPrefix(text, "http2: client conn not usable"), strings.HasPrefix(text, "http2: no cached connection"),
		strings.HasPrefix(text, "http2: client conn is closed"):
		return Dial
	}
	for _, bad := range badTexts {
		if strings.HasPrefix(text, bad) {
			return Bad
		}
	}
	// A proxy that refuses CONNECT is told by its status text alone.
	for status := 400; status < 512; status++ {
		if text == http.StatusText(status) && text != "" {
			if status < 500 {
				return Bad
			}
			return Dial
		}
	}
	return None
}

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
