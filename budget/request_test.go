package budget_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/call"
)

// closes counts Close and keeps what the base has read.
type closes struct {
	io.Reader
	n atomic.Int32
}

func (c *closes) Close() error { c.n.Add(1); return nil }

// The caller's body is closed once and its request stays as it is, whether the
// call is sent or refused, and whether the body can be had again or not.
func TestTransportAndTheRequest(t *testing.T) {
	t.Parallel()
	text := `{"max_tokens":1,"max_completion_tokens":10000,"messages":[]}` + strings.Repeat(" ", 3000)
	for _, again := range []bool{true, false} {
		for _, refuse := range []bool{true, false} {
			var asked int64
			c := budget.Config{Limit: 1_000_000, Estimate: func(req *http.Request, body []byte) int64 {
				if string(body) != text {
					t.Errorf("Estimate saw %d bytes, want %d", len(body), len(text))
				}
				asked = budget.EstimateBody(req, body)
				return asked
			}}
			b := mustNew(t, c)
			if refuse {
				mustReserve(t, b, "", 850_000)
			}
			body := &closes{Reader: strings.NewReader(text)}
			req := post(t, t.Context(), "")
			req.Body, req.GetBody, req.ContentLength = body, nil, -1
			if again {
				req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
			}
			before := *req
			var sent string
			rt := budget.NewTransport(trip(func(r *http.Request) (*http.Response, error) {
				data, err := io.ReadAll(r.Body)
				sent = string(data)
				_ = r.Body.Close()
				return answer(200, "{}"), err
			}), b)
			resp, err := rt.RoundTrip(req)
			if refuse != (err != nil) {
				t.Fatalf("refuse %v: err = %v", refuse, err)
			}
			if err == nil {
				_ = resp.Body.Close()
				if sent != text {
					t.Errorf("%d bytes were sent, want %d", len(sent), len(text))
				}
			}
			// The larger of two caps wins (BerriAI/litellm#37001).
			if asked < 10_000 {
				t.Errorf("estimate = %d, want the larger cap", asked)
			}
			equal(t, "closed", body.n.Load(), int32(1))
			if req.Body != before.Body || req.Context() != before.Context() || req.ContentLength != before.ContentLength {
				t.Error("the caller's request was changed")
			}
		}
	}
}

func TestTransportBodyThatFails(t *testing.T) {
	t.Parallel()
	no := errors.New("disk error")
	b := mustNew(t, budget.Config{Limit: 1000})
	rt := budget.NewTransport(trip(func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, nil }), b)
	body := &closes{Reader: io.MultiReader(strings.NewReader("x"), errReader{no})}
	req := post(t, t.Context(), "")
	req.Body, req.GetBody = body, nil
	_, err := rt.RoundTrip(req)
	if !errors.Is(err, no) || !call.NotSent(err) || body.n.Load() != 1 {
		t.Errorf("err = %v, body closed %d times", err, body.n.Load())
	}
	req = post(t, t.Context(), "x")
	req.GetBody = func() (io.ReadCloser, error) { return nil, no }
	if _, err := rt.RoundTrip(req); !errors.Is(err, no) {
		t.Errorf("err = %v", err)
	}
	equal(t, "spent", spent(t, b), int64(0))
}

type errReader struct{ error }

func (e errReader) Read([]byte) (int, error) { return 0, e.error }
