package retry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/retry"
)

// guard is a test's guard.
type guard func(context.Context, func(context.Context) error) error

func (g guard) Do(ctx context.Context, fn func(context.Context) error) error { return g(ctx, fn) }

func TestGuardsStandOutermostFirst(t *testing.T) {
	t.Parallel()
	var order []string
	named := func(s string) retry.Guard {
		return guard(func(ctx context.Context, fn func(context.Context) error) error {
			order = append(order, s)
			return fn(ctx)
		})
	}
	r := mustNew(t, noWait(retry.Config{}))
	n := 0
	v, err := retry.Do(t.Context(), r, func(context.Context) (int, error) {
		order = append(order, "fn")
		if n++; n == 1 {
			return 0, errUpstream
		}
		return 7, nil
	}, named("pace"), named("up"), named("day"))
	noError(t, err)
	equal(t, "value", v, 7)
	one := []string{"pace", "up", "day", "fn"}
	equal(t, "order", order, append(one, one...))
}

func TestAGuardThatDoesNotCallIsNoSuccess(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{}))
	lazy := guard(func(context.Context, func(context.Context) error) error { return nil })
	v, err := retry.Do(t.Context(), r, func(context.Context) (string, error) { return "x", nil }, retry.Guard(lazy))
	if err == nil || v != "" {
		t.Errorf("Do = %q, %v", v, err)
	}
}

// ptrGuard is a guard that needs what it points to.
type ptrGuard struct{ fn guard }

func (g *ptrGuard) Do(ctx context.Context, fn func(context.Context) error) error {
	return g.fn(ctx, fn)
}

// What is missing is told by its own name, before anything is called.
func TestNilParts(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{}))
	var none *retry.Retrier
	said := guard(func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) })
	called := 0
	plain := func(context.Context) error { called++; return nil }
	value := func(context.Context) (string, error) { called++; return "x", nil }
	for text, do := range map[string]func() error{
		"retry: Do with a nil Retrier": func() error { return none.Do(t.Context(), plain) },
		"retry: Do with a nil Retrier ": func() error {
			v, err := retry.Do(t.Context(), none, value)
			equal(t, "value", v, "")
			return err
		},
		"retry: guard 1 is nil": func() error { return r.Do(t.Context(), plain, nil) },
		"retry: guard 2 is nil": func() error {
			v, err := retry.Do(t.Context(), r, value, said, (*ptrGuard)(nil))
			equal(t, "value", v, "")
			return err
		},
		"retry: guard 3 is nil": func() error { return r.Do(t.Context(), plain, said, said, guard(nil)) },
		"retry: guard 2 is nil ": func() error {
			return r.Do(t.Context(), func(ctx context.Context) error { return r.Do(ctx, plain, said, nil) })
		},
	} {
		err := do()
		if text = strings.TrimSpace(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
			continue
		}
		if e := asError(t, err); e.Calls != 0 || !e.NotSent() {
			t.Errorf("%v: %d calls", err, e.Calls)
		}
	}
	equal(t, "called", called, 0)
	equal(t, "calls", r.Stats().Calls, 0)
}

// T61, R08: only the outermost retries.
func TestANestedDoPassesStraightThrough(t *testing.T) {
	t.Parallel()
	outer, inner := mustNew(t, noWait(retry.Config{Attempts: 3})), mustNew(t, noWait(retry.Config{Attempts: 3}))
	n := 0
	err := outer.Do(t.Context(), func(ctx context.Context) error {
		_, err := retry.Do(ctx, inner, func(ctx context.Context) (int, error) {
			return 0, inner.Do(ctx, func(context.Context) error { n++; return errUpstream })
		})
		return err
	})
	equal(t, "calls", []int{n, asError(t, err).Calls}, []int{3, 3})
	equal(t, "inner items", inner.Stats().Items, 0)
}

func TestWithLimitBoundsCallsWhoeverRetries(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{Attempts: 3}))
	ctx := retry.WithLimit(t.Context(), 4)
	n := 0
	var err error
	for range 3 { // a loop of somebody else
		err = r.Do(ctx, func(context.Context) error { n++; return errUpstream })
	}
	equal(t, "calls", n, 4)
	e := asError(t, err)
	equal(t, "calls of the last", e.Calls, 0)
	if !errors.Is(err, retry.ErrExhausted) {
		t.Errorf("error %v", err)
	}
	// Refused calls are not counted, and an outer limit holds as well.
	ctx = retry.WithLimit(retry.WithLimit(t.Context(), 1), 10)
	for range 5 {
		_ = r.Do(ctx, func(context.Context) error { return refusal{} })
	}
	n = 0
	_ = r.Do(ctx, func(context.Context) error { n++; return errUpstream })
	equal(t, "calls", n, 1)
}

// A limit that is set inside a retry holds there, in every form, although only
// the retry above repeats.
func TestWithLimitHoldsInsideADo(t *testing.T) {
	t.Parallel()
	inner := mustNew(t, noWait(retry.Config{}))
	for name, form := range map[string]func(*script) func(context.Context) error{
		"transport": func(sc *script) func(context.Context) error {
			rt := retry.NewTransport(retry.NewTransport(sc, inner), inner)
			return func(ctx context.Context) error {
				resp, err := rt.RoundTrip(post(t, "http://upstream/", "{}").WithContext(ctx))
				if err != nil {
					return err
				}
				_ = resp.Body.Close()
				return errUpstream
			}
		},
		"Do": func(sc *script) func(context.Context) error {
			return func(ctx context.Context) error {
				return inner.Do(ctx, func(ctx context.Context) error {
					_, err := retry.Do(ctx, inner, func(context.Context) (int, error) {
						sc.take(hit{})
						return 0, errUpstream
					})
					return err
				})
			}
		},
	} {
		outer := mustNew(t, noWait(retry.Config{Attempts: 9}))
		sc := newScript(failWith(503))
		send := form(sc)
		var limited context.Context
		err := outer.Do(t.Context(), func(ctx context.Context) error {
			if limited == nil {
				limited = retry.WithLimit(retry.WithLimit(ctx, 3), 7)
			}
			return send(limited)
		})
		equal(t, name+": calls", []int{sc.calls(), asError(t, err).Calls, int(outer.Stats().Calls)}, []int{3, 3, 3})
		if !errors.Is(err, retry.ErrExhausted) || !errors.Is(err, errUpstream) {
			t.Errorf("%s: error %v", name, err)
		}
	}

	// A call that a guard refused is given back.
	outer := mustNew(t, noWait(retry.Config{}))
	refused := 0
	n := 0
	err := outer.Do(t.Context(), func(ctx context.Context) error {
		ctx = retry.WithLimit(ctx, 1)
		for range 3 {
			_ = inner.Do(ctx, func(context.Context) error { refused++; return refusal{} })
		}
		return inner.Do(ctx, func(context.Context) error { n++; return nil })
	})
	noError(t, err)
	equal(t, "refused and made", []int{refused, n}, []int{3, 1})
}

func TestWithOutcome(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{Attempts: 3}))
	ctx, out := retry.WithOutcome(t.Context())
	if out.Ended() || out.Err() != nil || out.Calls() != 0 {
		t.Error("an outcome before the item")
	}
	err := r.Do(ctx, func(context.Context) error { return errUpstream })
	equal(t, "error", out.Err() == err, true)
	equal(t, "calls", out.Calls(), 3)
	equal(t, "ended", out.Ended(), true)
	_ = r.Do(ctx, func(context.Context) error { return nil })
	noError(t, out.Err())
}
