package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"time"
)

// serve starts a server on a loopback address of the sample's family.
func (m *maker) serve(h http.HandlerFunc) *httptest.Server {
	l, err := net.Listen("tcp", net.JoinHostPort(trim(m.host()), "0"))
	if err != nil {
		panic(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = l
	s.Config.ErrorLog = quiet
	return s
}

func trim(host string) string {
	if host[0] == '[' {
		return host[1 : len(host)-1]
	}
	return host
}

// listen answers connections with f, without HTTP.
func (m *maker) listen(f func(net.Conn)) (addr string, stop func()) {
	l, err := net.Listen("tcp", net.JoinHostPort(trim(m.host()), "0"))
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go f(c)
		}
	}()
	return l.Addr().String(), func() { l.Close() }
}

func get(c *http.Client, url string) error {
	resp, err := c.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

func network() []failure {
	return []failure{
		{"net_refused", func(m *maker) error {
			addr, stop := m.listen(func(net.Conn) {})
			stop()
			return get(http.DefaultClient, "http://"+addr+"/v1/items/"+m.hex(8))
		}},
		{"net_reset", func(m *maker) error {
			addr, stop := m.listen(func(c net.Conn) {
				_, _ = c.Read(make([]byte, 1))
				_ = c.(*net.TCPConn).SetLinger(0)
				c.Close()
			})
			defer stop()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				return err
			}
			defer c.Close()
			_, _ = c.Write([]byte("xy"))
			_, err = io.ReadAll(c)
			return fmt.Errorf("item %d: %w", m.digits(1, 9999), err)
		}},
		{"net_read_timeout", func(m *maker) error {
			addr, stop := m.listen(func(net.Conn) {})
			defer stop()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err = c.Read(make([]byte, 1))
			return err
		}},
		{"net_dial_deadline", func(m *maker) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
			defer cancel()
			var d net.Dialer
			_, err := d.DialContext(ctx, "tcp", net.JoinHostPort(trim(m.host()), fmt.Sprint(m.digits(2000, 60000))))
			return err
		}},
		{"net_closed", func(m *maker) error {
			addr, stop := m.listen(func(net.Conn) {})
			defer stop()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				return err
			}
			c.Close()
			_, err = c.Write([]byte("x"))
			return err
		}},
		{"net_in_use", func(m *maker) error {
			l, err := net.Listen("tcp", net.JoinHostPort(trim(m.host()), "0"))
			if err != nil {
				return err
			}
			defer l.Close()
			_, err = net.Listen("tcp", l.Addr().String())
			return err
		}},
		{"net_bad_port", func(m *maker) error {
			_, err := net.Dial("tcp", net.JoinHostPort(trim(m.host()), fmt.Sprint(m.digits(70000, 99999))))
			return err
		}},
		{"http_eof", func(m *maker) error {
			addr, stop := m.listen(func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)); c.Close() })
			defer stop()
			_, err := (&http.Client{Transport: &http.Transport{}}).Post("http://"+addr+"/"+m.hex(6), "text/plain", bytes.NewReader([]byte("x")))
			return err
		}},
		{"http_client_timeout", func(m *maker) error {
			s := m.serve(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			s.Start()
			defer s.Close()
			return get(&http.Client{Timeout: 20 * time.Millisecond}, s.URL+"/run/"+m.uuid())
		}},
		{"http_header_timeout", func(m *maker) error {
			s := m.serve(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			s.Start()
			defer s.Close()
			tr := &http.Transport{ResponseHeaderTimeout: 10 * time.Millisecond}
			defer tr.CloseIdleConnections()
			return get(&http.Client{Transport: tr}, s.URL+"/"+m.hex(12))
		}},
		{"http_context_deadline", func(m *maker) error {
			s := m.serve(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			s.Start()
			defer s.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/"+m.hex(12), nil)
			_, err := http.DefaultClient.Do(req)
			return err
		}},
		{"http_short_body", func(m *maker) error {
			s := m.serve(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", fmt.Sprint(m.digits(1000, 5000)))
				_, _ = w.Write([]byte("x"))
			})
			s.Start()
			defer s.Close()
			return fmt.Errorf("read body of %s: %w", m.uuid(), get(http.DefaultClient, s.URL))
		}},
		{"http_malformed", func(m *maker) error {
			addr, stop := m.listen(func(c net.Conn) {
				_, _ = c.Read(make([]byte, 4096))
				fmt.Fprintf(c, "SSH-2.0-x%d\r\n\r\n", m.n)
				c.Close()
			})
			defer stop()
			return get(&http.Client{Transport: &http.Transport{}}, "http://"+addr)
		}},
		{"http_redirects", func(m *maker) error {
			s := m.serve(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
			})
			s.Start()
			defer s.Close()
			return get(http.DefaultClient, s.URL+"/"+m.hex(4))
		}},
		{"http_scheme", func(m *maker) error {
			return get(http.DefaultClient, "htp://"+m.host()+"/"+m.hex(6))
		}},
		{"http_to_https", func(m *maker) error {
			s := m.serve(func(http.ResponseWriter, *http.Request) {})
			s.Start()
			defer s.Close()
			return get(http.DefaultClient, "https"+s.URL[4:])
		}},
		{"tls_authority", func(m *maker) error {
			m.cert = true
			s := m.serve(func(http.ResponseWriter, *http.Request) {})
			s.StartTLS()
			defer s.Close()
			return get(http.DefaultClient, s.URL+"/"+m.hex(5))
		}},
		{"tls_name", func(m *maker) error {
			m.cert = true
			s := m.serve(func(http.ResponseWriter, *http.Request) {})
			s.StartTLS()
			defer s.Close()
			c := s.Client()
			c.Transport.(*http.Transport).TLSClientConfig.ServerName = "api.example.org"
			return get(c, s.URL+"/"+m.hex(5))
		}},
		{"tls_version", func(m *maker) error {
			m.cert = true
			s := m.serve(func(http.ResponseWriter, *http.Request) {})
			s.StartTLS()
			defer s.Close()
			_, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
			return err
		}},
		{"tls_expired", func(m *maker) error {
			m.cert = true
			s := m.serve(func(http.ResponseWriter, *http.Request) {})
			s.StartTLS()
			defer s.Close()
			c := s.Client()
			late := time.Date(2090+m.n, 3, m.digits(1, 28), m.digits(0, 24), m.digits(0, 60), 7, 0, time.UTC)
			c.Transport.(*http.Transport).TLSClientConfig.Time = func() time.Time { return late }
			c.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com"
			return get(c, s.URL)
		}},
		{"http2_internal", func(m *maker) error { return h2(m, "INTERNAL_ERROR") }},
		{"http2_goaway", func(m *maker) error { return h2(m, "GOAWAY") }},
		{"join_pipe_closed", func(m *maker) error {
			return errors.Join(fmt.Errorf("flush batch %d: %w", m.digits(1, 99), io.ErrClosedPipe), fmt.Errorf("close stream %d: %w", m.digits(1, 9999), net.ErrClosed))
		}},
	}
}

