package deadletter_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/chain"
)

const stream = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"a word\"}}]}\n\n" +
	"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
	"data: [DONE]\n\n"

// breaking gives some bytes and then an error.
type breaking struct {
	io.Reader
	err error
}

func (b *breaking) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = b.err
	}
	return n, err
}

func (b *breaking) Close() error { return nil }

func streamed(r io.Reader, err error) *http.Response {
	resp := answer(200, "")
	resp.Header.Set("Content-Type", "text/event-stream")
	resp.ContentLength = -1
	resp.Body = &breaking{r, err}
	return resp
}

// A stream is judged as it is read, and its letter is there before the Read
// that ends it returns.
func TestStreams(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset by peer")
	half := stream[:len(stream)/2]
	tests := map[string]struct {
		resp func() *http.Response
		read func(t *testing.T, cancel func(), body io.ReadCloser)
		want deadletter.Stats
	}{
		"whole": {
			resp: func() *http.Response { return streamed(strings.NewReader(stream), io.EOF) },
			want: deadletter.Stats{Items: 1, Done: 1},
		},
		"broken off": {
			resp: func() *http.Response { return streamed(strings.NewReader(half), reset) },
			want: deadletter.Stats{Items: 1, Dead: 1, Bytes: 1},
		},
		"closed early": {
			resp: func() *http.Response { return streamed(strings.NewReader(stream), io.EOF) },
			read: func(t *testing.T, _ func(), body io.ReadCloser) {
				_, _ = io.ReadFull(body, make([]byte, 10))
				_ = body.Close()
			},
			want: deadletter.Stats{Items: 1, Done: 1},
		},
		"cancelled while read": {
			resp: func() *http.Response { return streamed(strings.NewReader(half), context.Canceled) },
			read: func(t *testing.T, cancel func(), body io.ReadCloser) {
				cancel()
				_, _ = io.Copy(io.Discard, body)
				_ = body.Close()
			},
			want: deadletter.Stats{Items: 1, Cancelled: 1},
		},
		"never closed": {
			resp: func() *http.Response { return streamed(strings.NewReader(stream), io.EOF) },
			read: func(*testing.T, func(), io.ReadCloser) {},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, deadletter.Config{})
			rt := deadletter.NewTransport(rounds(func(*http.Request) (*http.Response, error) { return tt.resp(), nil }), q)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			resp, err := rt.RoundTrip(request(t, ctx, "item", strings.NewReader("p")))
			if err != nil {
				t.Fatal(err)
			}
			if s := q.Stats(); s.Items != 0 {
				t.Errorf("judged before it was read: %+v", s)
			}
			if tt.read == nil {
				b, err := io.ReadAll(resp.Body)
				if name == "whole" && (string(b) != stream || err != nil) {
					t.Errorf("read %q, %v", b, err)
				}
				if s := q.Stats(); s.Items != 1 {
					t.Errorf("not judged when it ended: %+v", s)
				}
				_ = resp.Body.Close()
			} else {
				tt.read(t, cancel, resp.Body)
			}
			tt.want.Name = "q"
			if diff := cmp.Diff(q.Stats(), tt.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// retried is the body of a retry's answer in place of its error.
type retried struct {
	io.ReadCloser
	err error
}

func (r retried) Err() error { return r.err }

func TestAnswerInPlaceOfAnError(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want deadletter.Stats
	}{
		"exhausted": {hinted{}, deadletter.Stats{Name: "q", Items: 1, Dead: 1, Bytes: 1}},
		"refused":   {refusal{"breaker"}, deadletter.Stats{Name: "q", Items: 1, Pending: 1}},
	} {
		q := newQueue(t, deadletter.Config{})
		rt := deadletter.NewTransport(rounds(func(*http.Request) (*http.Response, error) {
			resp := answer(503, "")
			resp.Body = retried{resp.Body, tt.err}
			return resp, nil
		}), q)
		if status, _, err := send(rt, request(t, t.Context(), "item", strings.NewReader("p"))); status != 503 || err != nil {
			t.Errorf("%s: %d, %v", name, status, err)
		}
		if diff := cmp.Diff(q.Stats(), tt.want); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if r, err := q.Get(t.Context(), "item"); err == nil && (r.Attempts != 3 || r.Status != 429) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// inner is a transport of ours with a rank.
type inner struct{ chain.Link }

func (i *inner) RoundTrip(req *http.Request) (*http.Response, error) { return i.Base().RoundTrip(req) }
func (i *inner) Unwrap() http.RoundTripper                           { return i.Base() }

// Inside a retry it would keep every failed attempt (ThreeDotsLabs/watermill#645).
func TestWrongOrderIsTold(t *testing.T) {
	t.Parallel()
	q := newQueue(t, deadletter.Config{})
	part := new(int)
	good := deadletter.NewTransport(&inner{chain.New(chain.Retry, part, false, nil)}, q)
	if err := good.Err(); err != nil {
		t.Errorf("around a retry: %v", err)
	}
	bad := chain.New(chain.Retry, part, false, deadletter.NewTransport(nil, q))
	if err := bad.LinkErr(); !errors.Is(err, chain.ErrOrder) {
		t.Errorf("inside a retry: %v", err)
	}
	twice := deadletter.NewTransport(deadletter.NewTransport(rounds(func(*http.Request) (*http.Response, error) {
		return answer(400, ""), nil
	}), q), q)
	_, _, _ = send(twice, request(t, t.Context(), "item", strings.NewReader("p")))
	if s := q.Stats(); s.Dead != 1 {
		t.Errorf("met twice: %+v", s)
	}
}

// An item with several requests is open as long as its latest was refused.
func TestItemOfSeveralRequests(t *testing.T) {
	t.Parallel()
	q := newQueue(t, deadletter.Config{})
	refuse := true
	rt := rounds(func(req *http.Request) (*http.Response, error) {
		item := call.From(req.Context()).Item
		if refuse {
			item.Refuse(refusal{"budget"})
			return nil, errors.New("a text in place of the refusal")
		}
		item.Pass()
		return answer(200, goodAnswer), nil
	})
	fetch := func(ctx context.Context) error {
		_, _, err := send(rt, request(t, ctx, "", nil))
		return err
	}
	item := deadletter.WithItem(t.Context(), "item")
	if err := q.Do(item, []byte("p"), fetch); err == nil || q.Stats().Pending != 1 {
		t.Errorf("%v, %+v", err, q.Stats())
	}
	refuse = false
	err := q.Do(item, []byte("p"), func(ctx context.Context) error {
		return errors.Join(fetch(ctx), errors.New("the answer does not parse"))
	})
	if err == nil || q.Stats().Dead != 1 {
		t.Errorf("%v, %+v", err, q.Stats())
	}
}
