package retry

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

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

// answer is one attempt's response while it is judged.
type answer struct {
	resp *http.Response
	lim  *limiter // of the attempt; its end ends the body
	view *modelapi.View
	idle time.Duration

	none  bool          // there is no body
	body  io.ReadCloser // the response's, as it came from the base
	data  []byte        // what was held of it
	whole bool          // data is all of it, and body is closed
	err   error         // what ended the body too early
}

// hold reads the body, limit bytes at most, for failures within errorTime.
func (a *answer) hold(limit int, failed bool) {
	if failed {
		stop := time.AfterFunc(errorTime, func() { a.lim.expire(&timeoutError{"no end of the error's body", errorTime}) })
		defer stop.Stop()
	}
	if n := a.resp.ContentLength; n > 0 && !a.none {
		a.data = make([]byte, 0, min(n, int64(limit), trusted)+1)
	}
	r := timed{ReadCloser: a.body, lim: a.lim, idle: a.idle}
	for len(a.data) <= limit {
		if len(a.data) == cap(a.data) {
			a.data = append(a.data, 0)[:len(a.data)]
		}
		n, err := r.Read(a.data[len(a.data):cap(a.data)])
		a.data = a.data[:len(a.data)+n]
		if err == io.EOF {
			a.whole = true
			break
		}
		if err != nil {
			a.err = err
			break
		}
	}
	r.end()
	if a.whole {
		_ = a.body.Close()
		a.lim.release()
	}
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
	if a.data == nil && a.err == nil && a.resp.StatusCode != http.StatusSwitchingProtocols {
		a.hold(otherLimit, true)
	}
	if !a.whole {
		_ = a.body.Close()
		a.lim.release()
	}
}

// restore makes resp's body give every byte again.
func (a *answer) restore() {
	switch {
	case a.whole && len(a.data) == 0:
		a.resp.Body = http.NoBody
	case a.whole:
		a.resp.Body = io.NopCloser(bytes.NewReader(a.data))
	case len(a.data) > 0 || a.err != nil:
		a.resp.Body = &joined{head: a.data, err: a.err, rest: a.resp.Body}
	}
}

// joined gives what was held, then the error that ended it or the rest.
type joined struct {
	head []byte
	err  error
	rest io.ReadCloser
}

func (j *joined) Read(p []byte) (int, error) {
	if len(j.head) > 0 {
		n := copy(p, j.head)
		j.head = j.head[n:]
		return n, nil
	}
	if j.err != nil {
		return 0, j.err
	}
	return j.rest.Read(p)
}

func (j *joined) Close() error { return j.rest.Close() }

// timed bounds the silence between reads. A slow reader costs nothing: only
// the time inside a Read counts.
type timed struct {
	io.ReadCloser
	lim   *limiter
	idle  time.Duration
	timer *time.Timer
}

func (t *timed) Read(p []byte) (int, error) {
	if t.idle <= 0 {
		n, err := t.ReadCloser.Read(p)
		return n, t.explain(err)
	}
	if t.timer == nil {
		t.timer = time.AfterFunc(t.idle, func() { t.lim.expire(&timeoutError{"nothing of the body", t.idle}) })
	} else {
		t.timer.Reset(t.idle)
	}
	n, err := t.ReadCloser.Read(p)
	t.timer.Stop()
	return n, t.explain(err)
}

// explain names an own limit that ended the read. The caller's cancel is left
// as it is.
func (t *timed) explain(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return t.lim.reason(err)
}

func (t *timed) end() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// flow is the body of an answer that is passed on as it comes. The attempt's
// context ends with it, not before.
type flow struct {
	timed
	stream *stream // nil when the item has ended already
	err    error
}

func (f *flow) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.timed.Read(p)
	if err == nil {
		return n, nil
	}
	f.err = err
	if f.stream != nil {
		f.err = f.stream.ended(err)
	}
	f.lim.release()
	return n, f.err
}

func (f *flow) Close() error {
	err := f.ReadCloser.Close()
	if f.stream != nil {
		f.stream.closed()
	}
	f.lim.release()
	return err
}

// jsonLike reports whether a body of this Content-Type can be JSON: also where
// no type was said, or plain text.
func jsonLike(h http.Header) bool {
	ct := h.Get("Content-Type")
	if ct == "" {
		return true
	}
	mt, _, err := mime.ParseMediaType(ct)
	if err != nil {
		mt = strings.ToLower(ct)
	}
	return strings.Contains(mt, "json") && !strings.Contains(mt, "event-stream") || mt == "text/plain"
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
