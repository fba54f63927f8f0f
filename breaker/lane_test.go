package breaker_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
)

// A lost reply: the store has granted the probe and says that it has not.
func TestLostReply(t *testing.T) {
	t.Parallel()
	clk := newClock()
	store := &watched{Store: breaker.Memory()}
	var lose atomic.Bool
	cfg := plain(clk)
	cfg.Store = storeFunc(func(ctx context.Context, name string, fn func([]byte) ([]byte, error)) error {
		err := store.Update(ctx, name, fn)
		if lose.Swap(false) {
			return errors.New("connection reset")
		}
		return err
	})
	b := newBreaker(t, cfg)
	fail(t, b, 3)
	clk.Add(10 * time.Second)
	_ = b.State() // the look that is due
	lose.Store(true)
	p := probe(t, b)
	refusal(t, b)
	clk.Add(2 * time.Second)
	p.Success()
	wantState(t, b, breaker.Closed)
	cfg.Store = store
	wantState(t, newBreaker(t, cfg), breaker.Closed)
}

// A store that runs fn again after a lost reply: who finds his own token has
// the probe.
func TestGrantRunsTwice(t *testing.T) {
	t.Parallel()
	clk := newClock()
	shared := breaker.Memory()
	cfg := plain(clk)
	cfg.Store = storeFunc(func(ctx context.Context, name string, fn func([]byte) ([]byte, error)) error {
		return errors.Join(shared.Update(ctx, name, fn), shared.Update(ctx, name, func(old []byte) ([]byte, error) {
			if old == nil || !bytes.Contains(old, []byte("token")) {
				return old, nil
			}
			return fn(old)
		}))
	})
	b := newBreaker(t, cfg)
	if err := b.Trip(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	clk.Add(10 * time.Second)
	probe(t, b)
}

// A caller that has gone while its probe was written gives the slot back.
func TestCallerGoneDuringGrant(t *testing.T) {
	t.Parallel()
	clk := newClock()
	shared := breaker.Memory()
	ctx, cancel := context.WithCancelCause(t.Context())
	cfg := plain(clk)
	var leave atomic.Bool
	cfg.Store = storeFunc(func(ctx context.Context, name string, fn func([]byte) ([]byte, error)) error {
		if leave.Load() {
			cancel(errUp)
		}
		return shared.Update(ctx, name, fn)
	})
	b := newBreaker(t, cfg)
	fail(t, b, 3)
	clk.Add(10 * time.Second)
	leave.Store(true)
	if p, err := b.Allow(ctx); !errors.Is(err, errUp) {
		t.Fatalf("Allow = %v, %v; want the context's cause", p, err)
	}
	probe(t, b)
}

// A breaker's own writes are no news to it.
func TestOwnWritesAreNotRead(t *testing.T) {
	t.Parallel()
	store := &watched{Store: breaker.Memory()}
	cfg := plain(newClock())
	cfg.Store = numbered{store, store.Store.(breaker.Sequencer)}
	b := newBreaker(t, cfg)
	before := store.calls.Load()
	fail(t, b, 2)
	allow(t, b).Success()
	fail(t, b, 1)
	if got := store.calls.Load() - before; got != 4 {
		t.Errorf("%d operations for four changes", got)
	}
}

// A clock that is set back while the store is left alone does not leave it
// alone for longer.
func TestClockSetBackDuringBackoff(t *testing.T) {
	t.Parallel()
	clk := newClock()
	store := &watched{Store: breaker.Memory()}
	cfg := plain(clk)
	cfg.Store = store
	b := newBreaker(t, cfg)
	store.setBroken(errors.New("down"))
	fail(t, b, 1)
	store.setBroken(nil)
	clk.Set(start.Add(-24 * time.Hour))
	_ = b.State()
	if got := newBreaker(t, cfg).Stats().Streak; got != 1 {
		t.Errorf("the store has %d failures, want 1", got)
	}
}

// Two processes lose and find the store at different times: the one that has
// moved on further wins, and nobody is stuck.
func TestStoresOfTwoMinds(t *testing.T) {
	t.Parallel()
	clk := newClock()
	shared := breaker.Memory()
	one, two := &watched{Store: shared}, &watched{Store: shared}
	cfg := plain(clk)
	cfg.Store = one
	a := newBreaker(t, cfg)
	cfg.Store = two
	b := newBreaker(t, cfg)
	one.setBroken(errors.New("down"))
	fail(t, a, 3)
	refusal(t, a)
	allow(t, b).Failure(errUp)
	allow(t, b).Success()
	one.setBroken(nil)
	clk.Add(2 * time.Second)
	refusal(t, a)
	refusal(t, b)
	clk.Add(8 * time.Second)
	if got := race(t, 20, a, b); got != 1 {
		t.Errorf("%d probes, want 1", got)
	}
}

// Whatever a call's look at the store finds, and what New's has found, is told
// before the call goes out, though the call has no news of its own.
func TestNewsIsToldAtOnce(t *testing.T) {
	t.Parallel()
	clk := newClock()
	store := &watched{Store: breaker.Memory()}
	var told []string
	cfg := plain(clk)
	cfg.Store = storeFunc(store.Update)
	cfg.OnChange = func(c breaker.Change) {
		if c.Err != nil {
			told = append(told, "trouble")
		} else {
			told = append(told, c.To.String())
		}
	}
	other := cfg
	other.OnChange = nil
	far := newBreaker(t, other)
	if err := far.Trip(t.Context(), "by hand"); err != nil {
		t.Fatal(err)
	}
	b := newBreaker(t, cfg)
	if err := far.Reset(t.Context(), "by hand"); err != nil {
		t.Fatal(err)
	}
	clk.Add(time.Minute)
	allow(t, b)
	store.setBroken(errUp)
	clk.Add(time.Minute)
	allow(t, b)
	if d := cmp.Diff(told, []string{"closed", "trouble"}); d != "" {
		t.Errorf("told by the calls (-got +want):\n%s", d)
	}

	told = nil
	b = newBreaker(t, cfg)
	if len(told) != 0 {
		t.Errorf("New told %q: its caller has no breaker yet", told)
	}
	allow(t, b)
	if d := cmp.Diff(told, []string{"trouble"}); d != "" {
		t.Errorf("told by the first call (-got +want):\n%s", d)
	}
}
