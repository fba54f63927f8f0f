package budget_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/call"
)

func mustPacer(t testing.TB, c budget.PacerConfig) *budget.Pacer {
	t.Helper()
	p, err := budget.NewPacer(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustWait(t testing.TB, p *budget.Pacer, ctx context.Context, tokens int64) budget.Slot {
	t.Helper()
	s, err := p.Wait(ctx, tokens)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// turns makes n calls at once, and returns when they were let go, in order.
func turns(t testing.TB, p *budget.Pacer, n int, tokens int64) []time.Duration {
	t.Helper()
	start := time.Now()
	var mu sync.Mutex
	var at []time.Duration
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := p.Wait(t.Context(), tokens); err != nil {
				t.Error(err)
			}
			mu.Lock()
			at = append(at, time.Since(start))
			mu.Unlock()
		})
	}
	wg.Wait()
	return at
}

const ms = time.Millisecond

func TestNewPacerReportsEveryBadField(t *testing.T) {
	t.Parallel()
	_, err := budget.NewPacer(budget.PacerConfig{Name: "\n", Requests: -1, Tokens: -1, Headroom: 1, Express: []string{""}, Clock: (*clock.Mock)(nil)})
	for _, want := range []string{"Name", "Requests", "Tokens", "Headroom", "Express", "Clock"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %s: %v", want, err)
		}
	}
	if _, err := budget.NewPacer(budget.PacerConfig{}); err == nil {
		t.Error("a pacer that paces by nothing was made")
	}
}

// Calls are spaced: what idling has saved is not spent at once.
func TestPacerSpaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]budget.PacerConfig{
		"requests":          {Requests: 600},
		"tokens":            {Tokens: 60_000},
		"both":              {Requests: 600, Tokens: 60_000},
		"requests headroom": {Requests: 1200, Headroom: 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := mustPacer(t, c)
				want := []time.Duration{0, 100 * ms, 200 * ms, 300 * ms, 400 * ms}
				for _, idle := range []time.Duration{0, time.Minute, time.Hour} {
					time.Sleep(idle)
					equal(t, "turns after idling for "+idle.String(), turns(t, p, 5, 100), want)
				}
			})
		})
	}
}

// First come, first served, and those who give up lose nobody's place.
func TestPacerQueueWithCancels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustPacer(t, budget.PacerConfig{Requests: 600})
		mustWait(t, p, t.Context(), 0)
		start := time.Now()
		const callers = 1000
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		gone := 0
		ctx, cancel := context.WithCancel(t.Context())
		for i := range callers {
			c := t.Context()
			if i%8 < 3 {
				c = ctx
				gone++
			}
			wg.Go(func() {
				s, err := p.Wait(c, 0)
				if err != nil {
					if !errors.Is(err, context.Canceled) || !call.NotSent(err) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if got, want := s.At().Sub(start), time.Duration(len(order)+1)*100*ms; got != want {
					t.Errorf("turn %d at %v, want %v", len(order), got, want)
				}
				order = append(order, i)
			})
			synctest.Wait()
		}
		cancel()
		wg.Wait()
		if len(order) != callers-gone {
			t.Errorf("%d turns, want %d", len(order), callers-gone)
		}
		for i := range order[1:] {
			if order[i] > order[i+1] {
				t.Fatalf("%d was let go before %d", order[i], order[i+1])
			}
		}
		st := p.Stats()
		equal(t, "counted", []int64{st.Sent, st.Abandoned, int64(st.Waiting)}, []int64{int64(callers-gone) + 1, int64(gone), 0})
	})
}

// A call larger than the bucket is an error in x/time/rate (golang/go#80698);
// here it collects its tokens in parts.
func TestPacerLargeCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tokens int64
		want   time.Duration
	}{{10_000, 0}, {45_000, 35 * time.Second}, {90_000, 80 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			p := mustPacer(t, budget.PacerConfig{Tokens: 60_000})
			equal(t, "wait", turns(t, p, 1, c.tokens)[0], c.want)
			equal(t, "the next", turns(t, p, 1, 1000)[0], time.Second)
		})
	}
}

