package retry

import (
	"io"
	"sync"

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
		now := l.r.clock.Now()
		if v.Err != nil {
			v.Err = s.a.reason(v.Err)
		}
		f, bad := judgeAnswer(v)
		if !bad && v.Err != nil {
			f, bad = failure{err: &answerError{status: v.Status, body: "the body ended too early", err: v.Err}, cause: ErrBody, status: v.Status}, true
		}
		if !bad {
			l.done(now, 0)
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
		e := l.error(cause, now)
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
