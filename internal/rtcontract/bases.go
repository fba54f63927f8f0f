package rtcontract

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// firstThen misbehaves on the first request and answers the others.
func firstThen(first func(*http.Request) (*http.Response, error)) roundTrip {
	var n atomic.Int32
	return func(req *http.Request) (*http.Response, error) {
		if n.Add(1) == 1 {
			return first(req)
		}
		consume(req)
		return answer(req, 200, goodAnswer), nil
	}
}

// neither is a base that returns (nil, nil).
func neither(t *testing.T, s Subject) {
	rt := s.New(t, firstThen(func(req *http.Request) (*http.Response, error) {
		consume(req)
		return nil, nil //nolint:nilnil // that is the fault
	}))
	b := new(bodies)
	resp, err := rt.RoundTrip(request(t.Context(), "http://upstream/v1", replayable, b))
	if err == nil && resp == nil {
		t.Error("RoundTrip = nil, nil")
	}
	if err == nil && resp != nil {
		_, _ = finish(resp)
	}
	b.check(t, "nil, nil")
	works(t, rt)
}

// both is a base that returns a response with an error.
func both(t *testing.T, s Subject) {
	closed := new(bodies)
	rt := s.New(t, roundTrip(func(req *http.Request) (*http.Response, error) {
		consume(req)
		resp := answer(req, 502, "{}")
		resp.Body = closed.make(strings.NewReader("{}"))
		return resp, errBase
	}))
	resp, err := rt.RoundTrip(request(t.Context(), "http://upstream/v1", replayable, nil))
	if resp != nil || err == nil {
		t.Errorf("RoundTrip = %v, %v, want no response beside the error", resp, err)
	}
	closed.check(t, "the response beside an error")
}

// panics is a base that panics: the value goes on, and nothing is held.
func panics(t *testing.T, s Subject) {
	rt := s.New(t, firstThen(func(req *http.Request) (*http.Response, error) {
		consume(req)
		panic("boom")
	}))
	b := new(bodies)
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v, want the base's own value", v)
			}
		}()
		_, _ = rt.RoundTrip(request(t.Context(), "http://upstream/v1", replayable, b))
	}()
	b.check(t, "panic")
	works(t, rt)
}

// goexits is a base that ends its goroutine.
func goexits(t *testing.T, s Subject) {
	rt := s.New(t, firstThen(func(req *http.Request) (*http.Response, error) {
		consume(req)
		runtime.Goexit()
		return nil, nil
	}))
	b := new(bodies)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = rt.RoundTrip(request(t.Context(), "http://upstream/v1", replayable, b))
		t.Error("the goroutine goes on")
	}()
	<-done
	b.check(t, "Goexit")
	works(t, rt)
}

// idler is a base that counts CloseIdleConnections.
type idler struct {
	roundTrip
	n int
}

func (i *idler) CloseIdleConnections() { i.n++ }

func unwraps(t *testing.T, s Subject) {
	base := &idler{}
	rt := s.New(t, base)
	if c, ok := rt.(interface{ CloseIdleConnections() }); !ok {
		t.Error("no CloseIdleConnections")
	} else if c.CloseIdleConnections(); base.n != 1 {
		t.Errorf("CloseIdleConnections came to the base %d times, want once", base.n)
	}
	for rt != http.RoundTripper(base) {
		u, ok := rt.(interface{ Unwrap() http.RoundTripper })
		if !ok {
			t.Fatalf("%T has no Unwrap", rt)
		}
		rt = u.Unwrap()
	}
}

// noGoroutineIsLeft makes failures of all kinds in a bubble: it does not end
// while a goroutine of its own is left.
func noGoroutineIsLeft(t *testing.T, s Subject) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		rt := s.New(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			consume(req)
			switch n++; n % 4 {
			case 0:
				return nil, errBase
			case 1:
				return answer(req, 200, `{"error":{"code":503,"message":"no"}}`), nil
			case 2:
				resp := answer(req, 200, "")
				resp.Header.Set("Content-Type", "text/event-stream")
				resp.ContentLength, resp.Body = -1, io.NopCloser(strings.NewReader("data: {\"error\":{\"code\":503}}\n\n"))
				return resp, nil
			}
			return answer(req, 503, "{}"), nil
		}))
		for range 500 {
			resp, err := rt.RoundTrip(request(t.Context(), "http://upstream/v1", replayable, nil))
			if err == nil {
				_, _ = finish(resp)
			}
		}
	})
}

// silentFailure is an answer that reports a failure and never says why: nobody
// may wait for its body, which is the caller's, in full and to be closed.
func silentFailure(t *testing.T, s Subject) {
	const head, rest = `{"error":{"message":"the first half`, ` and the second"}}`
	for _, status := range []int{400, 401, 404, 500, 503} {
		for _, closed := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				goOn := make(chan struct{})
				rt := s.New(t, roundTrip(func(req *http.Request) (*http.Response, error) {
					consume(req)
					r, w := io.Pipe()
					go func() {
						if _, err := io.WriteString(w, head); err != nil {
							return // closed
						}
						<-goOn
						_, err := io.WriteString(w, rest)
						_ = w.CloseWithError(err)
					}()
					resp := answer(req, status, "")
					resp.ContentLength, resp.Body = -1, r
					return resp, nil
				}))
				limit := time.NewTimer(time.Minute)
				resp, err := rt.RoundTrip(request(t.Context(), "http://upstream/v1", replayable, nil))
				if !limit.Stop() {
					t.Errorf("%d: came after more than a minute", status)
				}
				switch {
				case err != nil: // of a retry
				case closed:
					// Beside a read in the background, which it ends.
					_ = resp.Body.Close()
				default:
					close(goOn)
					if body, err := finish(resp); body != head+rest || err != nil {
						t.Errorf("%d: got %q, %v", status, body, err)
					}
				}
				if closed || err != nil {
					synctest.Wait()
					close(goOn) // only now: none of our goroutines may need it
				}
			})
		}
	}
}
