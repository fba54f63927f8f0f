package deadletter

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/chain"
	"github.com/nightfuse/nightfuse/internal/modelapi"
	"github.com/nightfuse/nightfuse/internal/redact"
)

type link = chain.Link

// What is read of a failed answer before it is given to the caller, at most: a
// slow body must hold up nobody.
const (
	headLimit = 8 << 10
	headTime  = 2 * time.Second
)

// Transport is an http.RoundTripper that keeps the requests that fail for good.
// It is the outermost of the module's transports: what comes out of it has been
// retried. Its methods are safe for concurrent use.
type Transport struct {
	link
	part *Queue
}

// NewTransport returns a transport around base (nil = http.DefaultTransport)
// that keeps what fails in q. A chain built in the wrong order, or a nil q, is
// told by [Transport.Err] and returned by every RoundTrip, unsent.
func NewTransport(base http.RoundTripper, q *Queue) *Transport {
	return &Transport{link: chain.New(chain.DeadLetter, q, q == nil, base), part: q}
}

// Unwrap returns the transport inside.
func (t *Transport) Unwrap() http.RoundTripper { return t.Base() }

// Err returns what is wrong with the chain, or nil.
func (t *Transport) Err() error { return t.LinkErr() }

// CloseIdleConnections passes the call on to the base.
func (t *Transport) CloseIdleConnections() { t.CloseIdle() }

// RoundTrip sends req. A failed one becomes a letter before RoundTrip returns;
// one whose answer turns out to be a failure while it is read becomes one
// before that Read or Close returns. Of an answer with status 400 or more the head
// is read first, at most 8 KiB and for at most 2 s of real time; its body still
// gives every byte. If the letter cannot be stored, RoundTrip
// or Read returns the failure joined with a *[LostError].
func (t *Transport) RoundTrip(req *http.Request) (_ *http.Response, err error) {
	in, box, through, err := t.Start(req)
	if err != nil {
		return nil, err
	}
	if through || box.Recorded {
		return t.Base().RoundTrip(req)
	}
	q := t.part
	in, payload, err := q.hold(in)
	if err != nil {
		return chain.Refuse(req, fmt.Errorf("deadletter: read the request's body: %w", err))
	}
	s := &sending{q: q, ctx: req.Context(), box: box, req: req, payload: payload}
	var resp *http.Response
	returned := false
	defer func() {
		if returned {
			return
		}
		if p := recover(); p != nil {
			if resp != nil {
				_ = resp.Body.Close()
			}
			if !s.over.Load() {
				_ = s.bury(fmt.Errorf("panic: %v", p), resp)
			}
			panic(p)
		}
	}()
	resp, err = t.Send(box, in)
	if err = sound(err); err != nil {
		err = s.settle(nil, transportCause(box, err), err)
		returned = true
		return nil, err
	}
	resp.Request = req
	out, err := s.answer(resp)
	returned = true
	return out, err
}

// sending is one request on its way.
type sending struct {
	q       *Queue
	ctx     context.Context // the caller's
	box     *call.Box
	req     *http.Request // the caller's
	payload func() ([]byte, error)
	over    atomic.Bool // counted, and stored if it had to be
}

// settle decides about a failure and returns err, with the loss if there is one.
// cause is what the letter tells.
func (s *sending) settle(resp *http.Response, cause, err error) error {
	f := s.fateOf(resp, cause, err)
	if f != dead {
		s.over.Store(true)
		s.q.count.items.Add(1)
		s.q.count.note(f)
		return err
	}
	if lost := s.bury(cause, resp); lost != nil {
		return errors.Join(err, lost)
	}
	return err
}

// fateOf is the queue's. A Classify that panics loses no item.
func (s *sending) fateOf(resp *http.Response, cause, err error) fate {
	decided := false
	defer func() {
		if !decided {
			_ = s.bury(cause, resp)
		}
	}()
	f := s.q.fateOf(s.ctx, s.box, resp, err)
	decided = true
	return f
}