func TestPacerSettles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustPacer(t, budget.PacerConfig{Tokens: 60_000})
		s := mustWait(t, p, t.Context(), 5000)
		start := time.Now()
		done := make(chan time.Duration)
		go func() {
			mustWait(t, p, t.Context(), 5000)
			done <- time.Since(start)
		}()
		time.Sleep(time.Second)
		p.Settle(s, 1000) // 4000 come back, and the one who waits need not wait on
		equal(t, "turn", <-done, time.Second)

		s = mustWait(t, p, t.Context(), 1000)
		p.Settle(s, 3000)
		equal(t, "after a dearer call", turns(t, p, 1, 1000)[0], 3*time.Second)

		// Never sent: as if it had not been.
		s = mustWait(t, p, t.Context(), 1000)
		p.Cancel(s)
		equal(t, "after an unsent call", turns(t, p, 1, 1000)[0], 0)

		// Someone who gives up in the middle of collecting gives it back.
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := p.Wait(ctx, 20_000)
			gone <- err
		}()
		time.Sleep(15 * time.Second) // the first part of 10,000 is taken, 5,000 of the second are there
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
		equal(t, "turn of the next", turns(t, p, 2, 10_000), []time.Duration{0, 10 * time.Second})
	})
}

func TestPacerDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustPacer(t, budget.PacerConfig{Name: "key", Requests: 60, Tokens: 6_000_000})
		equal(t, "name", p.Name(), "key")
		mustWait(t, p, t.Context(), 0)
		for range 9 {
			go func() { mustWait(t, p, t.Context(), 0) }()
		}
		synctest.Wait()
		start := time.Now()
		soon, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		_, err := p.Wait(soon, 0)
		var late *budget.LateError
		if !errors.As(err, &late) || !errors.Is(err, budget.ErrLate) || time.Since(start) != 0 {
			t.Fatalf("err = %v after %v, want a *LateError at once", err, time.Since(start))
		}
		equal(t, "turn", late.Turn.Sub(start), 10*time.Second)
		equal(t, "text", late.Error(), "budget: pacer key: refused until 2000-01-01T00:00:10Z, the deadline is 2000-01-01T00:00:09Z and 9 are waiting: the turn comes after the deadline")
		at, ok := call.RetryAt(err)
		if call.RefusedBy(err) != "pacer" || !call.NotSent(err) || !ok || !at.Equal(late.Turn) || late.RetryableError() {
			t.Errorf("behaviours of %v", err)
		}
		if waited, err := call.Await(t.Context(), err); !waited || err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("Await = %v, %v after %v", waited, err, time.Since(start))
		}

		// Just in time, and a deadline that passes while waiting.
		enough, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		s := mustWait(t, p, enough, 0)
		next, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		go p.Observe(s, 429, http.Header{"Retry-After": {"60"}}, 0)
		if _, err := p.Wait(next, 0); !errors.Is(err, context.DeadlineExceeded) || !call.NotSent(err) {
			t.Errorf("err = %v, want the deadline", err)
		}
		gone := errors.New("gone")
		ended, stop := context.WithCancelCause(t.Context())
		stop(gone)
		if _, err := p.Wait(ended, 0); !errors.Is(err, gone) {
			t.Errorf("err = %v, want the cause", err)
		}
	})
}

