package retry_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
	"github.com/nightfuse/nightfuse/retry"
)

// R09, T53: the same bytes on every attempt, with keep-alive and without it.
func TestBodiesAreSentAgain(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", 1<<18) + "!" // one byte above 4 MiB
	for _, keep := range []bool{true, false} {
		for _, tc := range []struct {
			name  string
			body  func() io.Reader
			want  string
			calls int
		}{
			{"GetBody", func() io.Reader { return strings.NewReader("hello") }, "hello", 4},
			{"unknown length", func() io.Reader { return io.NopCloser(io.LimitReader(strings.NewReader("hello"), 5)) }, "hello", 4},
			{"nil", func() io.Reader { return nil }, "", 4},
			{"too large to keep", func() io.Reader { return io.NopCloser(io.LimitReader(strings.NewReader(big), 1<<30)) }, big, 1},
		} {
			sc := newScript(failWith(503))
			srv := serve(t, sc)
			base := &http.Transport{DisableKeepAlives: !keep}
			r := mustNew(t, noWait(retry.Config{}))
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, tc.body())
			if err != nil {
				t.Fatal(err)
			}
			_, err = (&http.Client{Transport: retry.NewTransport(base, r)}).Do(req)
			base.CloseIdleConnections()
			equal(t, fmt.Sprintf("%s, keep-alive %v: calls", tc.name, keep), sc.calls(), tc.calls)
			for _, h := range sc.seen() {
				if h.body != tc.want {
					t.Errorf("%s, keep-alive %v: the server got %d bytes, want %d", tc.name, keep, len(h.body), len(tc.want))
				}
				if tc.name == "GetBody" && h.length != int64(len(tc.want)) {
					t.Errorf("%s, keep-alive %v: Content-Length %d", tc.name, keep, h.length)
				}
			}
			if tc.calls == 1 && !errors.Is(err, retry.ErrReplay) {
				t.Errorf("%s: error %v does not say that the body cannot be sent again", tc.name, err)
			}
			equal(t, tc.name+": reported", asError(t, err).Calls, tc.calls)
		}
	}
}

// pooled returns a client behind a Transport and the URL of its server, which
// answers in this bubble. net/http gives up a connection whose request it has not
// seen written within 50 ms: of real time a loaded machine would now and then let
// more go by.
func pooled(t *testing.T, h http.Handler, r *retry.Retrier) (*http.Client, string) {
	t.Helper()
	srv := fakemodel.ServePipe(h)
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return &http.Client{Transport: retry.NewTransport(srv.Client().Transport, r)}, srv.URL
}

// newConns returns a context in which the connections that were not there before
// are counted.
func newConns(t *testing.T) (context.Context, *atomic.Int32) {
	n := new(atomic.Int32)
	return httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			n.Add(1)
		}
	}}), n
}

// R10, T51: rejected answers are drained and closed before the wait.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sc := newScript(step{status: 503, body: strings.Repeat("x", 20<<10)})
		c, url := pooled(t, sc, mustNew(t, noWait(retry.Config{Attempts: 10})))
		ctx, conns := newConns(t)
		_, err := c.Do(post(t, url, "{}").WithContext(ctx))
		equal(t, "calls", []int{asError(t, err).Calls, sc.calls()}, []int{10, 10})
		equal(t, "new connections", conns.Load(), 1)
	})
}

// T49 hashicorp/go-retryablehttp#98: a failed item leaves the pool alone.
func TestThePoolIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		c, url := pooled(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if fails.Load() {
				w.WriteHeader(503)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, goodBody)
		}), mustNew(t, noWait(retry.Config{})))
		ctx, conns := newConns(t)
		once := func() {
			resp, err := c.Do(post(t, url, "{}").WithContext(ctx))
			if err == nil {
				readAll(t, resp)
			}
		}
		for range 8 {
			once()
		}
		fails.Store(true)
		once()
		fails.Store(false)
		for range 8 {
			once()
		}
		equal(t, "connections", conns.Load(), 1)
	})
}

