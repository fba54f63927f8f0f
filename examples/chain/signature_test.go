package chain_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/retry"
	"github.com/nightfuse/nightfuse/signature"
)

// upstream is a base.
type upstream func(*http.Request) (*http.Response, error)

func (f upstream) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	return f(req)
}

// says answers everything so.
func says(status int, contentType, body string) upstream {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, ContentLength: -1,
			Header: http.Header{"Content-Type": {contentType}},
			Body:   io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

// ask sends one item and reads what comes.
func ask(ctx context.Context, rt http.RoundTripper, item string) {
	req, err := http.NewRequestWithContext(deadletter.WithItem(ctx, item), http.MethodPost,
		"http://model.test/v1/chat/completions", strings.NewReader(`{"model":"fake-1","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		panic(err)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// What opens the breaker at night and what lies in the dead letters in the
// morning is one failure: whoever looks for the one by its signature must find
// the other, whatever layers told of it.
func TestTripAndLetterHaveOneSignature(t *testing.T) {
	t.Parallel()
	const asJSON = "application/json"
	seen := map[signature.ID]string{}
	for _, c := range []struct {
		name string
		base upstream
	}{
		{"503 with a body", says(503, asJSON, `{"error":{"type":"overloaded_error","message":"The server is overloaded, request 4711."}}`)},
		{"503 of a proxy", says(503, "text/html", "<html><head><title>503 Service Temporarily Unavailable</title></head></html>")},
		{"500 without a body", says(500, "", "")},
		{"429", says(429, asJSON, `{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"Rate limit reached for fake-1 in organization org-1: Limit 200000, Used 199100."}}`)},
		{"401", says(401, asJSON, `{"error":{"type":"invalid_request_error","code":"invalid_api_key","message":"Incorrect API key provided."}}`)},
		{"a quota", says(429, asJSON, `{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"You exceeded your current quota."}}`)},
		{"a dial error", func(*http.Request) (*http.Response, error) {
			addr := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: syscall.ECONNREFUSED}
		}},
		{"a reset", func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}, Err: syscall.ECONNRESET}
		}},
		{"an error of no kind", func(*http.Request) (*http.Response, error) { return nil, errors.New("the tunnel is gone") }},
		{"an error under 200", says(200, asJSON, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`)},
		{"a web page", says(200, "text/html", "<html><head><title>Please log in</title></head></html>")},
		{"an empty answer", says(200, asJSON, `{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":0}}`)},
	} {
		for _, calls := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d calls", c.name, calls), func(t *testing.T) {
				var trips []signature.ID
				up, err := breaker.New(breaker.Config{Threshold: 2 * calls, RepeatTrip: -1, OnChange: func(ch breaker.Change) {
					if ch.To == breaker.Open {
						trips = append(trips, ch.Signature)
					}
				}})
				must(t, up, err)
				again, err := retry.New(retry.Config{Attempts: calls, Rand: func() float64 { return 0 }})
				must(t, again, err)
				store := deadletter.NewMemory()
				letters, err := deadletter.New(deadletter.Config{Name: "q", Store: store})
				must(t, letters, err)
				rt := paced(t, breaker.NewTransport(budgeted(t, c.base), up))
				rt = deadletter.NewTransport(retry.NewTransport(rt, again), letters)
				for i := range 4 {
					ask(t.Context(), rt, fmt.Sprint("item ", i))
				}
				if len(trips) != 1 || trips[0] == "" {
					t.Fatalf("trips with the signatures %q, want one", trips)
				}
				want := []string{string(trips[0])}
				var got, texts []string
				for r, err := range store.List(t.Context(), deadletter.Filter{}) {
					if err != nil {
						t.Fatal(err)
					}
					if len(got) == 0 || got[0] != r.Signature {
						got = append(got, r.Signature)
					}
					texts = append(texts, r.SignatureText)
				}
				if d := cmp.Diff(got, want); d != "" {
					t.Errorf("signatures of the letters (-got, +the trip's):\n%s%q, state %+v", d, texts, up.State())
				}
				if other, ok := seen[trips[0]]; ok && other != c.name {
					t.Errorf("has the signature of %s", other)
				}
				seen[trips[0]] = c.name
			})
		}
	}
}

// ways are the compositions in which a failure can be met. Each returns the
// signatures of the trip and of the letter.
var ways = map[string]func(t *testing.T, base http.RoundTripper) (trip, letter string){
	"transports": func(t *testing.T, base http.RoundTripper) (string, string) {
		up, store, letters := oneShot(t)
		ask(t.Context(), deadletter.NewTransport(breaker.NewTransport(base, up), letters), "item")
		return met(t, up, store)
	},
	"transports with a retry": func(t *testing.T, base http.RoundTripper) (string, string) {
		up, store, letters := oneShot(t)
		ask(t.Context(), deadletter.NewTransport(retry.NewTransport(breaker.NewTransport(base, up), once(t)), letters), "item")
		return met(t, up, store)
	},
	"a function around a client with a retry": func(t *testing.T, base http.RoundTripper) (string, string) {
		up, store, letters := oneShot(t)
		inner := retry.NewTransport(breaker.NewTransport(base, up), once(t))
		_ = letters.Do(deadletter.WithItem(t.Context(), "item"), nil, func(ctx context.Context) error { return post(ctx, inner) })
		return met(t, up, store)
	},
	"a replay": func(t *testing.T, base http.RoundTripper) (string, string) {
		up, store, letters := oneShot(t)
		down := says(410, "application/json", "{}")
		ask(t.Context(), deadletter.NewTransport(down, letters), "item")
		rt := deadletter.NewTransport(breaker.NewTransport(base, up), letters)
		replay(t, store, rt)
		return met(t, up, store)
	},
	"a replay with a retry": func(t *testing.T, base http.RoundTripper) (string, string) {
		up, store, letters := oneShot(t)
		down := says(410, "application/json", "{}")
		ask(t.Context(), deadletter.NewTransport(down, letters), "item")
		rt := deadletter.NewTransport(retry.NewTransport(breaker.NewTransport(base, up), once(t)), letters)
		replay(t, store, rt)
		return met(t, up, store)
	},
}

