package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
)

// Bug reports of other breakers, each as a test of this one.

// sony/gobreaker#37: the hook ran under the lock, and asking for the state in
// it hung for ever.
func TestHookMayCallEverything(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	var b *breaker.Breaker
	var got []string
	cfg.OnChange = func(c breaker.Change) {
		got = append(got, fmt.Sprint(c.From, ">", c.To))
		_ = b.State()
		_ = b.String()
		if p, err := b.Allow(t.Context()); err == nil {
			p.Ignore()
		}
		if c.To == breaker.Open && len(got) == 1 {
			if err := b.Reset(t.Context(), "from the hook"); err != nil {
				t.Error(err)
			}
		}
	}
	b = newBreaker(t, cfg)
	fail(t, b, 3)
	if diff := cmp.Diff(got, []string{"closed>open", "open>closed"}); diff != "" {
		t.Errorf("changes (-got +want):\n%s", diff)
	}
}

func TestHookPanicLosesNothing(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	var got []breaker.State
	cfg.OnChange = func(c breaker.Change) {
		got = append(got, c.To)
		panic("hook")
	}
	b := newBreaker(t, cfg)
	fail(t, b, 3)
	clk.Add(10 * time.Second)
	probe(t, b).Success()
	if diff := cmp.Diff(got, []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed}); diff != "" {
		t.Errorf("changes (-got +want):\n%s", diff)
	}
	if got := b.Stats().HookPanics; got != 3 {
		t.Errorf("HookPanics = %d, want 3", got)
	}
}

// App-vNext/Polly#217: a call from before the trip succeeded late and closed
// the circuit.
func TestStaleSuccessDoesNotClose(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	cfg.Threshold = 2 // and one call out: the trip waits for no more than one failure
	b := newBreaker(t, cfg)
	early := allow(t, b)
	fail(t, b, 3)
	refusal(t, b)
	clk.Add(10 * time.Second)
	probe(t, b)
	early.Success()
	wantState(t, b, breaker.HalfOpen)
	refusal(t, b)
	if got := b.Stats().Stale; got != 1 {
		t.Errorf("Stale = %d, want 1", got)
	}
}

// App-vNext/Polly#216: while the probe hung every further call was let through.
func TestOneProbeOfManyCallers(t *testing.T) {
	t.Parallel()
	for range 200 {
		clk := newClock()
		b := newBreaker(t, plain(clk))
		fail(t, b, 3)
		clk.Add(10 * time.Second)
		if got := race(t, 32, b); got != 1 {
			t.Fatalf("%d calls went out, want one probe", got)
		}
	}
}

// race has n goroutines ask at once and returns how many were let through.
func race(t *testing.T, n int, breakers ...*breaker.Breaker) int {
	var passed atomic.Int32
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			if _, err := breakers[i%len(breakers)].Allow(t.Context()); err == nil {
				passed.Add(1)
			} else if !errors.Is(err, breaker.ErrOpen) {
				t.Error(err)
			}
		})
	}
	close(gate)
	wg.Wait()
	return int(passed.Load())
}

// resilience4j/resilience4j#544: an ignored probe never gave its permit back.
func TestIgnoredProbeFreesTheSlot(t *testing.T) {
	t.Parallel()
	clk := newClock()
	b := newBreaker(t, plain(clk))
	fail(t, b, 3)
	clk.Add(10 * time.Second)
	probe(t, b).Ignore()
	probe(t, b).Ignore()
	probe(t, b).Ignore() // the third in a row: nothing is learned this way
	if got := refusal(t, b).Until.Sub(clk.Now()); got != 10*time.Second {
		t.Errorf("after three ignored probes it is open for %v, want one cooldown that is not doubled", got)
	}
	clk.Add(10 * time.Second)
	probe(t, b).Success()
	wantState(t, b, breaker.Closed)
}

// resilience4j/resilience4j#935: a hanging probe kept everybody out for ever.
func TestLostProbeHasAnEnd(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	cfg.ProbeLease = time.Minute
	b := newBreaker(t, cfg)
	fail(t, b, 3)
	clk.Add(10 * time.Second)
	lost := probe(t, b)
	if got := refusal(t, b); got.State != breaker.HalfOpen || !got.Until.Equal(clk.Now().Add(time.Minute)) {
		t.Errorf("refusal says %v until %v, want half-open until the lease ends", got.State, got.Until)
	}
	clk.Add(time.Minute - 1)
	refusal(t, b)
	clk.Add(1)
	second := probe(t, b)
	lost.Success()
	wantState(t, b, breaker.HalfOpen)
	lost.Failure(errUp)
	second.Success()
	wantState(t, b, breaker.Closed)
}

// The lease was taken over by another process: the late result of the first
// probe must not even close this process's view for a moment.
func TestLateProbeOfAnotherProcess(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	cfg.ProbeLease, cfg.Store = time.Minute, breaker.Memory()
	var got []string
	cfg.OnChange = func(c breaker.Change) { got = append(got, fmt.Sprint(c.From, ">", c.To)) }
	b := newBreaker(t, cfg)
	fail(t, b, 3)
	clk.Add(10 * time.Second)
	lost := probe(t, b)
	clk.Add(time.Minute)
	cfg.OnChange = nil
	second := probe(t, newBreaker(t, cfg))
	lost.Success()
	wantState(t, b, breaker.HalfOpen)
	second.Success()
	wantState(t, b, breaker.Closed)
	if diff := cmp.Diff(got, []string{"closed>open", "open>half-open", "half-open>closed"}); diff != "" {
		t.Errorf("changes (-got +want):\n%s", diff)
	}
	if got := b.Stats().Stale; got != 1 {
		t.Errorf("Stale = %d, want 1", got)
	}
}

