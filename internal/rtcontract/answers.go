package rtcontract

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

func answerIsPassedOn(t *testing.T, s Subject) {
	large := `{"choices":[{"finish_reason":"stop","message":{"content":"` + strings.Repeat("x", 5<<20) + `"}}]}`
	for w := range wires {
		for _, tc := range []struct {
			name, kind, body string
			status           int
		}{
			{"JSON", "application/json", goodAnswer, 200},
			{"large JSON", "application/json", large, 200},
			{"bytes", "application/octet-stream", "\x00\x01" + strings.Repeat("\xff", 100<<10), 200},
			{"an error about the request", "application/json", `{"error":{"message":"` + strings.Repeat("y", 20<<10) + `"}}`, 400},
		} {
			if len(tc.body) > 1<<20 && w != keepAlive {
				continue // once is enough for its size
			}
			url, base := serve(t, w, func(rw http.ResponseWriter, req *http.Request) {
				consume(req) // a connection that closes over what was not read is reset
				rw.Header().Set("Content-Type", tc.kind)
				rw.Header().Set("X-Request-Id", "r-1")
				rw.WriteHeader(tc.status)
				_, _ = io.WriteString(rw, tc.body)
			})
			resp, err := s.New(t, base).RoundTrip(request(t.Context(), url, replayable, nil))
			if err != nil {
				t.Errorf("%v, %s: %v", w, tc.name, err)
				continue
			}
			body, err := finish(resp)
			if err != nil || body != tc.body || resp.StatusCode != tc.status || resp.Header.Get("X-Request-Id") != "r-1" {
				t.Errorf("%v, %s: got %d, %d of %d bytes, %v", w, tc.name, resp.StatusCode, len(body), len(tc.body), err)
			}
		}
	}
}

// streamsPass sends an event only when the one before has been read.
func streamsPass(t *testing.T, s Subject) {
	events := []string{
		": a comment\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" you\"},\"finish_reason\":null}]}\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
		"data: [DONE]\n\n",
	}
	for w := range wires {
		read := make(chan struct{})
		url, base := serve(t, w, func(rw http.ResponseWriter, req *http.Request) {
			consume(req) // before that the server does not see the client go
			rw.Header().Set("Content-Type", "text/event-stream")
			for _, e := range events {
				_, _ = io.WriteString(rw, e)
				rw.(http.Flusher).Flush()
				select {
				case <-read:
				case <-req.Context().Done():
					return
				}
			}
		})
		resp, err := s.New(t, base).RoundTrip(request(t.Context(), url, replayable, nil))
		if err != nil {
			t.Errorf("%v: %v", w, err)
			continue
		}
		br := bufio.NewReader(resp.Body)
		for _, e := range events {
			got := make([]byte, len(e))
			if _, err := io.ReadFull(br, got); err != nil || string(got) != e {
				t.Fatalf("%v: got %q, %v, want %q", w, got, err, e)
			}
			read <- struct{}{}
		}
		if rest, err := io.ReadAll(br); err != nil || len(rest) > 0 {
			t.Errorf("%v: after the last event %q, %v", w, rest, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Errorf("%v: Close: %v", w, err)
		}
	}
}

// upgradesPass checks that the body of a 101 can be written to.
func upgradesPass(t *testing.T, s Subject) {
	url, base := serve(t, keepAlive, func(rw http.ResponseWriter, req *http.Request) {
		conn, buf, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, err := buf.ReadString('\n')
		if err == nil {
			_, _ = io.WriteString(conn, "echo "+line)
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := s.New(t, base).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	rw, ok := resp.Body.(io.ReadWriter)
	if resp.StatusCode != 101 || !ok {
		t.Fatalf("status %d, the body can be written to: %v", resp.StatusCode, ok)
	}
	if _, err := io.WriteString(rw, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(rw).ReadString('\n'); line != "echo hello\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

func redirects(t *testing.T, s Subject) {
	for w := range wires {
		var mu sync.Mutex
		var got []string
		url, base := serve(t, w, func(rw http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			mu.Lock()
			got = append(got, req.URL.Path+" "+string(body))
			mu.Unlock()
			if req.URL.Path == "/a" {
				http.Redirect(rw, req, "/b", http.StatusTemporaryRedirect)
				return
			}
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, goodAnswer)
		})
		c := &http.Client{Transport: s.New(t, base)}
		resp, err := c.Do(request(t.Context(), url+"/a", replayable, nil))
		if err != nil {
			t.Errorf("%v: %v", w, err)
			continue
		}
		if body, err := finish(resp); body != goodAnswer || err != nil {
			t.Errorf("%v: got %q, %v", w, body, err)
		}
		mu.Lock()
		if want := []string{"/a " + goodRequest, "/b " + goodRequest}; !slices.Equal(got, want) {
			t.Errorf("%v: the server got %q, want %q", w, got, want)
		}
		mu.Unlock()
	}
}

func answersWithoutBody(t *testing.T, s Subject) {
	for w := range wires {
		url, base := serve(t, w, func(rw http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodHead {
				rw.Header().Set("Content-Length", "4000000")
				return
			}
			rw.WriteHeader(http.StatusNoContent)
		})
		rt := s.New(t, base)
		for _, method := range []string{http.MethodHead, http.MethodDelete} {
			req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Errorf("%v, %s: %v", w, method, err)
				continue
			}
			if resp.Body == nil {
				t.Errorf("%v, %s: the body is nil", w, method)
				continue
			}
			if body, err := finish(resp); body != "" || err != nil || resp.StatusCode >= 300 {
				t.Errorf("%v, %s: got %d %q, %v", w, method, resp.StatusCode, body, err)
			}
		}
	}
}

func cancelInFlight(t *testing.T, s Subject) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := new(bodies)
		rt := s.New(t, roundTrip(func(req *http.Request) (*http.Response, error) {
			consume(req)
			cancel()
			<-req.Context().Done()
			return nil, req.Context().Err()
		}))
		resp, err := rt.RoundTrip(request(ctx, "http://upstream/v1", replayable, b))
		if resp != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("RoundTrip = %v, %v", resp, err)
		}
		b.check(t, "cancelled in flight")
	})
}

