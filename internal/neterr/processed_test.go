package neterr_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/internal/neterr"
)

// readRequest reads one request off a connection.
func readRequest(c net.Conn) *bufio.Reader {
	r := bufio.NewReader(c)
	if req, err := http.ReadRequest(r); err == nil {
		_, _ = io.Copy(io.Discard, req.Body)
	}
	return r
}

func TestMaybeProcessed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, f := range map[string]func(net.Conn){
		"EOF":   func(c net.Conn) { readRequest(c) },
		"reset": func(c net.Conn) { readRequest(c); _ = c.(*net.TCPConn).SetLinger(0) },
		"garbage": func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "what is this\r\n\r\n")
		},
		"half a header": func(c net.Conn) { readRequest(c); _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le") },
		"half a body": func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal")
		},
		"half a chunk": func(c net.Conn) {
			readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhal")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, ctx, post(t, ctx, transport(t, nil), "http://"+serve(t, f)), neterr.Broken)
		})
	}
	t.Run("a dying connection used again", func(t *testing.T) {
		t.Parallel()
		addr := serve(t, func(c net.Conn) {
			r := readRequest(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			_, _ = http.ReadRequest(r)
		})
		rt := transport(t, nil)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr, opaque{strings.NewReader("{}")})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		check(t, ctx, post(t, ctx, rt, "http://"+addr), neterr.Broken)
	})
	t.Run("net/http's words", func(t *testing.T) {
		t.Parallel()
		// When the end of an idle connection is seen too late is a matter of
		// microseconds, and net/http does not export these.
		for _, text := range []string{
			"http: server closed idle connection",
			"net/http: HTTP/1.x transport connection broken: too many 1xx informational responses",
			"http2: client connection lost",
			"http2: client connection force closed via ClientConn.Close",
		} {
			check(t, ctx, errors.New(text), neterr.Broken)
		}
	})
	t.Run("nothing known", func(t *testing.T) {
		t.Parallel()
		check(t, ctx, errors.New("strange: http2 was mentioned"), neterr.Unknown)
		check(t, ctx, context.Canceled, neterr.Unknown) // somebody else's
	})
}

// hang is a server that reads the request and says nothing until the client
// goes.
func hang(t *testing.T, h2 bool) (*httptest.Server, <-chan struct{}) {
	arrived := make(chan struct{}, 8)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	srv.EnableHTTP2 = h2
	srv.Config.ErrorLog = silent
	if h2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv, arrived
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("headers, HTTP/2 %v", h2), func(t *testing.T) {
			t.Parallel()
			srv, _ := hang(t, h2)
			rt := srv.Client().Transport.(*http.Transport)
			rt.ResponseHeaderTimeout = 5 * time.Millisecond
			check(t, ctx, post(t, ctx, rt, srv.URL), neterr.Timeout)
		})
	}
	t.Run("own limit below the caller's context", func(t *testing.T) {
		t.Parallel()
		srv, arrived := hang(t, false)
		own, cancel := context.WithCancelCause(ctx)
		go func() { <-arrived; cancel(context.DeadlineExceeded) }()
		check(t, ctx, post(t, own, srv.Client().Transport, srv.URL), neterr.Timeout)
	})
	t.Run("read deadline", func(t *testing.T) {
		t.Parallel()
		srv, _ := hang(t, false)
		rt := transport(t, func(rt *http.Transport) {
			rt.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				if err == nil {
					err = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
				}
				return c, err
			}
		})
		check(t, ctx, post(t, ctx, rt, srv.URL), neterr.Timeout)
	})
	t.Run("http.Client", func(t *testing.T) {
		t.Parallel()
		srv, _ := hang(t, false)
		_, err := (&http.Client{Transport: srv.Client().Transport, Timeout: 5 * time.Millisecond}).Post(srv.URL, "", nil)
		check(t, ctx, err, neterr.Timeout)
	})
}

