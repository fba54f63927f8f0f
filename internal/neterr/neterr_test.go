package neterr_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/internal/neterr"
)

// silent takes the complaints of servers whose clients misbehave on purpose.
var silent = log.New(io.Discard, "", 0)

// opaque hides a body's type, so that net/http cannot send it twice by itself.
type opaque struct{ io.Reader }

// post sends a POST to target and returns the error of the round trip, which
// must be one.
func post(t *testing.T, ctx context.Context, rt http.RoundTripper, target string) error {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, opaque{strings.NewReader("{}")})
	if err != nil {
		t.Fatal(err)
	}
	return send(t, rt, req)
}

func send(t *testing.T, rt http.RoundTripper, req *http.Request) error {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Fatal("no error")
	}
	return err
}

// transport returns a transport of its own, closed with the test.
func transport(t *testing.T, change func(*http.Transport)) *http.Transport {
	rt := &http.Transport{}
	if change != nil {
		change(rt)
	}
	t.Cleanup(rt.CloseIdleConnections)
	return rt
}

// serve answers every connection on a loopback port by f.
func serve(t *testing.T, f func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				f(c)
			}()
		}
	}()
	return l.Addr().String()
}

// closedPort returns an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// check wants err to be of a kind however it is wrapped.
func check(t *testing.T, ctx context.Context, err error, want neterr.Kind) {
	t.Helper()
	wrapped := map[string]error{
		"as it came":     err,
		"by http.Client": &url.Error{Op: "Post", URL: "http://h/?key=k", Err: err},
		"by fmt":         fmt.Errorf("call failed: %w", err),
	}
	for how, err := range wrapped {
		if got := neterr.Of(ctx, err); got != want {
			t.Errorf("%s: %v is %v, want %v", how, err, got, want)
		}
	}
}

func TestNeverSent(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		check(t, ctx, post(t, ctx, transport(t, nil), "http://"+closedPort(t)), neterr.Dial)
	})
	t.Run("port that cannot be", func(t *testing.T) {
		t.Parallel()
		check(t, ctx, post(t, ctx, transport(t, nil), "http://127.0.0.1:99999"), neterr.Bad)
	})
	for name, c := range map[string]struct {
		rcode byte
		want  neterr.Kind
	}{"NXDOMAIN": {3, neterr.NoHost}, "SERVFAIL": {2, neterr.Dial}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rt := transport(t, func(rt *http.Transport) {
				rt.DialContext = (&net.Dialer{Resolver: nameServer(t, c.rcode)}).DialContext
			})
			check(t, ctx, post(t, ctx, rt, "http://host.invalid."), c.want)
		})
	}
	t.Run("unknown authority", func(t *testing.T) {
		t.Parallel()
		srv := quietTLS(t, nil)
		check(t, ctx, post(t, ctx, transport(t, nil), srv.URL), neterr.Cert)
	})
	t.Run("another host's certificate", func(t *testing.T) {
		t.Parallel()
		srv := quietTLS(t, nil)
		rt := transport(t, func(rt *http.Transport) {
			rt.TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			rt.TLSClientConfig.ServerName = "other.invalid"
		})
		check(t, ctx, post(t, ctx, rt, srv.URL), neterr.Cert)
	})
	t.Run("server wants our certificate", func(t *testing.T) {
		t.Parallel()
		srv := quietTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12})
		check(t, ctx, post(t, ctx, srv.Client().Transport, srv.URL), neterr.Cert)
	})
	t.Run("server wants our certificate, TLS 1.3", func(t *testing.T) {
		t.Parallel()
		// The refusal comes after the client's side of the handshake is done: a
		// request would race with it, and a write may fail before the alert is
		// read.
		srv := quietTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13})
		conn, err := tls.Dial("tcp", srv.Listener.Addr().String(), srv.Client().Transport.(*http.Transport).TLSClientConfig)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, err = conn.Read(make([]byte, 1))
		check(t, ctx, err, neterr.Cert)
	})
	t.Run("no TLS version in common", func(t *testing.T) {
		t.Parallel()
		srv := quietTLS(t, &tls.Config{MinVersion: tls.VersionTLS13})
		rt := transport(t, func(rt *http.Transport) {
			rt.TLSClientConfig = srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			rt.TLSClientConfig.MaxVersion = tls.VersionTLS12
		})
		check(t, ctx, post(t, ctx, rt, srv.URL), neterr.Cert)
	})
	t.Run("TLS to plain HTTP", func(t *testing.T) {
		t.Parallel()
		srv := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(srv.Close)
		target := strings.Replace(srv.URL, "http:", "https:", 1)
		check(t, ctx, post(t, ctx, transport(t, nil), target), neterr.Bad)
		_, err := (&http.Client{Transport: transport(t, nil)}).Post(target, "", nil)
		if !errors.Is(err, http.ErrSchemeMismatch) {
			t.Fatal(err)
		}
		check(t, ctx, err, neterr.Bad)
	})
	t.Run("TLS to something else", func(t *testing.T) {
		t.Parallel()
		addr := serve(t, func(c net.Conn) { _, _ = io.WriteString(c, "220 mail ready\r\n"); _, _ = io.Copy(io.Discard, c) })
		check(t, ctx, post(t, ctx, transport(t, nil), "https://"+addr), neterr.Dial)
	})
	t.Run("TLS handshake time-out", func(t *testing.T) {
		t.Parallel()
		addr := serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		rt := transport(t, func(rt *http.Transport) { rt.TLSHandshakeTimeout = time.Millisecond })
		check(t, ctx, post(t, ctx, rt, "https://"+addr), neterr.Dial)
	})
	t.Run("proxy", func(t *testing.T) {
		t.Parallel()
		for status, want := range map[int]neterr.Kind{407: neterr.Bad, 403: neterr.Bad, 502: neterr.Dial, 503: neterr.Dial} {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }))
			t.Cleanup(srv.Close)
			rt := transport(t, through(srv.URL))
			resp, err := (&http.Client{Transport: rt}).Post("https://h.invalid", "application/json", strings.NewReader("{}"))
			if err == nil {
				_ = resp.Body.Close()
				t.Fatal("no error")
			}
			check(t, ctx, err, want)
			check(t, ctx, fmt.Errorf("ask: %w", err), want)
			if status != http.StatusProxyAuthRequired {
				want = neterr.Unknown // without the client's word nobody can tell whose text it is
			}
			check(t, ctx, post(t, ctx, rt, "https://h.invalid"), want)
		}
		check(t, ctx, post(t, ctx, transport(t, through("http://"+closedPort(t))), "https://h.invalid"), neterr.Dial)
	})
}

