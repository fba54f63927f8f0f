package signature_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// lab is what failures are provoked with: servers on loopback over both
// families of addresses, and conversations in memory where sockets would add
// nothing to the error.
type lab struct {
	silent  []string // servers that accept and say nothing
	resets  []string // servers that reset what they accept
	refused []string // ports that are taken and do not listen
	boxes   []box    // servers with certificates
}

// newLab starts the servers; they end with the test.
func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{}
	for _, host := range []string{"127.0.0.1", "::1"} {
		for range 6 {
			silent, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			if err != nil {
				t.Logf("no listener on %s: %v", host, err)
				break
			}
			l.silent = append(l.silent, silent.Addr().String())
			serve(t, silent, func(*net.TCPConn) {})
			// The local port of a connection is taken, so nobody can listen there.
			c, err := net.Dial("tcp", silent.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			l.refused = append(l.refused, c.LocalAddr().String())

			resets, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			if err != nil {
				t.Fatal(err)
			}
			l.resets = append(l.resets, resets.Addr().String())
			serve(t, resets, func(c *net.TCPConn) {
				_, _ = c.Read(make([]byte, 1))
				_ = c.SetLinger(0)
				c.Close()
			})
		}
	}
	for i := range l.silent {
		host, _, _ := net.SplitHostPort(l.silent[i])
		l.boxes = append(l.boxes, newBox(t, i*i, host))
	}
	if len(l.silent) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("no loopback: the failures of real connections cannot be made")
		}
		t.Skip("no loopback")
	}
	return l
}

// serve accepts until the test ends and keeps what do leaves open.
func serve(t *testing.T, ln net.Listener, do func(*net.TCPConn)) {
	done := make(chan struct{})
	var open []net.Conn
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open = append(open, c)
			go do(c.(*net.TCPConn))
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
		for _, c := range open {
			c.Close()
		}
	})
}

// vary draws what differs from one occurrence of a failure to the next.
type vary struct{ *rand.Rand }

func (v vary) one(list []string) string { return list[v.IntN(len(list))] }

// url has one host, since the name of a host is part of the failure.
func (v vary) url(scheme string) string {
	port := ""
	if v.IntN(2) == 0 {
		port = fmt.Sprintf(":%d", 1+v.IntN(65535))
	}
	return fmt.Sprintf("%s://api.example.net%s/v1/items/%x?key=%x&page=%d", scheme, port, v.Uint64(), v.Uint64(), v.IntN(99))
}

// get asks for an URL over what dial gives.
func (v vary) get(scheme string, tr *http.Transport, dial func(ctx context.Context) (net.Conn, error)) error {
	tr.DisableKeepAlives = true
	tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get(v.url(scheme))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	return err
}

// dial dials an address of list for real.
func (v vary) dial(list []string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", v.one(list))
	}
}

// pipe gives a connection whose other end is served by f and then closed.
func pipe(f func(net.Conn)) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		c, s := net.Pipe()
		go func() {
			defer s.Close()
			f(s)
		}()
		return c, nil
	}
}

