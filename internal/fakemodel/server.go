package fakemodel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// ServeHTTP implements http.Handler. A hanging call ends with the request's
// context; a cut stream aborts the connection.
func (m *Model) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	data, err := readBody(req)
	if err != nil {
		return // the client broke off; there is nobody to answer
	}
	ctx := req.Context()
	p := m.arrive(&arrival{
		method: req.Method, path: req.URL.Path, header: req.Header,
		body: data, tooLong: len(data) > maxBody,
	})
	defer m.done()
	if m.wait(ctx, p) != nil {
		// Without this net/http would answer 200 with nothing in it.
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), p.header)
	if !p.stream {
		w.Header().Set("Content-Length", strconv.Itoa(len(p.parts[0])))
	}
	w.WriteHeader(p.status)
	flush := http.NewResponseController(w).Flush
	for i, part := range p.parts {
		if i > 0 && pause(ctx, m.cfg.Clock, p.gap, nil) != nil {
			panic(http.ErrAbortHandler)
		}
		if _, err := w.Write(part); err != nil {
			return
		}
		if p.stream && flush() != nil {
			return
		}
	}
	switch p.fate {
	case FateStall:
		_ = hang(ctx, nil) // always the end of ctx
		panic(http.ErrAbortHandler)
	case FateCut:
		panic(http.ErrAbortHandler)
	}
}

// A Server serves a Model, or another handler, until Close.
type Server struct {
	// URL is the base URL that clients append /chat/completions to.
	URL string

	http      *http.Server
	transport *http.Transport
	cancel    context.CancelFunc
	served    sync.WaitGroup
	serveErr  error

	mu       sync.Mutex
	closed   bool
	handlers sync.WaitGroup
	closing  sync.Once
}

// Start serves m on a free port of the loopback interface.
func (m *Model) Start() (*Server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fakemodel: start: %w", err)
	}
	var dialer net.Dialer
	return serve(m, ln, "http://"+ln.Addr().String()+"/v1", dialer.DialContext), nil
}

// StartPipe serves m over in-memory connections, which only the Server's
// Client has. Client and server may live in one synctest bubble.
func (m *Model) StartPipe() *Server { return ServePipe(m) }

// ServePipe serves h, which need not be a Model, as [Model.StartPipe] does.
func ServePipe(h http.Handler) *Server {
	ln := newPipeListener()
	return serve(h, ln, "http://fakemodel.invalid/v1", ln.dial)
}

func serve(h http.Handler, ln net.Listener, url string, dial func(context.Context, string, string) (net.Conn, error)) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		URL:       url,
		transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64},
		cancel:    cancel,
	}
	s.http = &http.Server{
		Handler:     s.tracked(h),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	s.served.Go(func() { s.serveErr = s.http.Serve(ln) })
	return s
}

// tracked lets Close wait for h, which http.Server.Close does not.
func (s *Server) tracked(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		s.handlers.Add(1)
		s.mu.Unlock()
		defer s.handlers.Done()
		h.ServeHTTP(w, req)
	})
}

// Client returns a client that reaches the server and uses no proxy. Its
// connections end with Close.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.transport} }

// Close breaks off all calls, hanging ones as well, and returns when the last
// handler has. It returns what Serve failed with, if it did.
func (s *Server) Close() error {
	var err error
	s.closing.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.cancel()
		err = s.http.Close()
		s.served.Wait()
		s.handlers.Wait()
		s.transport.CloseIdleConnections()
		if !errors.Is(s.serveErr, http.ErrServerClosed) {
			err = errors.Join(err, s.serveErr)
		}
	})
	return err
}