// People do not queue, but what they use the batch waits for.
func TestPacerExpress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustPacer(t, budget.PacerConfig{Requests: 600, Tokens: 6000, Express: []string{"human"}})
		human := budget.WithOwner(t.Context(), "human")
		mustWait(t, p, t.Context(), 10)
		start := time.Now()
		for range 5 {
			mustWait(t, p, human, 100)
		}
		equal(t, "people waited", time.Since(start), 0)
		// 500 tokens of debt and its own 10, less what was free.
		mustWait(t, p, budget.WithOwner(t.Context(), "nightly"), 10)
		if d := time.Since(start); d < 4*time.Second || d > 6*time.Second {
			t.Errorf("the batch waited for %v, want about 5 s", d)
		}
		equal(t, "express", p.Stats().Express, int64(5))
	})
}

// Requests and tokens are two limits, and neither resets the other
// (BerriAI/litellm#24677): the throughput is that of the tighter one.
func TestPacerIndependentLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tokens int64
		want   int
	}{"requests bind": {100, 3000}, "tokens bind": {200, 1500}, "in turn": {0, 2250}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := mustPacer(t, budget.PacerConfig{Requests: 600, Tokens: 60_000})
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				n := 0
				for ; ; n++ {
					tokens := c.tokens
					if tokens == 0 { // cheap ones are held by requests, dear ones by tokens
						tokens = []int64{10, 200}[n/750%2]
					}
					if _, err := p.Wait(ctx, tokens); err != nil {
						break
					}
				}
				if n < c.want-10 || n > c.want+10 {
					t.Errorf("%d calls in five minutes, want %d", n, c.want)
				}
			})
		})
	}
}

func TestPacerOnAMockClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the mock's naps are free in a bubble
		clk := clock.NewMock() // at Unix 0, which is a time like any other
		p := mustPacer(t, budget.PacerConfig{Requests: 60, Clock: clk})
		mustWait(t, p, t.Context(), 0)
		var mu sync.Mutex
		n := 0
		for range 3 {
			go func() {
				mustWait(t, p, t.Context(), 0)
				mu.Lock()
				n++
				mu.Unlock()
			}()
		}
		for want := range 4 {
			synctest.Wait()
			mu.Lock()
			equal(t, "turns", n, want)
			mu.Unlock()
			clk.Add(time.Second)
		}
	})
}

func TestPacerDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustPacer(t, budget.PacerConfig{Tokens: 60_000})
		ctx := budget.WithEstimate(t.Context(), 5000)
		nested := 0
		err := p.Do(ctx, func(ctx context.Context) error {
			budget.Used(ctx, 400)
			budget.Used(ctx, 600)
			return p.Do(ctx, func(context.Context) error { nested++; return nil })
		})
		if err != nil || nested != 1 {
			t.Fatalf("err = %v, nested calls %d", err, nested)
		}
		equal(t, "the next, after a refund", turns(t, p, 1, 5000)[0], time.Second)

		notSent := &budget.RefusedError{Reason: budget.ErrExhausted}
		if err := p.Do(ctx, func(context.Context) error { return notSent }); !errors.Is(err, notSent) {
			t.Errorf("err = %v", err)
		}
		equal(t, "given back", turns(t, p, 1, 5000)[0], 0)
		equal(t, "unsent", p.Stats().Unsent, int64(1))

		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		box := call.With(soon)
		err = p.Do(box, func(context.Context) error { t.Error("called"); return nil })
		if !errors.Is(err, budget.ErrLate) || !errors.Is(box.Item.Refusal(), budget.ErrLate) {
			t.Errorf("err = %v, noted %v", err, box.Item.Refusal())
		}
	})
}

func TestPacerStats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustPacer(t, budget.PacerConfig{Name: "key", Requests: 60})
		before := p.Stats()
		turns(t, p, 3, 0)
		d := p.Stats().Sub(before)
		equal(t, "stats", d, budget.PacerStats{Name: "key", Sent: 3, Waited: 2, WaitSeconds: 3, Rate: 60})
		var fields map[string]any
		if err := json.Unmarshal([]byte(p.String()), &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, "name")
		all := make(map[string]any)
		for k, v := range p.Stats().All() {
			all[k] = v
		}
		equal(t, "All against String", all, fields)
	})
}
