package retry

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

const (
	jsonLimit  = 4 << 20  // a JSON body is held up to here to be judged
	otherLimit = 64 << 10 // an error's body that is not JSON
	headLimit  = 8 << 10  // what an Error keeps of a body
	trusted    = 1 << 20  // the Content-Length up to which memory is taken at once

	// errorTime bounds the reading of a body that reports a failure: a slow
	// one must hold up no retry.
	errorTime = 2 * time.Second
)

// answer is one attempt: its context and time limit, then the response while
// it is judged, then the response's body.
type answer struct {
	limiter
	resp *http.Response // nil until there is one
	view *modelapi.View
	idle *timeoutError // the limit of each read; nil = none

	none  bool          // there is no body
	body  io.ReadCloser // the response's, as it came from the base
	data  []byte        // what was held of it
	whole bool          // data is all of it, and body is closed
	late  <-chan chunk  // a read that was begun for judging and took too long for that
	rest  chunk         // of it, as far as it was not handed on
	first int           // where a stream's first event ends in data; 0 = it was not looked for, or there is none
	err   error         // what ended the body too early

	held heldBody
	flow *flow // nil until it is needed
	lazy call.Lazy
}

// hold reads the body of a good answer, limit bytes at most. One whose type
// nobody has told is held where it begins like JSON.
func (a *answer) hold(limit int) {
	a.room(limit)
	typed := a.view.Typed()
	for len(a.data) <= limit {
		if len(a.data) == cap(a.data) {
			a.data = append(a.data, 0)[:len(a.data)]
		}
		n, err := a.read(a.data[len(a.data):cap(a.data)])
		a.data = a.data[:len(a.data)+n]
		if err != nil {
			a.ends(err)
			return
		}
		if begin := bytes.TrimLeft(a.data, " \t\r\n\ufeff"); !typed && len(begin) > 0 {
			if begin[0] != '{' && begin[0] != '[' {
				return
			}
			typed = true
		}
	}
}

// room makes the memory that a body will need, as far as it is to be trusted.
func (a *answer) room(limit int) {
	if n := a.resp.ContentLength; n > 0 && !a.none {
		a.data = make([]byte, 0, min(n, int64(limit), trusted)+1)
	}
}

// ends takes what ended the body.
func (a *answer) ends(err error) {
	if err != io.EOF {
		a.err = err
		return
	}
	a.whole = true
	_ = a.body.Close()
	a.release()
}

// read reads from the body and bounds the silence before its bytes. A slow
// reader costs nothing: only the time inside a read counts.
func (a *answer) read(p []byte) (int, error) {
	if a.idle == nil {
		return a.body.Read(p)
	}
	a.set(a.idle)
	n, err := a.body.Read(p)
	a.lift()
	if err != nil && err != io.EOF {
		err = a.reason(err)
	}
	return n, err
}

// head returns a copy of the body's head.
func (a *answer) head() []byte {
	return bytes.Clone(a.data[:min(len(a.data), headLimit)])
}

// discard lets go of the response before a wait: 32 sleepers must not hold 32
// connections. What was held is drained; a larger rest costs the connection.
func (a *answer) discard() {
	if a == nil || a.whole {
		return
	}
	if a.data == nil && a.err == nil && a.late == nil {
		a.holdFailed(otherLimit)
	}
	if a.whole {
		return
	}
	if a.late != nil {
		a.release() // so that Close waits for no read
	}
	_ = a.body.Close()
	a.release()
}

// bodiless reports whether an answer has no body by its nature, so that an
// empty one says nothing.
func (a *answer) bodiless() bool {
	switch a.resp.StatusCode {
	case http.StatusNoContent, http.StatusResetContent, http.StatusNotModified:
		return true
	}
	return a.none && a.resp.Request.Method == http.MethodHead
}

// restore makes resp's body give every byte again; what was not held flows.
func (a *answer) restore() {
	switch {
	case a.whole && len(a.data) == 0:
		a.resp.Body = http.NoBody
	case a.whole:
		a.held.Reset(a.data)
		a.resp.Body = &a.held
	default:
		a.resp.Body = a.flowing()
	}
}

// flowing returns the body for what was not held to its end.
func (a *answer) flowing() *flow {
	if a.flow == nil {
		a.flow = &flow{a: a}
	}
	return a.flow
}

// heldBody is a body that was held to its end.
type heldBody struct{ bytes.Reader }

// Close does nothing: the connection was let go when the end was held.
func (*heldBody) Close() error { return nil }

// flow is the body of an answer that is passed on as it comes, after what was
// held of it. The attempt's context ends with it, not before.
type flow struct {
	a      *answer
	off    int // how much of the held bytes was given
	err    error
	stream stream
}

func (f *flow) Read(p []byte) (int, error) {
	a := f.a
	if f.off < len(a.data) {
		n := copy(p, a.data[f.off:])
		f.off += n
		return n, nil
	}
	if f.err != nil {
		return 0, f.err
	}
	n, err := 0, a.err
	switch {
	case err != nil:
	case a.late != nil:
		n, err = a.await(p)
	default:
		n, err = a.read(p)
	}
	if err == nil {
		return n, nil
	}
	f.err = f.stream.ended(err)
	a.release()
	return n, f.err
}

func (f *flow) Close() error {
	err := f.a.body.Close()
	f.stream.closed()
	f.a.release()
	return err
}

// record puts what an Error keeps of the answer into f.
func (a *answer) record(f *failure) {
	f.header = keep(a.resp.Header)
	f.body = a.head()
}

// keep returns the response headers that an Error may hold: those that help to
// find the call again or to understand it, by an allowlist.
func keep(h http.Header) http.Header {
	out := make(http.Header)
	for k, vs := range h {
		switch k = http.CanonicalHeaderKey(k); k {
		case "Content-Type", "Content-Length", "Date", "Server", "Via", "Cf-Ray", "X-Should-Retry", "X-Amzn-Errortype", "Apim-Request-Id":
		default:
			if !strings.Contains(k, "Ratelimit") && !strings.Contains(k, "Retry-After") && !strings.HasSuffix(k, "Request-Id") && !strings.HasSuffix(k, "Requestid") {
				continue
			}
		}
		out[k] = append([]string(nil), vs...)
	}
	return out
}
