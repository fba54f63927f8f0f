package budget_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

func lease(t testing.TB, s budget.Store, chunk int64) *budget.Lease {
	t.Helper()
	l, err := budget.Leased(s, chunk)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLeasedSavesTrips(t *testing.T) {
	t.Parallel()
	s := &shaky{Store: budget.NewMemory()}
	l := lease(t, s, 10_000)
	b := mustNew(t, budget.Config{Limit: 10_000_000, Store: l, Owners: []budget.Owner{{Name: "a"}, {Name: "b", Limit: 5_000_000}}})
	sum := int64(0)
	for i := range 1000 {
		r := mustReserve(t, b, []string{"a", "b"}[i%2], 100)
		_ = r.Reconcile(t.Context(), int64(50+i%100)) // below and above
		sum += int64(50 + i%100)
	}
	if s.trips > 60 {
		t.Errorf("%d trips for 1000 calls", s.trips)
	}
	if got := spent(t, b); got < sum || got > sum+3*10_000+100 {
		t.Errorf("spent %d while leasing, want %d and at most what is leased", got, sum)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := b.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "spent when all is handed back", st.Spent, sum)
	equal(t, "owners", st.Owners[0].Spent+st.Owners[1].Spent, sum)
}

// Many processes, each with its lease: never above the cap.
func TestLeasedNeverOverspends(t *testing.T) {
	t.Parallel()
	const limit, processes = 1_000_000, 16
	store := budget.NewMemory()
	var mu sync.Mutex
	held := int64(0)
	var wg sync.WaitGroup
	leases := make([]*budget.Lease, processes)
	for i := range processes {
		leases[i] = lease(t, store, 20_000)
		b := mustNew(t, budget.Config{Limit: limit, Headroom: -1, Store: leases[i]})
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for {
				n := 500 + rnd.Int64N(2000)
				r, err := b.Reserve(context.Background(), "", n)
				mu.Lock()
				if err != nil {
					mu.Unlock()
					if !errors.Is(err, budget.ErrExhausted) {
						t.Error(err)
					}
					return
				}
				held += n
				if held > limit {
					t.Errorf("%d are held of %d", held, limit)
				}
				mu.Unlock()
				if rnd.IntN(4) == 0 {
					mu.Lock()
					held -= n
					mu.Unlock()
					_ = r.Cancel(context.Background())
				}
			}
		})
	}
	wg.Wait()
	for _, l := range leases {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	equal(t, "spent", spent(t, mustNew(t, budget.Config{Limit: limit, Store: store})), held)
}

// Processes that go on at one pace: what is parked elsewhere is little when the
// first is refused, since a lease is a small part of what is left. One that
// stands still keeps what it has leased, so this is no matter for goroutines.
func TestLeasedParksLittle(t *testing.T) {
	t.Parallel()
	const limit, processes = 1_000_000, 16
	store := budget.NewMemory()
	rnd := rand.New(rand.NewPCG(1, 1))
	var budgets []*budget.Budget
	for range processes {
		budgets = append(budgets, mustNew(t, budget.Config{Limit: limit, Headroom: -1, Store: lease(t, store, 20_000)}))
	}
	held := int64(0)
	for i := 0; ; i++ {
		n := 500 + rnd.Int64N(2000)
		if _, err := budgets[i%processes].Reserve(t.Context(), "", n); err != nil {
			if !errors.Is(err, budget.ErrExhausted) {
				t.Fatal(err)
			}
			break
		}
		held += n
	}
	if unused := limit - held; unused < 0 || unused > limit/50 {
		t.Errorf("%d of %d were unused when the first was refused", unused, limit)
	}
}

// What was leased under the hard cap is not for those under the soft one.
func TestLeasedKeepsCapsApart(t *testing.T) {
	t.Parallel()
	l := lease(t, budget.NewMemory(), 100)
	b := mustNew(t, budget.Config{Limit: 1000, Store: l, Owners: []budget.Owner{{Name: "batch"}, {Name: "human", UseHeadroom: true}}})
	mustReserve(t, b, "batch", 850)
	mustReserve(t, b, "human", 10)
	mustRefuse(t, b, "batch", 1, budget.ErrExhausted)
	mustReserve(t, b, "human", 140)
	mustRefuse(t, b, "human", 1, budget.ErrExhausted)
	if err := b.Adjust(t.Context(), "batch", -100); err != nil {
		t.Fatal(err)
	}
	equal(t, "spent", spent(t, b), int64(900))
	mustReserve(t, b, "human", 100)
}

func TestLeasedWindowsAndFailures(t *testing.T) {
	t.Parallel()
	if _, err := budget.Leased(nil, 1); err == nil {
		t.Error("a lease on nothing")
	}
	if _, err := budget.Leased(budget.NewMemory(), 0); err == nil {
		t.Error("a lease of nothing")
	}
	clk := mockAt(noon)
	store := budget.NewMemory()
	s := &shaky{Store: store}
	l := lease(t, s, 1000)
	b := mustNew(t, budget.Config{Limit: 100_000, Store: l, Clock: clk})
	late := mustReserve(t, b, "", 100)
	clk.Add(24 * time.Hour)
	mustReserve(t, b, "", 100) // a new window: the old one's lease goes back
	_ = late.Reconcile(t.Context(), 130)
	clk.Set(noon)
	direct := mustNew(t, budget.Config{Limit: 100_000, Store: store, Clock: clk})
	equal(t, "yesterday", spent(t, direct), int64(130))

	s.fail(100)
	for range 3 {
		mustRefuse(t, b, "", 50_000, budget.ErrStore)
	}
	if err := l.Close(t.Context()); err == nil {
		t.Error("Close did not tell that the rest is lost")
	}
	s.fail(0)
	mustReserve(t, b, "", 50_000)

	// A store that hangs: whoever waits for it leaves with its context.
	synctest.Test(t, func(t *testing.T) {
		l := lease(t, &slowStore{Memory: budget.NewMemory(), wait: time.Hour}, 10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		apply := func(ctx context.Context) error {
			return l.Apply(ctx, []*budget.Change{{Ops: []budget.Op{{Key: "k", Delta: 1, Max: 10, Expire: time.Hour}}}})
		}
		go func() { _ = apply(t.Context()) }()
		synctest.Wait()
		if err := apply(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		time.Sleep(2 * time.Hour)
	})
}