func TestTheCallersOwnEnd(t *testing.T) {
	t.Parallel()
	cause := errors.New("shutting down")
	for _, h2 := range []bool{false, true} {
		for name, end := range map[string]struct {
			make func(context.Context) (context.Context, func())
			want neterr.Kind
		}{
			"cancel": {func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithCancel(ctx)
				return ctx, cancel
			}, neterr.Canceled},
			"cancel with a cause": {func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithCancelCause(ctx)
				return ctx, func() { cancel(cause) }
			}, neterr.Canceled},
			"deadline": {func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
				t.Cleanup(cancel)
				return ctx, nil
			}, neterr.Deadline},
			"deadline with a cause": {func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Millisecond, cause)
				t.Cleanup(cancel)
				return ctx, nil
			}, neterr.Deadline},
		} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", name, h2), func(t *testing.T) {
				t.Parallel()
				srv, arrived := hang(t, h2)
				ctx, stop := end.make(t.Context())
				if stop != nil {
					go func() { <-arrived; stop() }()
				}
				err := post(t, ctx, srv.Client().Transport, srv.URL)
				<-ctx.Done()
				check(t, ctx, err, end.want)
				// Seen from above, where the context still lives, it is nobody's
				// cancel we know of, or a limit of our own.
				if k := neterr.Of(t.Context(), err); k == end.want {
					t.Errorf("known by its text: %v", err)
				}
			})
		}
	}
	t.Run("a failure beside a cancel", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		err := post(t, ctx, transport(t, nil), "http://"+closedPort(t))
		cancel()
		check(t, ctx, err, neterr.Dial)
	})
	t.Run("a failure after the deadline", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
		defer cancel()
		check(t, ctx, io.ErrUnexpectedEOF, neterr.Broken)
	})
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	t.Run("aborted by a real server", func(t *testing.T) {
		t.Parallel()
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		srv.EnableHTTP2 = true
		srv.StartTLS()
		t.Cleanup(srv.Close)
		err := post(t, ctx, srv.Client().Transport, srv.URL)
		if !strings.Contains(err.Error(), "stream error") {
			t.Fatalf("not an HTTP/2 error: %v", err)
		}
		check(t, ctx, err, neterr.Broken)
	})
	const (
		rst    = 3
		goAway = 7
	)
	number := func(ns ...uint32) (b []byte) {
		for _, n := range ns {
			b = binary.BigEndian.AppendUint32(b, n)
		}
		return b
	}
	for name, c := range map[string]struct {
		kind    byte
		stream  uint32
		payload []byte
		want    neterr.Kind
		text    string
	}{
		"refused":              {rst, 1, number(7), neterr.Unsent, "REFUSED_STREAM"},
		"reset":                {rst, 1, number(2), neterr.Broken, "INTERNAL_ERROR"},
		"calm":                 {rst, 1, number(11), neterr.Broken, "ENHANCE_YOUR_CALM"},
		"GOAWAY before ours":   {goAway, 0, number(0, 0), neterr.Unsent, "GOAWAY"},
		"GOAWAY after ours":    {goAway, 0, number(1, 0), neterr.Broken, "GOAWAY"},
		"GOAWAY with an error": {goAway, 0, number(1, 2), neterr.Broken, "GOAWAY"},
		"connection ends":      {0xff, 0, nil, neterr.Broken, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := serve(t, func(conn net.Conn) { frames(conn, c.kind, c.stream, c.payload) })
			rt := transport(t, func(rt *http.Transport) {
				rt.Protocols = new(http.Protocols)
				rt.Protocols.SetUnencryptedHTTP2(true)
			})
			err := post(t, ctx, rt, "http://"+addr)
			if !strings.Contains(err.Error(), c.text) {
				t.Fatalf("not the error meant: %v", err)
			}
			check(t, ctx, err, c.want)
		})
	}
}

// frames speaks just enough HTTP/2 (RFC 9113) to answer the end of a request
// with one frame, and to close.
func frames(c net.Conn, kind byte, stream uint32, payload []byte) {
	r := bufio.NewReader(c)
	if _, err := r.Discard(24); err != nil { // the client's preface
		return
	}
	write := func(kind, flags byte, stream uint32, payload []byte) {
		b := []byte{0, 0, byte(len(payload)), kind, flags}
		b = binary.BigEndian.AppendUint32(b, stream)
		_, _ = c.Write(append(b, payload...))
	}
	write(4, 0, 0, nil) // SETTINGS
	for {
		var h [9]byte
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return
		}
		if _, err := r.Discard(int(h[0])<<16 | int(h[1])<<8 | int(h[2])); err != nil {
			return
		}
		switch {
		case h[3] == 4 && h[4] == 0:
			write(4, 1, 0, nil)
		case h[3] == 0 && h[4]&1 != 0: // DATA, the end of the request
			if kind != 0xff {
				write(kind, 0, stream, payload)
			}
			return
		}
	}
}
