// Package neterr tells what a transport error means for the guards: whether
// the request can have been processed, and whether sending it again can help.
//
// It asks for types. A text is read only where net/http keeps its types to
// itself.
package neterr

import (
	"context"
	"errors"
	"os"
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

// String returns the kind as one lower-case word, for logs and reports.
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
