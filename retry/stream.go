package retry

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// stream is the end of an item whose answer was passed on before its end was
// seen. The verdict comes with the body's end, at its terminal event, EOF, read
// error or Close, whichever is first. Its zero value belongs to no item: then
// the body's end means nothing.
type stream struct {
	l *loop
	a *answer

	once sync.Once
	mu   sync.Mutex
	err  *Error
}

// settle is told the final verdict by the view.
func (s *stream) settle(v modelapi.Verdict) {
	s.once.Do(func() {
		l := s.l
		if v.Err != nil {
			v.Err = s.a.reason(v.Err)
		}
		f, bad := judgeAnswer(v)
		if !bad && v.Err != nil {
			f, bad = failure{err: &answerError{status: v.Status, body: "the body ended too early", err: v.Err}, cause: ErrBody, status: v.Status}, true
		}
		if !bad {
			l.done(0)
			return
		}
		f.header, f.body = keep(s.a.resp.Header), append([]byte(nil), s.a.view.Head()...)
		cause := f.cause
		if cause == nil {
			cause = ErrBody
		}
		if l.ctx.Err() != nil {
			cause = contextError(l.ctx)
		}
		l.last = f
		e := l.error(cause)
		s.mu.Lock()
		s.err = e
		s.mu.Unlock()
		l.settle(e)
	})
}

// ended is told what ended the reading, and returns what the reader gets: a
// stream that failed does not end like a good one.
func (s *stream) ended(err error) error {
	if s.l == nil {
		return err
	}
	v := s.a.view.Verdict()
	if err != io.EOF && v.Err == nil {
		v.Err = err
	}
	s.settle(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return err
}

// closed is told that the reader has closed the body.
func (s *stream) closed() {
	if s.l != nil {
		s.settle(s.a.view.Verdict())
	}
}

// peek reads a stream of events up to the end of the first, which may be a
// comment. No reader waits longer for that: it could have had no byte before
// the first has come, and has them all at once. A stream that ends before is
// whole.
func (a *answer) peek() {
	a.data = make([]byte, 0, 1<<10)
	some, start := false, true // anything of an event; at the start of a line
	for scanned := 0; len(a.data) < otherLimit; {
		if len(a.data) == cap(a.data) {
			a.data = append(a.data, 0)[:len(a.data)]
		}
		n, err := a.read(a.data[len(a.data):cap(a.data)])
		a.data = a.data[:len(a.data)+n]
		for ; scanned < len(a.data); scanned++ {
			switch c := a.data[scanned]; {
			case c == '\n' && scanned > 0 && a.data[scanned-1] == '\r':
			case c != '\n' && c != '\r':
				some, start = true, false
			case some && start:
				a.first = scanned + 1
				if err != io.EOF {
					a.err = err // the reader's, after what was read
				}
				return
			default:
				start = true
			}
		}
		switch {
		case err == io.EOF:
			a.whole = true
			_ = a.body.Close()
			a.release()
			return
		case err != nil:
			a.err = err
			return
		}
	}
	a.first = len(a.data)
}

// opening returns what the first event of a stream says, as far as it is an
// error, whatever has come with it in the same read: what follows is judged as
// it passes.
func (a *answer) opening(now time.Time) modelapi.Verdict {
	event := a.data[:a.first]
	v := modelapi.Verdict{Class: modelapi.Unjudged}
	if !bytes.Contains(event, []byte("error")) && !bytes.Contains(event, []byte("fail")) {
		return v
	}
	resp := &http.Response{StatusCode: a.resp.StatusCode, Header: a.resp.Header, ContentLength: -1, Body: io.NopCloser(bytes.NewReader(event))}
	view := modelapi.Watch(nil, resp, now)
	_, _ = io.Copy(io.Discard, resp.Body)
	if said := view.Verdict(); said.InBody {
		return said
	}
	return v
}