// A status text may as well be what a client of its own makes of an upstream's
// answer: that one was sent.
func TestStatusTexts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, status := range []int{400, 401, 403, 404, 408, 425, 429, 500, 502, 503, 504} {
		text := errors.New(http.StatusText(status))
		check(t, ctx, text, neterr.Unknown)
		check(t, ctx, fmt.Errorf("ask: %w", text), neterr.Unknown)
		check(t, ctx, &url.Error{Op: "Post", URL: "http://h.invalid/", Err: text}, neterr.Unknown)
		check(t, ctx, &url.Error{Op: "Post", URL: "https://h.invalid/", Err: fmt.Errorf("%w", text)}, neterr.Unknown)
	}
	for _, status := range []int{408, 425, 429} {
		check(t, ctx, &url.Error{Op: "Post", URL: "https://h.invalid/", Err: errors.New(http.StatusText(status))}, neterr.Unknown)
	}
}

func TestBare(t *testing.T) {
	t.Parallel()
	in := errors.New("the tunnel is gone")
	parse := &url.Error{Op: "parse", URL: "http://a b/", Err: in}
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{in, in},
		{&url.Error{Op: "Post", URL: "http://h/", Err: in}, in},
		{&url.Error{Op: "Get", URL: "http://h/", Err: parse}, parse},
	} {
		if got := neterr.Bare(c.err); got != c.want {
			t.Errorf("%v: got %v", c.err, got)
		}
	}
}

func through(proxy string) func(*http.Transport) {
	return func(rt *http.Transport) {
		u, err := url.Parse(proxy)
		rt.Proxy = func(*http.Request) (*url.URL, error) { return u, err }
	}
}

// quietTLS starts a TLS server that keeps its complaints to itself.
func quietTLS(t *testing.T, config *tls.Config) *httptest.Server {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.TLS = config
	srv.Config.ErrorLog = silent
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// nameServer returns a resolver whose every answer is rcode.
func nameServer(t *testing.T, rcode byte) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			buf[2] |= 0x80               // a response
			buf[3] = buf[3]&0xf0 | rcode // RFC 1035, section 4.1.1
			buf[10], buf[11] = 0, 0      // no additional records
			end := 12                    // the question alone goes back
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			_, _ = pc.WriteTo(buf[:min(end+5, n)], from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	request := func(change func(*http.Request)) *http.Request {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:1/", nil)
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		return req
	}
	for name, change := range map[string]func(*http.Request){
		"scheme":       func(r *http.Request) { r.URL.Scheme = "gopher" },
		"no scheme":    func(r *http.Request) { r.URL.Scheme = "" },
		"no host":      func(r *http.Request) { r.URL.Host = "" },
		"no URL":       func(r *http.Request) { r.URL = nil },
		"no header":    func(r *http.Request) { r.Header = nil },
		"method":       func(r *http.Request) { r.Method = "P OST" },
		"header name":  func(r *http.Request) { r.Header["a b"] = []string{"c"} },
		"header value": func(r *http.Request) { r.Header.Set("Authorization", "Bearer x\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, ctx, send(t, transport(t, nil), request(change)), neterr.Bad)
		})
	}
	for _, raw := range []string{"http://[::1", "http://h:port/", "http://h/%zz", "http://a b/"} {
		_, err := url.Parse(raw)
		if err == nil {
			t.Fatal(raw)
		}
		check(t, ctx, err, neterr.Bad)
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	sent := map[neterr.Kind]bool{
		neterr.None: false, neterr.Unknown: true, neterr.Dial: false, neterr.NoHost: false, neterr.Cert: false, neterr.Bad: false,
		neterr.Unsent: false, neterr.Broken: true, neterr.Timeout: true, neterr.Canceled: true, neterr.Deadline: true,
	}
	names := make(map[string]bool)
	for k, want := range sent {
		if k.Sent() != want {
			t.Errorf("%v: %v", k, k.Sent())
		}
		names[k.String()] = true
	}
	if len(names) != len(sent) || names["invalid"] {
		t.Errorf("names: %v", names)
	}
	if k := neterr.Of(t.Context(), nil); k != neterr.None {
		t.Error(k)
	}
	if s := neterr.Kind(99).String(); s != "invalid" {
		t.Error(s)
	}
}
