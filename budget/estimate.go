package budget

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

const (
	// bytesPerToken errs on the dear side for prose, code and CJK text (3.1 to
	// 5.7 bytes per token measured with o200k); JSON records are up to 20 %
	// dearer than it says, base64 and UUIDs twice as dear.
	bytesPerToken = 3

	// unsaidOutput is assumed for a request without an output cap. The real
	// bound is then the model's, which the request does not tell.
	unsaidOutput = 4096

	// maxEstimateBody bounds how much of a request's body is looked at.
	maxEstimateBody = 4 << 20
)

// EstimateBody estimates the tokens of a request to a model API: a third of
// the body's bytes, plus the output cap it names (the larger one, if it names
// two) times the number of answers, or 4,096 when it names none. A request
// without a body is 1.
//
// It cannot see what the server adds (earlier responses, files by id), and it
// is far too high for images and audio within the body: give an estimate of
// your own there, or use a [Calibrator].
func EstimateBody(req *http.Request, body []byte) int64 {
	size := int64(len(body))
	if size == 0 {
		return 1
	}
	r := modelapi.ParseRequest(path(req), body)
	if req != nil {
		size = max(size, req.ContentLength)
	}
	out := r.MaxOutput
	if out <= 0 {
		out = unsaidOutput
	}
	in := (size + bytesPerToken - 1) / bytesPerToken
	return min(in, MaxAmount/2) + min(out, MaxAmount/2)
}

func path(req *http.Request) string {
	if req == nil || req.URL == nil {
		return ""
	}
	return req.URL.Path
}

// bodies are buffers for looking at requests.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepBuffer is the largest buffer that goes back to the pool.
const keepBuffer = 1 << 20

// estimate asks f for the cost of req, which is the caller's or a copy with
// the same body. The request that it returns is the one to send: a copy, when
// the body could be seen only by reading it.
func estimate(f func(*http.Request, []byte) int64, req *http.Request) (int64, *http.Request, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return f(req, nil), req, nil
	}
	if req.GetBody == nil {
		// Read as far as needed; what was read goes in front of the rest.
		head, err := io.ReadAll(io.LimitReader(req.Body, maxEstimateBody))
		if err != nil {
			return 0, nil, fmt.Errorf("budget: reading the request's body: %w", err)
		}
		n := f(req, head)
		c := *req
		c.Body = &prefixed{Reader: io.MultiReader(bytes.NewReader(head), req.Body), Closer: req.Body}
		return n, &c, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return 0, nil, fmt.Errorf("budget: reading the request's body: %w", err)
	}
	buf := bodies.Get().(*bytes.Buffer)
	buf.Reset()
	_, err = buf.ReadFrom(io.LimitReader(body, maxEstimateBody))
	_ = body.Close()
	if err != nil {
		return 0, nil, fmt.Errorf("budget: reading the request's body: %w", err)
	}
	n := f(req, buf.Bytes())
	if buf.Cap() <= keepBuffer {
		bodies.Put(buf)
	}
	return n, req, nil
}

// prefixed is a body of which the beginning was read ahead.
type prefixed struct {
	io.Reader
	io.Closer
}