// h2 fails a request over HTTP/2: a handler that panics resets its stream, raw
// frames make the connection go away.
func h2(m *maker, how string) error {
	m.cert = true
	s := m.serve(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	s.EnableHTTP2 = true
	if how == "GOAWAY" {
		s.TLS = &tls.Config{NextProtos: []string{"h2"}}
		s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
			"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) { goAway(c, m.digits(1, 4000)) },
		}
	}
	s.StartTLS()
	defer s.Close()
	return get(s.Client(), s.URL+"/"+m.hex(6))
}

// goAway speaks just enough HTTP/2 to refuse: the server's preface, then a
// GOAWAY frame that names the stream it answered last.
func goAway(c net.Conn, last int) {
	defer c.Close()
	_, _ = c.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0})
	buf := make([]byte, 4096)
	for seen := 0; seen < 90; { // preface, SETTINGS and HEADERS of the client
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		seen += n
	}
	debug := fmt.Sprintf("session_%d", last)
	frame := []byte{0, 0, byte(8 + len(debug)), 7, 0, 0, 0, 0, 0, 0, 0, byte(last >> 8), byte(last)}
	frame = append(frame, 0, 0, 0, 11) // ENHANCE_YOUR_CALM
	_, _ = c.Write(append(frame, debug...))
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // so that the frame is read before the end
	_, _ = c.Read(buf)
}
