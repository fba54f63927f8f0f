package chain_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/chain"
)

// guard is a transport as the packages build them.
type guard struct {
	link
	part *int
	seen int // calls it did not pass straight through
}

type link = chain.Link

func wrap(rank chain.Rank, base http.RoundTripper, part *int) *guard {
	return &guard{link: chain.New(rank, part, part == nil, base), part: part}
}

func (g *guard) Unwrap() http.RoundTripper { return g.Base() }
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	in, box, through, err := g.Start(req)
	if err != nil {
		return nil, err
	}
	if through {
		return g.Base().RoundTrip(req)
	}
	g.seen++
	return g.Send(box, in)
}

// opaque hides what it wraps.
type opaque struct{ rt http.RoundTripper }

func (o opaque) RoundTrip(r *http.Request) (*http.Response, error) { return o.rt.RoundTrip(r) }

type answer func(*http.Request) (*http.Response, error)

func (f answer) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func ok(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
}

type countingBody struct {
	io.Reader
	closes int
}

func (b *countingBody) Close() error { b.closes++; return nil }

func post(t *testing.T) (*http.Request, *countingBody) {
	t.Helper()
	body := &countingBody{Reader: strings.NewReader("{}")}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream.test/", body)
	if err != nil {
		t.Fatal(err)
	}
	return req, body
}

func TestOrder(t *testing.T) {
	t.Parallel()
	right := []chain.Rank{chain.Budget, chain.Breaker, chain.Pacer, chain.Retry, chain.DeadLetter}
	build := func(between func(http.RoundTripper) http.RoundTripper, ranks ...chain.Rank) *guard {
		var rt http.RoundTripper = answer(ok)
		for _, r := range ranks {
			rt = wrap(r, between(rt), new(int))
		}
		return rt.(*guard)
	}
	plain := func(rt http.RoundTripper) http.RoundTripper { return rt }
	if err := build(plain, right...).LinkErr(); err != nil {
		t.Errorf("the documented order: %v", err)
	}
	for i := range right {
		for j := range i {
			g := build(plain, right[i], right[j])
			if !errors.Is(g.LinkErr(), chain.ErrOrder) {
				t.Errorf("%v around %v: err = %v, want ErrOrder", right[j], right[i], g.LinkErr())
			}
			// What stands further out returns it too, and nothing is sent.
			out := wrap(chain.DeadLetter, g, new(int))
			req, body := post(t)
			if _, err := out.RoundTrip(req); !errors.Is(err, chain.ErrOrder) || out.seen != 0 {
				t.Errorf("%v around %v: RoundTrip = %v", right[j], right[i], err)
			}
			if body.closes != 1 {
				t.Errorf("body closed %d times", body.closes)
			}
		}
		if err := build(plain, right[i], right[i]).LinkErr(); err != nil {
			t.Errorf("two guards of one kind, %v: %v", right[i], err)
		}
	}
	// A wrapper that shows what it wraps does not hide a wrong order.
	shown := func(rt http.RoundTripper) http.RoundTripper { return shows{rt} }
	if err := build(shown, chain.Retry, chain.Budget).LinkErr(); !errors.Is(err, chain.ErrOrder) {
		t.Errorf("through a wrapper: %v", err)
	}
}

type shows struct{ http.RoundTripper }

func (s shows) Unwrap() http.RoundTripper { return s.RoundTripper }

func TestNilPart(t *testing.T) {
	t.Parallel()
	g := wrap(chain.Breaker, answer(ok), nil)
	if !errors.Is(g.LinkErr(), chain.ErrNilPart) {
		t.Errorf("err = %v, want ErrNilPart", g.LinkErr())
	}
	for _, base := range []http.RoundTripper{(*http.Transport)(nil), shows{(*http.Transport)(nil)}, answer(nil)} {
		if err := wrap(chain.Budget, base, new(int)).LinkErr(); !errors.Is(err, chain.ErrNilPart) {
			t.Errorf("around a nil %T: %v", base, err)
		}
	}
	if b := wrap(chain.Budget, nil, new(int)); b.Base() != http.DefaultTransport || b.LinkErr() != nil {
		t.Error("a nil base is not http.DefaultTransport")
	}
}

func TestSameGuardTwice(t *testing.T) {
	t.Parallel()
	part := new(int)
	for name, hide := range map[string]func(http.RoundTripper) http.RoundTripper{
		"adjacent": func(rt http.RoundTripper) http.RoundTripper { return rt },
		"hidden":   func(rt http.RoundTripper) http.RoundTripper { return opaque{rt} },
	} {
		inner := wrap(chain.Breaker, answer(ok), part)
		outer := wrap(chain.Breaker, hide(inner), part)
		req, _ := post(t)
		if _, err := outer.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
		if outer.seen+inner.seen != 1 {
			t.Errorf("%s: the guard was met %d times", name, outer.seen+inner.seen)
		}
	}

	// The function form around a client that has the guard too.
	inner := wrap(chain.Breaker, answer(ok), part)
	b := call.With(t.Context())
	b.Enter(part)
	req, _ := post(t)
	if _, err := inner.RoundTrip(req.WithContext(b)); err != nil || inner.seen != 0 {
		t.Errorf("err = %v, seen %d, want it passed straight through", err, inner.seen)
	}
}

func TestSendRepairs(t *testing.T) {
	t.Parallel()
	send := func(f answer) (*http.Response, error) {
		g := wrap(chain.Budget, f, new(int))
		req, _ := post(t)
		return g.RoundTrip(req)
	}
	if _, err := send(func(*http.Request) (*http.Response, error) { return nil, nil }); !errors.Is(err, chain.ErrNoResponse) {
		t.Errorf("(nil, nil): %v", err)
	}
	body := &countingBody{Reader: strings.NewReader("x")}
	both := errors.New("both")
	resp, err := send(func(*http.Request) (*http.Response, error) { return &http.Response{Body: body}, both })
	if resp != nil || err != both || body.closes != 1 {
		t.Errorf("response and error: %v, %v, closes %d", resp, err, body.closes)
	}
	if resp, err := send(func(*http.Request) (*http.Response, error) { return &http.Response{}, nil }); err != nil || resp.Body == nil {
		t.Errorf("nil body: %v, %v", resp, err)
	}
}

type closer struct {
	http.RoundTripper
	n int
}

func (c *closer) CloseIdleConnections() { c.n++ }

func TestCloseIdle(t *testing.T) {
	t.Parallel()
	c := &closer{RoundTripper: answer(ok)}
	g := wrap(chain.Retry, c, new(int))
	g.CloseIdle()
	if c.n != 1 {
		t.Errorf("passed on %d times", c.n)
	}
}

type selfish struct{ http.RoundTripper }

func (s *selfish) Unwrap() http.RoundTripper { return s }

func TestWrapperOfItself(t *testing.T) {
	t.Parallel()
	g := wrap(chain.Breaker, &selfish{answer(ok)}, new(int))
	req, _ := post(t)
	if _, err := g.RoundTrip(req); err != nil || g.seen != 1 {
		t.Errorf("err = %v, seen %d", err, g.seen)
	}
}
