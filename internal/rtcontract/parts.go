package rtcontract

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// goodAnswer is an answer that nobody has reason to doubt.
const goodAnswer = `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Sorts a slice in place."}}],"usage":{"prompt_tokens":12,"completion_tokens":6,"total_tokens":18}}`

const goodRequest = `{"model":"small","max_tokens":16,"messages":[{"role":"user","content":"What does sort.Ints do?"}]}`

var errBase = errors.New("connection reset by the base")

// roundTrip is a base that is a function.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answer returns a response of a status and a JSON body.
func answer(req *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body)), Request: req,
	}
}

// consume reads and closes a request's body, as net/http does.
func consume(req *http.Request) string {
	if req.Body == nil {
		return ""
	}
	defer req.Body.Close()
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return "unreadable: " + err.Error()
	}
	return string(b)
}

// bodies counts the bodies of one request and how often each was closed.
type bodies struct {
	mu     sync.Mutex
	closes []int
}

type counted struct {
	io.Reader
	of *bodies
	i  int
}

func (c *counted) Close() error {
	c.of.mu.Lock()
	c.of.closes[c.i]++
	c.of.mu.Unlock()
	return nil
}

func (b *bodies) make(r io.Reader) io.ReadCloser {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closes = append(b.closes, 0)
	return &counted{r, b, len(b.closes) - 1}
}

// check reports bodies that were not closed exactly once.
func (b *bodies) check(t *testing.T, what string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, n := range b.closes {
		if n != 1 {
			t.Errorf("%s: body %d of %d was closed %d times, want once (0 is the caller's own)", what, i, len(b.closes), n)
		}
	}
}

// shape is a way in which a request can have a body.
type shape int

const (
	replayable shape = iota // with GetBody
	plain                   // without it, of known length
	unknown                 // without it, of unknown length
	none
	shapes
)

func (s shape) String() string {
	return [...]string{"with GetBody", "without GetBody", "of unknown length", "without a body"}[s]
}

// request makes a POST of the given shape. b may be nil.
func request(ctx context.Context, url string, s shape, b *bodies) *http.Request {
	if b == nil {
		b = new(bodies)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		panic(err) // the URL is the suite's own
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer key")
	fresh := func() io.ReadCloser { return b.make(strings.NewReader(goodRequest)) }
	switch s {
	case replayable:
		req.Body, req.ContentLength = fresh(), int64(len(goodRequest))
		req.GetBody = func() (io.ReadCloser, error) { return fresh(), nil }
	case plain:
		req.Body, req.ContentLength = fresh(), int64(len(goodRequest))
	case unknown:
		req.Body = fresh()
	}
	return req
}

// wire is a real server's protocol.
type wire int

const (
	keepAlive wire = iota
	closing
	http2
	wires
)

func (w wire) String() string {
	return [...]string{"HTTP/1.1", "HTTP/1.1 without keep-alive", "HTTP/2"}[w]
}

// wired is a transport to a real server, and how often the server was hit.
type wired struct {
	*http.Transport
	hits atomic.Int64
}

// Unwrap returns the transport of net/http.
func (w *wired) Unwrap() http.RoundTripper { return w.Transport }

// serve starts a real server and returns its URL and a transport to it.
func serve(t *testing.T, w wire, h http.HandlerFunc) (string, *wired) {
	t.Helper()
	to := new(wired)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		to.hits.Add(1)
		h(rw, req)
	}))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if w == http2 {
		srv.EnableHTTP2 = true
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	to.Transport = srv.Client().Transport.(*http.Transport).Clone()
	to.DisableKeepAlives = w == closing
	t.Cleanup(to.CloseIdleConnections)
	return srv.URL, to
}

// finish reads and closes a response, whatever it is.
func finish(resp *http.Response) (string, error) {
	if resp == nil {
		return "", nil
	}
	b, err := io.ReadAll(resp.Body)
	return string(b), errors.Join(err, resp.Body.Close())
}

// works checks that rt still sends.
func works(t *testing.T, rt http.RoundTripper) {
	t.Helper()
	resp, err := rt.RoundTrip(request(t.Context(), "http://upstream/v1", replayable, nil))
	if err != nil {
		t.Errorf("the next request: %v", err)
		return
	}
	if body, err := finish(resp); body != goodAnswer || err != nil {
		t.Errorf("the next request gets %q, %v", body, err)
	}
}