// A result after the lease still counts while nobody else has it.
func TestLateProbeCountsIfCurrent(t *testing.T) {
	t.Parallel()
	clk := newClock()
	b := newBreaker(t, plain(clk))
	fail(t, b, 3)
	clk.Add(10 * time.Second)
	p := probe(t, b)
	clk.Add(24 * time.Hour)
	p.Success()
	wantState(t, b, breaker.Closed)
}

// redhat-data-and-ai/template-agent#232: a monotonic stamp was stored, and the
// restart waited for ever.
func TestClockOfAnotherBoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := plain(newClock())
	cfg.Store = newFile(t, dir)
	fail(t, newBreaker(t, cfg), 3)

	clk := newClock()
	clk.Set(start.Add(-24 * time.Hour))
	cfg.Clock, cfg.Store = clk, newFile(t, dir)
	b := newBreaker(t, cfg)
	refusal(t, b)
	// Short-lived processes that only look must see the time pass as well.
	clk.Add(5 * time.Second)
	b = newBreaker(t, cfg)
	refusal(t, b)
	clk.Add(5 * time.Second)
	probe(t, newBreaker(t, cfg))
}

// danielfm/pybreaker#26: building a second breaker reset the shared state.
func TestNewWritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := plain(newClock())
	cfg.Store = newFile(t, dir)
	fail(t, newBreaker(t, cfg), 3)
	before := stateText(t, dir, "up")
	b := newBreaker(t, cfg)
	if diff := cmp.Diff(stateText(t, dir, "up"), before); diff != "" {
		t.Errorf("New changed the file (-got +want):\n%s", diff)
	}
	refusal(t, b)
	if diff := cmp.Diff(stateText(t, dir, "up"), before); diff != "" {
		t.Errorf("a refusal changed the file (-got +want):\n%s", diff)
	}
}

// nodeshift/opossum#719: a restored open state needed a live timer.
func TestTimeDecidesAfterARestart(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	cfg.Store = newFile(t, t.TempDir())
	fail(t, newBreaker(t, cfg), 3)
	clk.Add(10 * time.Second)
	probe(t, newBreaker(t, cfg))
}

// github/gh-aw-mcpg#10686: a probe that failed with a transport error was
// reported to nobody.
func TestEveryExitSettlesTheProbe(t *testing.T) {
	t.Parallel()
	for name, base := range map[string]func(*http.Request) (*http.Response, error){
		"error":      func(*http.Request) (*http.Response, error) { return nil, errUp },
		"nil, nil":   func(*http.Request) (*http.Response, error) { return nil, nil },
		"panic":      func(*http.Request) (*http.Response, error) { panic("base") },
		"status":     func(*http.Request) (*http.Response, error) { return answer(503, `{}`), nil },
		"dying body": func(*http.Request) (*http.Response, error) { return dyingAnswer(), nil },
		"empty answer": func(*http.Request) (*http.Response, error) {
			return answer(200, `{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}`), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := newClock()
			b := newBreaker(t, plain(clk))
			fail(t, b, 3)
			clk.Add(10 * time.Second)
			roundTrip(t, breaker.NewTransport(trip(base), b))
			if got := refusal(t, b); got.State != breaker.Open || got.Until.Sub(clk.Now()) != 20*time.Second {
				t.Errorf("after the probe it is %v for %v, want open for 20s", got.State, got.Until.Sub(clk.Now()))
			}
		})
	}
}

// Goexit says nothing about the upstream, and must not strand the slot.
func TestGoexitIsIgnored(t *testing.T) {
	t.Parallel()
	clk := newClock()
	b := newBreaker(t, plain(clk))
	fail(t, b, 3)
	clk.Add(10 * time.Second)
	goexit(func() {
		_ = b.Do(t.Context(), func(context.Context) error { exit(); return nil })
	})
	goexit(func() {
		rt := breaker.NewTransport(trip(func(*http.Request) (*http.Response, error) { exit(); return nil, nil }), b)
		roundTrip(t, rt)
	})
	probe(t, b).Success()
	if got := b.Stats().Ignored; got != 2 {
		t.Errorf("Ignored = %d, want 2", got)
	}
}

// vllm-project/router PR #60, sgl-project/sglang#25811: prompts that were too
// long opened the breaker for everyone.
func TestClientErrorsAreNotTheUpstreams(t *testing.T) {
	t.Parallel()
	clk := newClock()
	b := newBreaker(t, plain(clk))
	status := 400
	rt := breaker.NewTransport(trip(func(*http.Request) (*http.Response, error) {
		return answer(status, `{"error":{"message":"too long","code":"context_length_exceeded"}}`), nil
	}), b)
	for _, status = range []int{400, 404, 405, 410, 413, 415, 422, 501, 505} {
		for range 12 {
			roundTrip(t, rt)
		}
	}
	if got := b.Stats(); got.State != breaker.Closed || got.Streak != 0 {
		t.Fatalf("after client errors: %v, streak %d; want closed, 0", got.State, got.Streak)
	}
	// A 400 does not forgive either.
	fail(t, b, 2)
	status = 400
	roundTrip(t, rt)
	status = 503
	roundTrip(t, rt)
	refusal(t, b)
	// As a probe it frees the slot, and the next call is the probe.
	clk.Add(10 * time.Second)
	status = 400
	roundTrip(t, rt)
	probe(t, b)
}

// resilience4j/resilience4j#858: asking consumed the half-open permit.
func TestQuestionsHaveNoEffect(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	cfg.Store = breaker.Memory()
	b := newBreaker(t, cfg)
	fail(t, b, 3)
	clk.Add(10 * time.Second)
	for range 1000 {
		_ = b.State()
		_ = b.Stats()
		_ = b.String()
		if err := b.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	probe(t, b)
}