// hold reads until the other end closes.
func hold(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// readRequest reads the head of a request.
func readRequest(c net.Conn) {
	_, _ = http.ReadRequest(bufio.NewReader(c))
}

// conn is an open connection to a server that says nothing.
func (v vary) conn(l *lab) (net.Conn, error) { return v.dial(l.silent)(context.Background()) }

// broken gives a connection that was reset, and the error that said so. The
// caller closes it.
func (v vary) broken(l *lab) (net.Conn, error) {
	c, err := v.dial(l.resets)(context.Background())
	if err != nil {
		return nil, err
	}
	if _, err = c.Write(make([]byte, 1)); err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	return c, err
}

var past = time.Unix(1, 0)

// failure is a way for a call to fail, provoked on each run of make.
type failure struct {
	name string
	make func(*lab, vary) error
}

var failures = []failure{
	{"refused", func(l *lab, v vary) error { return v.get("https", &http.Transport{}, v.dial(l.refused)) }},
	{"reset", func(l *lab, v vary) error {
		c, err := v.broken(l)
		if c != nil {
			c.Close()
		}
		return err
	}},
	{"broken pipe", func(l *lab, v vary) error {
		c, err := v.broken(l)
		if c == nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(make([]byte, 1))
		return err
	}},
	{"dial timeout", func(l *lab, v vary) error {
		return v.get("https", &http.Transport{}, func(ctx context.Context) (net.Conn, error) {
			d := net.Dialer{Deadline: past}
			return d.DialContext(ctx, "tcp", v.one(l.silent))
		})
	}},
	{"read timeout", func(l *lab, v vary) error {
		c, err := v.conn(l)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetReadDeadline(past)
		_, err = c.Read(make([]byte, 1))
		return err
	}},
	{"closed", func(l *lab, v vary) error {
		c, err := v.conn(l)
		if err != nil {
			return err
		}
		c.Close()
		_, err = c.Read(make([]byte, 1))
		return err
	}},
	{"dns", func(_ *lab, v vary) error { return v.lookup(answerNoName, 0) }},
	{"dns timeout", func(_ *lab, v vary) error { return v.lookup(hold, time.Duration(1+v.IntN(1000))*time.Microsecond) }},
	{"tls name", func(l *lab, v vary) error {
		x := l.boxes[v.IntN(len(l.boxes))]
		return v.get("https", &http.Transport{TLSClientConfig: clientTLS(x.trusted)}, v.dial([]string{x.other}))
	}},
	{"tls authority", func(l *lab, v vary) error {
		x := l.boxes[v.IntN(len(l.boxes))]
		pool := x509.NewCertPool()
		if v.IntN(2) == 0 { // the text then guesses at an authority of the same name
			pool = x.namesake
		}
		return v.get("https", &http.Transport{TLSClientConfig: clientTLS(pool)}, v.dial([]string{x.right}))
	}},
	{"tls handshake", func(_ *lab, v vary) error {
		return v.get("https", &http.Transport{TLSHandshakeTimeout: time.Nanosecond, TLSClientConfig: clientTLS(nil)}, pipe(hold))
	}},
	{"goaway", func(_ *lab, v vary) error {
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetUnencryptedHTTP2(true)
		return v.get("http", tr, pipe(v.goAway()))
	}},
	{"eof", func(_ *lab, v vary) error { return v.get("http", &http.Transport{}, pipe(readRequest)) }},
	{"unexpected eof", func(_ *lab, v vary) error {
		n, more := v.IntN(900), 1+v.IntN(99)
		return v.get("http", &http.Transport{}, pipe(func(c net.Conn) {
			readRequest(c)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", n+more, make([]byte, n))
		}))
	}},
	{"headers", func(_ *lab, v vary) error {
		return v.get("http", &http.Transport{ResponseHeaderTimeout: time.Nanosecond}, pipe(hold))
	}},
	{"client timeout", func(_ *lab, v vary) error {
		tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pipe(hold)(ctx) }}
		defer tr.CloseIdleConnections()
		_, err := (&http.Client{Transport: tr, Timeout: time.Duration(1+v.IntN(1000)) * time.Microsecond}).Get(v.url("http"))
		return err
	}},
	{"deadline", func(_ *lab, v vary) error {
		ctx, cancel := context.WithDeadline(context.Background(), past)
		defer cancel()
		return v.do(ctx)
	}},
	{"canceled", func(_ *lab, v vary) error {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return v.do(ctx)
	}},
}

// do makes a request with ctx that nobody answers.
func (v vary) do(ctx context.Context) error {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return pipe(hold)(ctx) }}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, v.url("http"), nil)
	if err != nil {
		return err
	}
	_, err = (&http.Client{Transport: tr}).Do(req)
	return err
}

// lookup gets an URL with f as the name server.
func (v vary) lookup(f func(net.Conn), timeout time.Duration) error {
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return pipe(f)(ctx) }}
	d := net.Dialer{Resolver: r, Timeout: timeout}
	network, port := v.one([]string{"tcp", "tcp4", "tcp6"}), 1+v.IntN(65535)
	return v.get("https", &http.Transport{}, func(ctx context.Context) (net.Conn, error) {
		return d.DialContext(ctx, network, fmt.Sprintf("api.example.net:%d", port))
	})
}
