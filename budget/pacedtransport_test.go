package budget_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/call"
)

func TestPacedTransport(t *testing.T) {
	t.Parallel()
	gemini := string(sample(t, "gemini-429-perminute.http"))
	_, body, _ := strings.Cut(strings.ReplaceAll(gemini, "\r\n", "\n"), "\n\n")
	for name, c := range map[string]struct {
		rt   trip
		held float64
	}{
		"good":   {always(func() *http.Response { return answer(200, "{}") }), 0},
		"header": {always(func() *http.Response { return answer(429, "{}", "Retry-After: 9") }), 9},
		"body":   {always(func() *http.Response { return answer(429, body, "Content-Type: application/json") }), 38},
		"error in a 200": {always(func() *http.Response {
			return answer(200, `{"error":{"message":"Rate limit reached","code":429}}`, "Content-Type: application/json")
		}), 0.2},
		"no answer": {func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := mustPacer(t, budget.PacerConfig{Requests: 600})
				rt := budget.NewPacedTransport(c.rt, p)
				if resp, err := rt.RoundTrip(post(t, t.Context(), "{}")); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				equal(t, "held", p.Stats().Held, c.held)
			})
		})
	}
}

// Tokens are settled when the answer ends, and given back when nothing was
// sent.
func TestPacedTransportTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustPacer(t, budget.PacerConfig{Tokens: 60_000})
		day := mustNew(t, budget.Config{Limit: 100_000})
		rt := budget.NewPacedTransport(budget.NewTransport(always(func() *http.Response {
			return answer(200, `{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":900,"completion_tokens":100}}`, "Content-Type: application/json")
		}), day), p)
		ctx := budget.WithEstimate(t.Context(), 8000)
		start := time.Now()
		read(t, rt, post(t, ctx, "{}"))
		read(t, rt, post(t, ctx, "{}"))
		equal(t, "after a refund of 7000", time.Since(start), time.Second)

		// The budget inside refuses: the turn is given back.
		mustReserve(t, day, "", 80_000)
		time.Sleep(time.Minute)
		start = time.Now()
		if _, err := rt.RoundTrip(post(t, ctx, "{}")); !errors.Is(err, budget.ErrExhausted) {
			t.Fatalf("err = %v", err)
		}
		equal(t, "next turn", turns(t, p, 1, 8000)[0], 0)
		equal(t, "unsent", p.Stats().Unsent, int64(1))

		// A turn past the deadline closes the body and is noted.
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		box := call.With(soon)
		body := &closes{Reader: strings.NewReader("x")}
		req := post(t, box, "")
		req.Body = body
		if _, err := rt.RoundTrip(req); !errors.Is(err, budget.ErrLate) || body.n.Load() != 1 || box.Item.Refusal() == nil {
			t.Errorf("err = %v, body closed %d times, noted %v", err, body.n.Load(), box.Item.Refusal())
		}
		_ = start
	})
}
