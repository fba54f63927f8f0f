package retry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// bufferLimit bounds the copy of a request body that has no GetBody.
const bufferLimit = 4 << 20

// payload is a request's body for any number of attempts.
type payload struct {
	get    func() (io.ReadCloser, error) // a fresh body for each attempt; nil when there is a single one
	single io.ReadCloser                 // the body of the only attempt
	none   bool                          // the request has no body
	hide   bool                          // net/http must not replay by itself
}

// fill prepares req's body to be sent once, or again. The caller's body is
// closed in any case: here, or by the base that gets it.
func (p *payload) fill(req *http.Request, once bool) error {
	p.hide = replayedByNet(req)
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		p.none = true
		return nil
	case req.GetBody != nil:
		// Also for the first attempt: some SDKs hand in the same request
		// again, with its body drained.
		p.get = req.GetBody
		return req.Body.Close()
	case once || req.ContentLength > bufferLimit:
		p.single = req.Body
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(req.Body, bufferLimit+1))
	if err != nil {
		_ = req.Body.Close()
		return fmt.Errorf("retry: reading the request body: %w", err)
	}
	if len(data) > bufferLimit {
		p.single = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(data), req.Body), req.Body}
		return nil
	}
	p.get = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return req.Body.Close()
}

// replayedByNet reports whether net/http takes req for idempotent and so
// repeats it by itself on another connection, uncounted.
func replayedByNet(req *http.Request) bool {
	return len(req.Header["Idempotency-Key"]) > 0 || len(req.Header["X-Idempotency-Key"]) > 0
}

// put gives out, the copy of the request for attempt n, its body.
func (p *payload) put(out *http.Request) error {
	switch {
	case p.none:
		return nil
	case p.single != nil:
		out.Body, out.GetBody = p.single, nil
		return nil
	}
	body, err := p.get()
	if err != nil {
		return fmt.Errorf("retry: the request's GetBody: %w", err)
	}
	if body == nil {
		return errors.New("retry: the request's GetBody returned no body")
	}
	out.Body, out.GetBody = body, p.get
	if p.hide {
		// Without GetBody net/http cannot replay; the dead connection is then
		// our failure, and our attempt.
		out.GetBody = nil
	}
	return nil
}
