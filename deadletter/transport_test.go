package deadletter_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
)

// rounds is a base made of a function.
type rounds func(*http.Request) (*http.Response, error)

func (f rounds) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	return f(req)
}

func answer(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"up-1"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

const (
	goodAnswer  = `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a summary"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}`
	emptyAnswer = `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":0,"total_tokens":5}}`
	badAnswer   = `{"error":{"message":"cannot parse","type":"invalid_request_error","code":"bad_thing"}}`
)

func newQueue(t testing.TB, c deadletter.Config) *deadletter.Queue {
	t.Helper()
	if c.Name == "" {
		c.Name = "q"
	}
	if c.Store == nil {
		c.Store = deadletter.NewMemory()
	}
	q, err := deadletter.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// request returns a POST for an item; body may be any reader.
func request(t testing.TB, ctx context.Context, item string, body io.Reader) *http.Request {
	t.Helper()
	if item != "" {
		ctx = deadletter.WithItem(ctx, item, "kind", "test")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example/v1/chat/completions?tenant=7", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
}

// send sends req and reads the answer to its end.
func send(rt http.RoundTripper, req *http.Request) (int, string, error) {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	b, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	return resp.StatusCode, string(b), err
}

// refusal is what a guard says.
type refusal struct{ by string }

func (r refusal) Error() string     { return r.by + ": refused" }
func (r refusal) RefusedBy() string { return r.by }
func (r refusal) NotSent() bool     { return true }

// hinted is a failure that says when to come back.
type hinted struct{ at time.Time }

func (h hinted) Error() string              { return "wait hint beyond the limit" }
func (h hinted) RetryAt() (time.Time, bool) { return h.at, true }
func (h hinted) Attempts() int              { return 3 }
func (h hinted) StatusCode() int            { return 429 }

func TestWhatBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	later := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	reset := errors.New("read: connection reset by peer")
	tests := []struct {
		name     string
		base     func(*http.Request) (*http.Response, error)
		ctx      func(context.Context) (context.Context, context.CancelFunc)
		classify func(*http.Response, error) deadletter.Decision
		want     deadletter.Stats // Items is 1 and Name "q" in all
		check    func(t *testing.T, r deadletter.Record)
	}{
		{
			name: "success",
			base: func(*http.Request) (*http.Response, error) { return answer(200, goodAnswer), nil },
			want: deadletter.Stats{Done: 1},
		},
		{
			name: "status 400",
			base: func(*http.Request) (*http.Response, error) { return answer(400, badAnswer), nil },
			want: deadletter.Stats{Dead: 1},
			check: func(t *testing.T, r deadletter.Record) {
				if r.Status != 400 || r.UpstreamRequestID != "up-1" || r.Attempts != 1 || r.Signature == "" ||
					!strings.Contains(r.Err, "cannot parse") {
					t.Errorf("%+v", r)
				}
			},
		},
		{
			name: "status 503 without a body",
			base: func(*http.Request) (*http.Response, error) { return answer(503, ""), nil },
			want: deadletter.Stats{Dead: 1},
		},
		{
			name: "empty under 200",
			base: func(*http.Request) (*http.Response, error) { return answer(200, emptyAnswer), nil },
			want: deadletter.Stats{Dead: 1},
			check: func(t *testing.T, r deadletter.Record) {
				if !strings.Contains(r.Err, "empty") {
					t.Errorf("%+v", r)
				}
			},
		},
		{
			name: "error under 200",
			base: func(*http.Request) (*http.Response, error) { return answer(200, badAnswer), nil },
			want: deadletter.Stats{Dead: 1},
		},
		{
			name: "connection error",
			base: func(*http.Request) (*http.Response, error) { return nil, reset },
			want: deadletter.Stats{Dead: 1},
			check: func(t *testing.T, r deadletter.Record) {
				if r.Status != 0 || r.Attempts != 1 {
					t.Errorf("%+v", r)
				}
			},
		},
		{
			name: "no answer and no error",
			base: func(*http.Request) (*http.Response, error) { return nil, nil },
			want: deadletter.Stats{Dead: 1},
		},
		{
			name: "hint too long",
			base: func(*http.Request) (*http.Response, error) { return nil, hinted{later} },
			want: deadletter.Stats{Dead: 1},
			check: func(t *testing.T, r deadletter.Record) {
				if !r.RetryAfter.Equal(later) || r.Attempts != 3 || r.Status != 429 {
					t.Errorf("%+v", r)
				}
			},
		},
		{
			name: "deadline",
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithDeadline(ctx, time.Unix(0, 0))
			},
			base: func(req *http.Request) (*http.Response, error) { return nil, req.Context().Err() },
			want: deadletter.Stats{Dead: 1},
		},
		{
			name: "cancelled by the caller",
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return ctx, cancel
			},
			base: func(req *http.Request) (*http.Response, error) { return nil, req.Context().Err() },
			want: deadletter.Stats{Cancelled: 1},
		},
		{
			name: "refused",
			base: func(*http.Request) (*http.Response, error) { return nil, refusal{"breaker"} },
			want: deadletter.Stats{Pending: 1},
		},
		{
			name: "failed and then refused, with the failure told",
			base: func(req *http.Request) (*http.Response, error) {
				item := call.From(req.Context()).Item
				item.Sent()
				item.Fail(reset)
				item.Refuse(refusal{"breaker"})
				return nil, reset
			},
			want: deadletter.Stats{Pending: 1},
		},
		{
			name: "refused, told as an answer",
			base: func(req *http.Request) (*http.Response, error) {
				call.From(req.Context()).Item.Refuse(refusal{"budget"})
				return answer(503, badAnswer), nil
			},
			want: deadletter.Stats{Pending: 1},
		},
		{
			name: "a text in place of the error",
			base: func(req *http.Request) (*http.Response, error) {
				item := call.From(req.Context()).Item
				item.Sent()
				item.Sent()
				item.Fail(hinted{later})
				return nil, errors.New("client timeout exceeded")
			},
			want: deadletter.Stats{Dead: 1},
			check: func(t *testing.T, r deadletter.Record) {
				if r.Attempts != 3 || r.Status != 429 {
					t.Errorf("%+v", r)
				}
			},
		},
		{
			name:     "passed by Classify",
			classify: func(resp *http.Response, err error) deadletter.Decision { return deadletter.Pass },
			base:     func(*http.Request) (*http.Response, error) { return answer(404, badAnswer), nil },
			want:     deadletter.Stats{Passed: 1},
		},
		{
			name: "kept by Classify",
			classify: func(resp *http.Response, err error) deadletter.Decision {
				if err != nil || resp == nil {
					return deadletter.Auto
				}
				return deadletter.Keep
			},
			base: func(*http.Request) (*http.Response, error) { return answer(200, goodAnswer), nil },
			want: deadletter.Stats{Dead: 1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := deadletter.NewMemory()
			q := newQueue(t, deadletter.Config{Store: store, Classify: tt.classify})
			ctx := t.Context()
			if tt.ctx != nil {
				var cancel context.CancelFunc
				ctx, cancel = tt.ctx(ctx)
				defer cancel()
			}
			req := request(t, ctx, "item", strings.NewReader("the payload"))
			_, _, _ = send(deadletter.NewTransport(rounds(tt.base), q), req)
			tt.want.Name, tt.want.Items = "q", 1
			if tt.want.Dead > 0 {
				tt.want.Bytes = int64(len("the payload"))
			}
			if diff := cmp.Diff(q.Stats(), tt.want); diff != "" {
				t.Fatal(diff)
			}
			r, err := q.Get(t.Context(), "item")
			if tt.want.Dead == 0 {
				if !errors.Is(err, deadletter.ErrNotFound) {
					t.Errorf("a letter was stored: %+v, %v", r, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(r.Payload) != "the payload" || r.Method != http.MethodPost || r.Labels["kind"] != "test" || r.Queue != "q" {
				t.Errorf("%+v", r)
			}
			if tt.check != nil {
				tt.check(t, r)
			}
		})
	}
}

// A body without GetBody is sent in full by every attempt and kept
// (philippta/trip#1).
func TestPayloadFromAReader(t *testing.T) {
	t.Parallel()
	q := newQueue(t, deadletter.Config{})
	var seen []string
	base := rounds(func(req *http.Request) (*http.Response, error) {
		for range 3 {
			body, err := req.GetBody()
			if err != nil {
				return nil, err
			}
			b, err := io.ReadAll(body)
			if err != nil {
				return nil, err
			}
			seen = append(seen, string(b))
		}
		if req.ContentLength != 7 {
			t.Errorf("length %d, want 7", req.ContentLength)
		}
		return answer(500, ""), nil
	})
	body := &closing{Reader: strings.NewReader("seven b")}
	req := request(t, t.Context(), "item", body)
	before := *req
	if status, _, err := send(deadletter.NewTransport(base, q), req); status != 500 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	if req.Body != before.Body || req.GetBody != nil || req.ContentLength != before.ContentLength {
		t.Error("the caller's request was changed")
	}
	if body.closed != 1 {
		t.Errorf("the caller's body was closed %d times", body.closed)
	}
	r, err := q.Get(t.Context(), "item")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(seen, string(r.Payload)), []string{"seven b", "seven b", "seven b", "seven b"}); diff != "" {
		t.Error(diff)
	}
}

type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func (failing) Put(context.Context, deadletter.Record) error { return errFull }