// answer judges resp, now or as it is read.
func (s *sending) answer(resp *http.Response) (*http.Response, error) {
	q := s.q
	var told error
	if b, ok := resp.Body.(interface{ Err() error }); ok {
		// A retry's answer in place of its error.
		told = b.Err()
	}
	now := q.cfg.Clock.Now()
	view := modelapi.Watch(s.box, resp, now)
	d := Auto
	if q.cfg.Classify != nil {
		d = q.cfg.Classify(resp, nil)
	}
	if resp.StatusCode >= 400 || d == Keep {
		// The head of the answer says why. A read error leaves what was read.
		_, _, _ = view.Hold(headLimit, headTime)
		v := view.Verdict()
		v.Status = resp.StatusCode
		err := told
		if err == nil {
			err = newAnswerError(v, now)
		}
		if lost := s.lostOf(s.settle(resp, transportCause(s.box, err), err)); lost != nil {
			_ = resp.Body.Close()
			return nil, errors.Join(err, lost)
		}
		return resp, nil
	}
	if resp.StatusCode >= 300 && d != Pass {
		s.over.Store(true) // a redirect is no result: the call that follows it is
		return resp, nil
	}
	if resp.StatusCode < 200 || d == Pass {
		s.over.Store(true)
		q.count.items.Add(1)
		if d == Pass {
			q.count.passed.Add(1)
		}
		return resp, nil
	}
	w := &watched{ReadCloser: resp.Body}
	resp.Body = w
	view.OnEnd(func(v modelapi.Verdict) {
		v.Status = resp.StatusCode
		if !failed(v) {
			s.over.Store(true)
			q.count.items.Add(1)
			if v.Ended {
				q.success(s.ctx, s.box)
			} else {
				q.count.done.Add(1)
			}
			return
		}
		err := newAnswerError(v, q.cfg.Clock.Now())
		w.lose(s.lostOf(s.settle(resp, transportCause(s.box, err), err)))
	})
	return resp, nil
}

// lostOf returns the loss in err, nil if there is none.
func (s *sending) lostOf(err error) error {
	var lost *LostError
	if errors.As(err, &lost) {
		return lost
	}
	return nil
}

// bury stores the request as a letter.
func (s *sending) bury(cause error, resp *http.Response) error {
	s.over.Store(true)
	s.q.count.items.Add(1)
	r := s.q.letterAbout(s.box, discreet(cause, s.req), s.q.cfg.Clock.Now())
	r.SignatureText = redact.Sent(r.SignatureText, s.req)
	r.Method, r.Header = s.req.Method, redact.Header(s.req.Header)
	if r.Method == "" {
		r.Method = http.MethodGet
	}
	if s.req.URL != nil {
		r.URL = redact.URL(s.req.URL)
	}
	if resp != nil {
		if r.Status == 0 {
			r.Status = resp.StatusCode
		}
		r.UpstreamRequestID = requestID(resp.Header)
	}
	var err error
	if r.Payload, err = s.payload(); err != nil {
		return s.q.lose(r, fmt.Errorf("deadletter: read the request's body again: %w", err))
	}
	return s.q.bury(s.ctx, r)
}

func requestID(h http.Header) string {
	for _, k := range []string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid", "X-Ms-Request-Id", "Apim-Request-Id", "Cf-Ray"} {
		if v := h.Get(k); v != "" {
			return v
		}
	}
	return ""
}

// payloadID is the id of a letter whose item has no name.
func payloadID(r Record) string {
	h := sha256.New()
	for _, s := range []string{r.Queue, r.Method, r.URL} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	h.Write(r.Payload)
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// hold returns the request to send and how to read its body afterwards: by
// GetBody, or from a copy made up front. A lazy copy would be empty when the
// answer comes before the body was read.
func (q *Queue) hold(req *http.Request) (*http.Request, func() ([]byte, error), error) {
	if req.Body == nil || req.Body == http.NoBody {
		return req, func() ([]byte, error) { return nil, nil }, nil
	}
	limit := q.cfg.MaxPayload
	if req.GetBody != nil {
		return req, func() ([]byte, error) {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			defer body.Close()
			return atMost(body, limit)
		}, nil
	}
	head, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if err != nil {
		return nil, nil, err
	}
	out := new(http.Request)
	*out = *req
	if int64(len(head)) > limit {
		// Too large to keep, not too large to send.
		out.Body = &rest{Reader: io.MultiReader(bytes.NewReader(head), req.Body), Closer: req.Body}
		return out, func() ([]byte, error) { return nil, tooLarge(limit) }, nil
	}
	_ = req.Body.Close() // all of it has been read
	out.ContentLength = int64(len(head))
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(head)), nil }
	out.Body, _ = out.GetBody()
	if len(head) == 0 {
		out.Body = http.NoBody
	}
	return out, func() ([]byte, error) { return head, nil }, nil
}

func tooLarge(limit int64) error {
	return fmt.Errorf("%w: payload above %d bytes", ErrTooLarge, limit)
}

func atMost(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = tooLarge(limit)
	}
	return b, err
}

// rest is a body whose beginning has been read.
type rest struct {
	io.Reader
	io.Closer
}

// watched is the body of an answer that may become a letter while it is read.
type watched struct {
	io.ReadCloser
	mu   sync.Mutex
	lost error
}

func (w *watched) lose(err error) {
	w.mu.Lock()
	w.lost = err
	w.mu.Unlock()
}

func (w *watched) told(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost == nil {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = nil // the end is not a good one
	}
	return errors.Join(err, w.lost)
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	return n, w.told(err)
}

func (w *watched) Close() error { return w.told(w.ReadCloser.Close()) }
