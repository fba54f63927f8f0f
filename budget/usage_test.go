package budget_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/call"
)

func TestDo(t *testing.T) {
	t.Parallel()
	final := errors.New("no such model")
	for _, c := range []struct {
		name string
		fn   func(context.Context) error
		want int64
	}{
		{"says nothing", func(context.Context) error { return nil }, 100},
		{"says what it used", func(ctx context.Context) error { budget.Used(ctx, 30); budget.Used(ctx, 12); return nil }, 42},
		{"used and failed", func(ctx context.Context) error { budget.Used(ctx, 30); return final }, 30},
		{"used nothing", func(ctx context.Context) error { budget.Used(ctx, 0); return nil }, 0},
		{"used impossibly", func(ctx context.Context) error { budget.Used(ctx, -5); return nil }, 100},
		{"failed", func(context.Context) error { return final }, 100},
		{"failed with a status", func(context.Context) error { return statusError(429) }, 0},
		{"timed out upstream", func(context.Context) error { return statusError(504) }, 100},
		{"could not reach its database, perhaps", func(context.Context) error { return &net.OpError{Op: "dial", Err: final} }, 100},
		{"refused inside", func(context.Context) error { return &budget.LateError{} }, 0},
		{"refused after another call", func(ctx context.Context) error {
			call.From(ctx).Item.Pass()
			return &budget.LateError{}
		}, 100},
	} {
		b := mustNew(t, budget.Config{Limit: 1000})
		var inner error
		err := b.Do(budget.WithEstimate(t.Context(), 100), func(ctx context.Context) error {
			inner = c.fn(ctx)
			return inner
		})
		if err != inner {
			t.Errorf("%s: err = %v, want fn's own %v", c.name, err, inner)
		}
		equal(t, c.name, spent(t, b), c.want)
		equal(t, c.name+" outstanding", b.Stats().Outstanding, int64(0))
	}
	budget.Used(t.Context(), 5) // outside: nothing to tell
}

type statusError int

func (e statusError) Error() string   { return http.StatusText(int(e)) }
func (e statusError) StatusCode() int { return int(e) }

// The function form around a client that has the budget, too: one reservation,
// settled by what the answers say.
func TestDoAroundItsOwnTransport(t *testing.T) {
	t.Parallel()
	const usage = `{"choices":[{"message":{"content":"Two refunds."},"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"completion_tokens":100}}`
	b := mustNew(t, budget.Config{Limit: 100_000})
	answers := []*http.Response{answer(200, usage), answer(307, ""), answer(200, usage), answer(429, "{}")}
	rt := budget.NewTransport(always(func() *http.Response {
		resp := answers[0]
		answers = answers[1:]
		return resp
	}), b)
	err := b.Do(budget.WithEstimate(t.Context(), 10), func(ctx context.Context) error {
		for range 4 {
			read(t, rt, post(t, ctx, "{}"))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	equal(t, "spent", spent(t, b), int64(2000))
	equal(t, "reservations", b.Stats().Reserved, int64(1))
}

func TestDoRefusesAndPanics(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 1000})
	called := func(context.Context) error { t.Error("called"); return nil }
	if err := b.Do(t.Context(), called); !errors.Is(err, budget.ErrEstimate) {
		t.Errorf("without an estimate: %v", err)
	}
	mustReserve(t, b, "", 800)
	box := call.With(budget.WithEstimate(t.Context(), 100))
	if err := b.Do(box, called); !errors.Is(err, budget.ErrExhausted) || box.Item.Refusal() == nil {
		t.Errorf("err = %v, noted %v", err, box.Item.Refusal())
	}
	func() {
		defer func() {
			if p := recover(); p != "mine" {
				t.Errorf("recovered %v", p)
			}
		}()
		_ = b.Do(budget.WithEstimate(t.Context(), 50), func(context.Context) error { panic("mine") })
	}()
	equal(t, "spent", spent(t, b), int64(850))
	equal(t, "outstanding", b.Stats().Outstanding, int64(1))
}

// The function form around a client that has the same budget pays once; two
// different budgets both pay.
func TestDoAroundATransport(t *testing.T) {
	t.Parallel()
	day := mustNew(t, budget.Config{Name: "day", Limit: 10_000})
	hour := mustNew(t, budget.Config{Name: "hour", Limit: 10_000})
	rt := budget.NewTransport(always(func() *http.Response { return answer(200, "{}") }), day)
	err := hour.Do(budget.WithEstimate(t.Context(), 100), func(ctx context.Context) error {
		return day.Do(ctx, func(ctx context.Context) error {
			read(t, rt, post(t, ctx, "{}"))
			budget.Used(ctx, 70)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "spent", []int64{spent(t, day), spent(t, hour)}, []int64{70, 70})
	equal(t, "reserved", []int64{day.Stats().Reserved, hour.Stats().Reserved}, []int64{1, 1})
}

func TestEstimateBody(t *testing.T) {
	t.Parallel()
	req := func(u string, length int64) *http.Request {
		p, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{URL: p, ContentLength: length}
	}
	pad := func(s string) string { return s + strings.Repeat(" ", 300-len(s)) }
	for _, c := range []struct {
		req  *http.Request
		body string
		want int64
	}{
		{nil, "", 1},
		{nil, pad(`{}`), 100 + 4096},
		{nil, pad(`{"max_tokens":50}`), 150},
		{nil, pad(`{"max_tokens":50,"n":3}`), 250},
		{nil, pad(`{"max_tokens":1,"max_completion_tokens":10000}`), 10100},
		{req(chatURL, 3000), pad(`{"max_tokens":50}`), 1050}, // a body of which only the head is here
		{nil, pad(`not JSON`), 100 + 4096},
	} {
		equal(t, c.body, budget.EstimateBody(c.req, []byte(c.body)), c.want)
	}
}