func cancelWhileReading(t *testing.T, s Subject) {
	for w := range wires {
		url, base := serve(t, w, func(rw http.ResponseWriter, req *http.Request) {
			consume(req) // before that the server does not see the client go
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, ": hello\n\n")
			rw.(http.Flusher).Flush()
			<-req.Context().Done()
		})
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := s.New(t, base).RoundTrip(request(ctx, url, replayable, nil))
		if err != nil {
			t.Errorf("%v: %v", w, err)
			cancel()
			continue
		}
		first := make([]byte, 9)
		if _, err := io.ReadFull(resp.Body, first); err != nil {
			t.Errorf("%v: %v", w, err)
		}
		cancel()
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: reading on after the cancel: %v", w, err)
		}
		_ = resp.Body.Close()
	}
}

// closeBesideRead closes a stream while a Read is blocked, as http.Client's
// time limits do; the race detector looks on.
func closeBesideRead(t *testing.T, s Subject) {
	for w := range wires {
		url, base := serve(t, w, func(rw http.ResponseWriter, req *http.Request) {
			consume(req) // before that the server does not see the client go
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, ": hello\n\n")
			rw.(http.Flusher).Flush()
			<-req.Context().Done()
		})
		resp, err := s.New(t, base).RoundTrip(request(t.Context(), url, replayable, nil))
		if err != nil {
			t.Errorf("%v: %v", w, err)
			continue
		}
		started := make(chan struct{})
		ended := make(chan error)
		go func() {
			_, err := io.ReadFull(resp.Body, make([]byte, 9))
			close(started)
			if err == nil {
				_, err = resp.Body.Read(make([]byte, 1))
			}
			ended <- err
		}()
		<-started
		_ = resp.Body.Close()
		if err := <-ended; err == nil {
			t.Errorf("%v: a Read goes on after Close", w)
		}
	}
}

func manyAtOnce(t *testing.T, s Subject) {
	for w := range wires {
		url, base := serve(t, w, func(rw http.ResponseWriter, req *http.Request) {
			body, err := io.ReadAll(req.Body)
			if err != nil || string(body) != goodRequest {
				rw.WriteHeader(400)
				return
			}
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, goodAnswer)
		})
		rt := s.New(t, base)
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for range 3 {
					resp, err := rt.RoundTrip(request(t.Context(), url, shape(i%int(none)), nil))
					if err != nil {
						t.Errorf("%v: %v", w, err)
						return
					}
					if body, err := finish(resp); body != goodAnswer || err != nil {
						t.Errorf("%v: got %d %q, %v", w, resp.StatusCode, body, err)
					}
				}
			})
		}
		wg.Wait()
	}
}
