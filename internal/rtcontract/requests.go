package rtcontract

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// outcomes are bases that answer in every way there is.
func outcomes() map[string]roundTrip {
	return map[string]roundTrip{
		"200": func(req *http.Request) (*http.Response, error) {
			consume(req)
			return answer(req, 200, goodAnswer), nil
		},
		"400": func(req *http.Request) (*http.Response, error) { consume(req); return answer(req, 400, "{}"), nil },
		"503": func(req *http.Request) (*http.Response, error) { consume(req); return answer(req, 503, "{}"), nil },
		"an error": func(req *http.Request) (*http.Response, error) {
			consume(req)
			return nil, errBase
		},
	}
}

// frozen is what of a request must stay as it is.
type frozen struct {
	method, url, host, user string
	header                  http.Header
	length                  int64
	getBody, body           bool
	form                    bool
	close                   bool
	encoding                []string
	trailer                 http.Header
}

func freeze(req *http.Request) frozen {
	return frozen{
		method: req.Method, url: req.URL.String(), host: req.Host, user: req.URL.User.String(), header: req.Header.Clone(),
		length: req.ContentLength, getBody: req.GetBody != nil, body: req.Body != nil, form: req.Form != nil,
		close: req.Close, encoding: slices.Clone(req.TransferEncoding), trailer: req.Trailer.Clone(),
	}
}

func (f frozen) same(g frozen) bool {
	return fmt.Sprint(f) == fmt.Sprint(g) && maps.EqualFunc(f.header, g.header, slices.Equal)
}

func requestIsNotModified(t *testing.T, s Subject) {
	for name, base := range outcomes() {
		for sh := range shapes {
			rt := s.New(t, base)
			req := request(t.Context(), "http://upstream/v1?key=abc", sh, nil)
			before, body, ctx, url := freeze(req), req.Body, req.Context(), req.URL
			resp, err := rt.RoundTrip(req)
			if (resp == nil) == (err == nil) {
				t.Errorf("%s, %v: RoundTrip = %v, %v", name, sh, resp, err)
			}
			if resp != nil {
				if resp.Request != req {
					t.Errorf("%s, %v: Response.Request is not the caller's request", name, sh)
				}
				_, _ = finish(resp)
			}
			if after := freeze(req); !before.same(after) || req.Body != body || req.Context() != ctx || req.URL != url {
				t.Errorf("%s, %v: the request was modified:\nbefore %+v\nafter  %+v", name, sh, before, after)
			}
		}
	}
}

func bodyIsClosedOnce(t *testing.T, s Subject) {
	for name, base := range outcomes() {
		for sh := range shapes {
			b := new(bodies)
			resp, err := s.New(t, base).RoundTrip(request(t.Context(), "http://upstream/v1", sh, b))
			if err == nil {
				_, _ = finish(resp)
			}
			b.check(t, fmt.Sprintf("%s, %v", name, sh))
		}
	}
	for sh := range shapes {
		b := new(bodies)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		resp, err := s.New(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			consume(req)
			return nil, req.Context().Err()
		})).RoundTrip(request(ctx, "http://upstream/v1", sh, b))
		if err == nil {
			_, _ = finish(resp)
			t.Errorf("%v: a cancelled request got %d", sh, resp.StatusCode)
		}
		b.check(t, "cancelled before, "+sh.String())
	}
}

func bodyIsClosedOnRefusal(t *testing.T, s Subject) {
	if s.Refusing == nil {
		t.Skip("the transport does not refuse")
	}
	for sh := range shapes {
		b := new(bodies)
		sent := 0
		rt := s.Refusing(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			sent++
			consume(req)
			return answer(req, 200, goodAnswer), nil
		}))
		sent = 0 // what it took to bring it there
		req := request(t.Context(), "http://upstream/v1", sh, b)
		before := freeze(req)
		resp, err := rt.RoundTrip(req)
		if err == nil {
			if resp.StatusCode < 400 {
				t.Errorf("%v: a refused request got %d", sh, resp.StatusCode)
			}
			_, _ = finish(resp)
		}
		if sent != 0 {
			t.Errorf("%v: %d calls were sent, want none", sh, sent)
		}
		if !before.same(freeze(req)) {
			t.Errorf("%v: the request was modified", sh)
		}
		b.check(t, "refused, "+sh.String())
	}
}

// equalBytes has a real server fail until the last attempt.
func equalBytes(t *testing.T, s Subject) {
	for w := range wires {
		for sh := range shapes {
			for _, key := range []string{"", "Idempotency-Key"} {
				what := fmt.Sprintf("%v, %v, %q", w, sh, key)
				var mu sync.Mutex
				var got []string
				url, base := serve(t, w, func(rw http.ResponseWriter, req *http.Request) {
					body, err := io.ReadAll(req.Body)
					mu.Lock()
					got = append(got, string(body))
					n := len(got)
					mu.Unlock()
					if err != nil || n < s.Attempts {
						rw.WriteHeader(503)
						return
					}
					rw.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(rw, goodAnswer)
				})
				rt := s.New(t, base)
				b := new(bodies)
				req := request(t.Context(), url, sh, b)
				if key != "" {
					req.Header.Set(key, "k-1")
				}
				resp, err := rt.RoundTrip(req)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				if body, err := finish(resp); body != goodAnswer || err != nil || resp.StatusCode != 200 {
					t.Errorf("%s: the caller gets %d %q, %v", what, resp.StatusCode, body, err)
				}
				want := goodRequest
				if sh == none {
					want = ""
				}
				mu.Lock()
				if len(got) != s.Attempts {
					t.Errorf("%s: %d hits, want %d", what, len(got), s.Attempts)
				}
				for i, body := range got {
					if body != want {
						t.Errorf("%s: hit %d got %q, want %q", what, i+1, body, want)
					}
				}
				mu.Unlock()
			}
		}
	}
}