// broken are the further ways in which a connection's failure can be met: an
// answer reaches the function as an error of its own making.
var broken = map[string]func(t *testing.T, base http.RoundTripper) (trip, letter string){
	"functions": func(t *testing.T, base http.RoundTripper) (string, string) {
		up, store, letters := oneShot(t)
		_ = letters.Do(deadletter.WithItem(t.Context(), "item"), nil, func(ctx context.Context) error {
			return once(t).Do(ctx, func(ctx context.Context) error { return post(ctx, base) }, up)
		})
		return met(t, up, store)
	},
	"functions without a retry": func(t *testing.T, base http.RoundTripper) (string, string) {
		up, store, letters := oneShot(t)
		_ = letters.Do(deadletter.WithItem(t.Context(), "item"), nil, func(ctx context.Context) error {
			return up.Do(ctx, func(ctx context.Context) error { return post(ctx, base) })
		})
		return met(t, up, store)
	},
	"a function around a client": func(t *testing.T, base http.RoundTripper) (string, string) {
		up, store, letters := oneShot(t)
		inner := breaker.NewTransport(base, up)
		_ = letters.Do(deadletter.WithItem(t.Context(), "item"), nil, func(ctx context.Context) error { return post(ctx, inner) })
		return met(t, up, store)
	},
}

// oneShot returns a breaker that opens at the first failure, and a queue.
func oneShot(t *testing.T) (*breaker.Breaker, deadletter.Store, *deadletter.Queue) {
	t.Helper()
	up, err := breaker.New(breaker.Config{Threshold: 1})
	must(t, up, err)
	store := deadletter.NewMemory()
	letters, err := deadletter.New(deadletter.Config{Name: "q", Store: store})
	must(t, letters, err)
	return up, store, letters
}

func once(t *testing.T) *retry.Retrier {
	t.Helper()
	r, err := retry.New(retry.Config{Attempts: 1})
	must(t, r, err)
	return r
}

// post asks as a program does whose client makes errors of answers.
func post(ctx context.Context, rt http.RoundTripper) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model.test/v1/chat/completions", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: rt}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return &apiError{resp.StatusCode}
	}
	return nil
}

type apiError struct{ StatusCode int }

func (e *apiError) Error() string { return fmt.Sprintf("the API said %d", e.StatusCode) }

func replay(t *testing.T, store deadletter.Store, rt http.RoundTripper) {
	t.Helper()
	send := deadletter.HTTPSender{Client: &http.Client{Transport: rt}}.Send
	if rep, err := deadletter.Replay(t.Context(), store, send, deadletter.Options{}); rep.Returned != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// met returns the signatures of the trip and of the only letter.
func met(t *testing.T, up *breaker.Breaker, store deadletter.Store) (trip, letter string) {
	t.Helper()
	for r, err := range store.List(t.Context(), deadletter.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		letter = r.Signature
	}
	return string(up.Stats().Signature), letter
}

// A failure has one signature, however the layers are put together.
func TestOneSignatureInEveryComposition(t *testing.T) {
	t.Parallel()
	const asJSON = "application/json"
	for name, c := range map[string]struct {
		base   upstream
		answer bool
	}{
		"503 with a body":    {says(503, asJSON, `{"error":{"type":"overloaded_error","message":"The server is overloaded."}}`), true},
		"429 without a word": {says(429, "", ""), true},
		"an error under 200": {says(200, asJSON, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`), true},
		"a web page":         {says(200, "text/html", "<html><title>Please log in</title></html>"), true},
		"an empty answer":    {says(200, asJSON, `{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}`), true},
		"a reset": {func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}, Err: syscall.ECONNRESET}
		}, false},
		"an error of no kind": {func(*http.Request) (*http.Response, error) { return nil, errors.New("the tunnel is gone") }, false},
	} {
		all := maps.Clone(ways)
		if !c.answer {
			maps.Copy(all, broken)
		}
		got := map[string]string{}
		for way, run := range all {
			trip, letter := run(t, c.base)
			got[way+": trip"], got[way+": letter"] = trip, letter
		}
		want := got["transports: trip"]
		if want == "" {
			t.Errorf("%s: no trip", name)
		}
		for way, sig := range got {
			if sig != want {
				t.Errorf("%s: %s has %q, want %q", name, way, sig, want)
			}
		}
	}
}