// R19: certificate errors are final.
func TestCertificateErrorsAreFinal(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(newScript(good))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	srv.StartTLS()
	defer srv.Close()
	elsewhere := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	elsewhere.ServerName = "elsewhere.invalid"
	for name, trust := range map[string]*tls.Config{"unknown authority": nil, "another host's": elsewhere} {
		var dials atomic.Int32
		base := &http.Transport{TLSClientConfig: trust, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, addr)
		}}
		_, err := retry.NewTransport(base, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, srv.URL, "{}"))
		base.CloseIdleConnections()
		equal(t, name+": dials", dials.Load(), 1)
		var ce *tls.CertificateVerificationError
		if !errors.As(err, &ce) || !errors.Is(err, retry.ErrFinal) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// R20: a POST on a connection that dies is an attempt like any other, with an
// Idempotency-Key too, which net/http would replay uncounted.
func TestPostOnADyingConnection(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var hits atomic.Int32
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				wg.Go(func() {
					defer conn.Close()
					br := bufio.NewReader(conn)
					for {
						req, err := http.ReadRequest(br)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, req.Body)
						if n := hits.Add(1); n == 2 {
							return // read, and closed without an answer
						}
						_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(goodBody), goodBody)
					}
				})
			}
		})
		r := mustNew(t, noWait(retry.Config{}))
		c := client(t, r)
		for range 2 {
			req := post(t, "http://"+ln.Addr().String(), "{}")
			if key != "" {
				req.Header.Set(key, "k1")
			}
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
		}
		equal(t, key+": hits and reported", []int{int(hits.Load()), int(r.Stats().Calls)}, []int{3, 3})
		c.CloseIdleConnections()
		_ = ln.Close()
		wg.Wait()
	}
}

// T59 projectdiscovery/retryablehttp-go#493: redirects are the client's.
func TestRedirectsAreTheClients(t *testing.T) {
	t.Parallel()
	var bodies []string
	var mu sync.Mutex
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		mu.Lock()
		bodies = append(bodies, req.URL.Path+" "+string(b))
		mu.Unlock()
		if req.URL.Path == "/a" {
			http.Redirect(w, req, "/b", http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, goodBody)
	}))
	r := mustNew(t, noWait(retry.Config{}))
	resp, err := client(t, r).Do(post(t, srv.URL+"/a", "hello"))
	noError(t, err)
	readAll(t, resp)
	equal(t, "bodies", bodies, []string{"/a hello", "/b hello"})
	s := r.Stats()
	equal(t, "items, calls, done, working", []int64{int64(s.Items), int64(s.Calls), int64(s.Done), s.Working}, []int64{2, 2, 2, 0})
}

// What a connection's trouble is worth. The kinds themselves are tested where
// they are told apart.
func TestTroubleOfConnections(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		err   error
		calls int
	}{
		{"refused", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, 4},
		{"reset", &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, 4},
		{"EOF", io.EOF, 4},
		{"a DNS server that is down", &net.DNSError{Err: "server misbehaving", Name: "upstream", IsTemporary: true}, 4},
		{"no such host", &net.DNSError{Err: "no such host", Name: "upstream", IsNotFound: true}, 1},
		{"nothing known", errors.New("it did not work"), 4},
	} {
		sc := newScript(step{err: tc.err})
		_, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
		equal(t, tc.name+": calls", sc.calls(), tc.calls)
		if !errors.Is(err, tc.err) || (tc.calls == 1) != errors.Is(err, retry.ErrFinal) {
			t.Errorf("%s: error %v", tc.name, err)
		}
	}
	req := post(t, "http://upstream/", "{}")
	req.URL.Scheme = "gopher"
	r := mustNew(t, noWait(retry.Config{}))
	_, err := client(t, r).Transport.RoundTrip(req)
	if !errors.Is(err, retry.ErrFinal) || r.Stats().Retries != 0 {
		t.Errorf("a bad URL: %v", err)
	}
}
