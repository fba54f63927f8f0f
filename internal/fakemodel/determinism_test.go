package fakemodel_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// life is what an item goes through: outcome and latency of each attempt.
type life []string

// night sends every item for a number of attempts, by workers that take them
// in an order of their own, and returns the lives. Refusals by a limit are
// waited out and are no part of a life.
func night(t *testing.T, c fakemodel.Config, workers int, order uint64) map[string]life {
	const items, attempts = 150, 4
	m := newModel(t, c)
	queue := make(chan string, items)
	for _, i := range rand.New(rand.NewPCG(order, 0)).Perm(items) {
		queue <- fmt.Sprint("item ", i)
	}
	close(queue)
	var mu sync.Mutex
	lives := make(map[string]life)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for item := range queue {
				var l life
				for len(l) < attempts {
					start := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					r := post(ctx, m, ask(item))
					cancel()
					what := r.outcome()
					if errors.Is(r.err, context.DeadlineExceeded) {
						what = "hang"
					}
					if what != limited {
						l = append(l, fmt.Sprintf("%s after %v", what, time.Since(start)))
					}
				}
				mu.Lock()
				lives[item] = l
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return lives
}

func TestLivesDoNotDependOnOrder(t *testing.T) {
	t.Parallel()
	pick := fakemodel.Pick{Share: 0.08}
	config := fakemodel.Config{
		Seed:    42,
		Latency: fakemodel.Latency{Median: 2 * time.Second, Sigma: 0.5, SlowShare: 0.05, Reject: 50 * time.Millisecond},
		Faults:  fakemodel.Faults{Poison: pick, Empty: pick, EmptyOnce: pick, Hang: pick, Flaky: pick, ErrorIn200: pick},
	}
	synctest.Test(t, func(t *testing.T) {
		want := night(t, config, 1, 0)
		seen := make(map[string]bool)
		for _, l := range want {
			for _, what := range l {
				seen[what] = true
			}
		}
		if len(seen) < 200 {
			t.Fatalf("only %d different outcomes: the night shows nothing", len(seen))
		}
		crowded := config
		crowded.Limits = fakemodel.Limits{RPM: 300, Burst: 4, WindowCalls: 200, ChargeRejected: false}
		crowded.Faults.Every = 7
		for name, got := range map[string]map[string]life{
			"32 workers":                 night(t, config, 32, 1),
			"32 workers against a limit": night(t, crowded, 32, 2),
		} {
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("%s (-got +want):\n%s", name, diff)
			}
		}
		other := config
		other.Seed = 43
		if cmp.Equal(night(t, other, 1, 0), want) {
			t.Error("another seed gave the same night")
		}
	})
}

// One fault's victims are the same with and without the others.
func TestFaultsDrawApart(t *testing.T) {
	t.Parallel()
	victims := func(f fakemodel.Faults) map[string]bool {
		m := newModel(t, fakemodel.Config{Seed: 9, Faults: f})
		out := make(map[string]bool)
		for i := range 400 {
			prompt := fmt.Sprint("item ", i)
			if post(t.Context(), m, ask(prompt)).outcome() == poisoned {
				out[prompt] = true
			}
		}
		return out
	}
	pick := fakemodel.Pick{Share: 0.1}
	alone := victims(fakemodel.Faults{Poison: pick})
	among := victims(fakemodel.Faults{Poison: pick, Empty: pick, Flaky: pick})
	if diff := cmp.Diff(among, alone); diff != "" || len(alone) == 0 {
		t.Errorf("victims (-among others +alone):\n%s", diff)
	}
}

// The same call by 32 goroutines at once, in real time: for the race detector
// and for sums that must agree.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	m := newModel(t, fakemodel.Config{
		Limits: fakemodel.Limits{RPM: 60_000_000, Burst: 100, TPM: 100_000_000, DailyTokens: 1 << 40},
		Hints:  fakemodel.Hints{RateLimit: true, Seconds: true},
		Faults: fakemodel.Faults{Flaky: fakemodel.Pick{Share: 0.2}},
	})
	const workers, each = 32, 50
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range each {
				post(t.Context(), m, ask(fmt.Sprint("item ", i%5)))
				m.Stats()
			}
		})
	}
	wg.Wait()
	s := m.Stats()
	statuses, fates, items, tokens := 0, 0, 0, int64(0)
	for _, n := range s.Status {
		statuses += n
	}
	for _, n := range s.Fates {
		fates += n
	}
	for _, it := range s.Items {
		items += it.Calls
		tokens += it.Tokens
	}
	want := []int{workers * each, workers * each, workers * each, workers * each, 0, 0}
	if diff := cmp.Diff([]int{s.Calls, statuses, fates, items, s.InFlight, s.OpenBodies}, want); diff != "" {
		t.Errorf("calls, statuses, fates, by item, in flight, open bodies (-got +want):\n%s", diff)
	}
	if tokens != s.Tokens || s.Tokens != s.Users[""].Tokens {
		t.Errorf("tokens: %d by item, %d by user, %d in all", tokens, s.Users[""].Tokens, s.Tokens)
	}
	if s.MaxInFlight < 1 || s.MaxInFlight > workers {
		t.Errorf("most in flight: got %d, want 1 to %d", s.MaxInFlight, workers)
	}
}
