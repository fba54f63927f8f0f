// Package chain knows the order in which the module's transports are built
// around each other, innermost first: budget, breaker, pacer, retry, dead
// letters. A wrong order or a missing part is found when a transport is made,
// kept, and returned by every round trip before anything is sent, since a
// chain in the wrong order works on good days and loses items on bad ones.
package chain

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/nils"
)

// Rank is a transport's place, counted from the wire.
type Rank int

// The ranks, innermost first.
const (
	Budget Rank = iota + 1
	Breaker
	Pacer
	Retry
	DeadLetter
)

var names = [...]string{
	Budget: "budget.NewTransport", Breaker: "breaker.NewTransport", Pacer: "budget.NewPacedTransport",
	Retry: "retry.NewTransport", DeadLetter: "deadletter.NewTransport",
}

// String returns the name of the constructor.
func (r Rank) String() string { return names[r] }

// ErrOrder is in every error about a chain that was put together wrongly.
var ErrOrder = errors.New("nightfuse: transports are in the wrong order")

// ErrNilPart is in every error about a transport made around nothing.
var ErrNilPart = errors.New("nightfuse: transport made around a nil part")

// Link is the part that all transports of the module have in common. It is
// embedded, by a name that is not exported.
type Link struct {
	rank   Rank
	part   any // the guard, for telling it again
	base   http.RoundTripper
	err    error
	marked bool // part may be met again below
}

// maxDepth bounds the walk inwards: a wrapper may say that it wraps itself.
const maxDepth = 64

// linked is how a link is recognised below another.
type linked interface{ chainLink() *Link }

func (l *Link) chainLink() *Link { return l }

// New returns the link of a transport of the given rank around base, nil for
// http.DefaultTransport. part is the guard, a pointer; missing says that it is
// nil.
func New(rank Rank, part any, missing bool, base http.RoundTripper) Link {
	if base == nil {
		base = http.DefaultTransport
	}
	// Unless the whole way to the standard transport is seen, the same guard
	// may hide on it.
	l := Link{rank: rank, part: part, base: base, marked: true}
	twice := false
	var errs []error
	if missing {
		errs = append(errs, fmt.Errorf("%w: %v", ErrNilPart, rank))
	}
	rt := base
	for range maxDepth {
		if nils.In(rt) {
			errs = append(errs, fmt.Errorf("%w: a nil %T inside %v", ErrNilPart, rt, rank))
			break
		}
		if in, ok := rt.(linked); ok {
			in := in.chainLink()
			if in.rank > rank {
				errs = append(errs, fmt.Errorf("%w: %v must be built around %v, not inside it (innermost first: budget, breaker, pacer, retry, deadletter)",
					ErrOrder, in.rank, rank))
			}
			twice = twice || in.part == part
			if in.err != nil {
				// The inner link has looked further down already.
				errs = append(errs, in.err)
				break
			}
		}
		u, ok := rt.(interface{ Unwrap() http.RoundTripper })
		if !ok || u.Unwrap() == nil {
			if _, std := rt.(*http.Transport); std {
				l.marked = twice
			}
			break
		}
		rt = u.Unwrap()
	}
	l.err = errors.Join(errs...)
	return l
}

// Base returns the transport inside.
func (l *Link) Base() http.RoundTripper { return l.base }

// LinkErr returns what is wrong with the chain from here down, or nil.
func (l *Link) LinkErr() error { return l.err }

// Refuse closes req's body, as a RoundTripper must on every path, and returns
// err. It is for requests that are not passed on.
func Refuse(req *http.Request, err error) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return nil, err
}

// Start begins the link's part of a round trip. It returns the request to go
// on with and its box. through says that this guard already has the call (the
// function form around a client that has it too): then pass it to the base as
// it is. An error is the chain's own, and req's body is closed.
func (l *Link) Start(req *http.Request) (_ *http.Request, box *call.Box, through bool, err error) {
	if l.err != nil {
		_, err := Refuse(req, l.err)
		return nil, nil, false, err
	}
	if b := call.From(req.Context()); b.Inside(l.part) {
		return req, b, true, nil
	}
	in, box := call.Wire(req)
	if l.marked {
		if in == req { // the box is another's, and handed on
			box = call.With(req.Context())
			in = req.WithContext(box)
		}
		box.Enter(l.part)
	}
	return in, box, false, nil
}

// ErrNoResponse is returned for a base that broke the RoundTripper contract by
// returning neither a response nor an error.
var ErrNoResponse = errors.New("nightfuse: the wrapped RoundTripper returned no response and no error")

// Send passes req to the base, with a note in box, where there is one, that this
// guard let it through, and repairs the answer: (nil, nil) becomes ErrNoResponse, and a
// response that comes with an error is closed.
func (l *Link) Send(box *call.Box, req *http.Request) (*http.Response, error) {
	if box != nil {
		box.Item.Pass()
	}
	resp, err := l.base.RoundTrip(req)
	if err != nil {
		if resp != nil && resp.Body != nil {
			_ = resp.Body.Close()
		}
		return nil, err
	}
	if resp == nil {
		return nil, ErrNoResponse
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	return resp, nil
}

// CloseIdle passes CloseIdleConnections on to the base.
func (l *Link) CloseIdle() {
	if c, ok := l.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
