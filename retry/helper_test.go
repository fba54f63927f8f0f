package retry_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nightfuse/nightfuse/retry"
)

// mustNew returns a Retrier of c.
func mustNew(t testing.TB, c retry.Config) *retry.Retrier {
	t.Helper()
	r, err := retry.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// noWait makes a Config whose own waits are nothing.
func noWait(c retry.Config) retry.Config {
	c.Rand = func() float64 { return 0 }
	return c
}

// asError returns the *retry.Error in err.
func asError(t testing.TB, err error) *retry.Error {
	t.Helper()
	var e *retry.Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %T %v, want a *retry.Error", err, err)
	}
	return e
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("%s (-got +want):\n%s", what, d)
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("unexpected error: %v", err)
	}
}

// step is one scripted answer.
type step struct {
	status int
	header string // "K: v" lines
	body   string
	err    error
}

const goodBody = `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Sorts a slice in place."}}],"usage":{"prompt_tokens":12,"completion_tokens":6,"total_tokens":18}}`

// good is an answer that can be used.
var good = step{status: 200, header: "Content-Type: application/json", body: goodBody}

// fail is an answer of a status with a body that says nothing of its own.
func failWith(status int, header ...string) step {
	return step{status: status, header: strings.Join(header, "\n"), body: `{"error":{"message":"no luck"}}`}
}

// hit is one request as the far side saw it.
type hit struct {
	at     time.Time
	method string
	header http.Header
	body   string
	length int64
	conn   string
}

// script answers the k-th request with the k-th step, the last one repeats. It
// is an http.Handler and an http.RoundTripper.
type script struct {
	mu    sync.Mutex
	steps []step
	hits  []hit
	open  int // response bodies not closed, as a RoundTripper
}

func newScript(steps ...step) *script { return &script{steps: steps} }

func (s *script) take(h hit) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits = append(s.hits, h)
	return s.steps[min(len(s.hits), len(s.steps))-1]
}

func (s *script) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.hits)
}

func (s *script) seen() []hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]hit(nil), s.hits...)
}

func (s *script) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	st := s.take(hit{at: time.Now(), method: req.Method, header: req.Header.Clone(), body: string(body), length: req.ContentLength, conn: req.RemoteAddr})
	if st.err != nil {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), headers(st.header))
	w.WriteHeader(st.status)
	_, _ = io.WriteString(w, st.body)
}

// headers parses "K: v" lines.
func headers(s string) http.Header {
	h := make(http.Header)
	for line := range strings.SplitSeq(s, "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok {
			h.Add(strings.TrimSpace(k), strings.TrimSpace(v))
		}
	}
	return h
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	h := hit{at: time.Now(), method: req.Method, header: req.Header.Clone(), length: req.ContentLength}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		h.body = string(body)
	}
	st := s.take(h)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if st.err != nil {
		return nil, st.err
	}
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
	return respond(req, st, func() {
		s.mu.Lock()
		s.open--
		s.mu.Unlock()
	}), nil
}

// leaked returns the response bodies that nobody closed.
func (s *script) leaked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func respond(req *http.Request, st step, closed func()) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", st.status, http.StatusText(st.status)), StatusCode: st.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: headers(st.header), ContentLength: int64(len(st.body)), Request: req,
		Body: &onceBody{r: strings.NewReader(st.body), closed: closed},
	}
}

type onceBody struct {
	r      io.Reader
	once   sync.Once
	closed func()
}

func (b *onceBody) Read(p []byte) (int, error) { return b.r.Read(p) }
func (b *onceBody) Close() error               { b.once.Do(b.closed); return nil }

// roundTrip is an http.RoundTripper that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// serve starts a real server.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// client returns a client of its own connections behind a Transport.
func client(t testing.TB, r *retry.Retrier) *http.Client {
	t.Helper()
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	return &http.Client{Transport: retry.NewTransport(base, r)}
}

// post makes a request with a body that can be replayed.
func post(t testing.TB, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	return req
}

// readAll reads and closes a response's body.
func readAll(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("reading the body: %v", err)
	}
	_ = resp.Body.Close()
	return string(b)
}

// closing counts the Close calls of a request body.
type closing struct {
	io.Reader
	mu sync.Mutex
	n  int
}

func (c *closing) Close() error {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	return nil
}

func (c *closing) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// waits collects the waits that a Retrier begins.
type waits struct {
	mu  sync.Mutex
	all []retry.Wait
}

func (w *waits) add(x retry.Wait) {
	w.mu.Lock()
	w.all = append(w.all, x)
	w.mu.Unlock()
}

func (w *waits) delays() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ds []time.Duration
	for _, x := range w.all {
		ds = append(ds, x.Delay)
	}
	return ds
}

func itoa(n int) string { return strconv.Itoa(n) }
