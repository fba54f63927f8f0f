package budget_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/call"
)

// A store that fails for a while: a hiccup must not lift every cap unseen.
func TestStoreErrorPolicies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		policy   budget.StoreErrorPolicy
		granted  int // of three calls of 100 while the store fails
		events   []budget.EventKind
		unbooked int64
	}{
		{"closed", budget.Closed, 0, []budget.EventKind{"degraded", "refused", "refused", "refused", "recovered"}, 0},
		{"open", budget.Open, 3, []budget.EventKind{"degraded", "recovered", "booked"}, 300},
		{"local", budget.Local(250), 2, []budget.EventKind{"degraded", "refused", "recovered", "booked"}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var rec recorder
			s := &shaky{Store: budget.NewMemory()}
			b := mustNew(t, budget.Config{
				Limit: 1000, Headroom: -1, Store: s, OnStoreError: c.policy, OnEvent: rec.add, Clock: mockAt(noon),
				Owners: []budget.Owner{{Name: "a", Limit: 900}},
			})
			mustReserve(t, b, "a", 50)
			// Trips: one for each call, and one before it for what is owed.
			s.fail(100)
			var open []*budget.Reservation
			for range 3 {
				r, err := b.Reserve(t.Context(), "a", 100)
				if err == nil {
					open = append(open, r)
					continue
				}
				if !errors.Is(err, budget.ErrStore) || !errors.Is(err, errDown) || call.RefusedBy(err) != "budget" {
					t.Errorf("err = %v", err)
				}
				if at, ok := call.RetryAt(err); !ok || !at.Equal(noon.Add(time.Second)) {
					t.Errorf("RetryAt = %v, %v", at, ok)
				}
			}
			st := b.Stats()
			equal(t, "granted", []int64{int64(len(open)), st.Local, st.Unbooked}, []int64{int64(c.granted), int64(c.granted), c.unbooked})
			if _, err := b.Status(t.Context()); !errors.Is(err, budget.ErrStore) {
				t.Errorf("Status of a store that fails: %v", err)
			}
			// One settles before the store is back, one after.
			want := int64(50)
			if len(open) > 0 {
				_ = open[0].Reconcile(t.Context(), 30)
			}
			s.fail(0)
			mustReserve(t, b, "a", 10)
			want += 10
			if len(open) > 0 {
				_ = open[1].Reconcile(t.Context(), 40)
				want += 30 + 40 + 100*int64(len(open)-2)
			}
			got, err := b.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "spent", []int64{got.Spent, got.Owners[0].Spent, got.Unbooked}, []int64{want, want, 0})
			if got.Degraded {
				t.Error("degraded still")
			}
			for range 3 { // what was owed is told once
				mustReserve(t, b, "a", 1)
			}
			equal(t, "spent", spent(t, b), want+3)
			equal(t, "events", rec.kinds(), c.events)
		})
	}
}

// A settlement that does not reach the store is an event and never the error
// of an answer that was paid; a window that is gone is told apart from a
// success (BerriAI/litellm#35570).
func TestSettlementsThatFail(t *testing.T) {
	t.Parallel()
	var rec recorder
	s := &shaky{Store: budget.NewMemory()}
	b := mustNew(t, budget.Config{Limit: 1000, Store: s, OnEvent: rec.add})
	r := mustReserve(t, b, "", 100)
	s.fail(1)
	if err := r.Reconcile(t.Context(), 10); !errors.Is(err, errDown) {
		t.Errorf("Reconcile = %v", err)
	}
	err := b.Do(budget.WithEstimate(t.Context(), 100), func(ctx context.Context) error {
		budget.Used(ctx, 10)
		s.fail(1)
		return nil
	})
	if err != nil {
		t.Errorf("a paid answer's error: %v", err)
	}
	equal(t, "spent: the estimates stay", spent(t, b), int64(200))
	equal(t, "outstanding", b.Stats().Outstanding, int64(0))

	r = mustReserve(t, b, "", 100)
	s.Store = budget.NewMemory() // somebody has deleted the counters
	if err := r.Reconcile(t.Context(), 10); err != nil {
		t.Errorf("Reconcile = %v", err)
	}
	equal(t, "spent", spent(t, b), int64(0))
	equal(t, "events", rec.kinds(), []budget.EventKind{
		"degraded", "settle-failed", "recovered", "degraded", "settle-failed", "recovered", "window-gone",
	})
	st := b.Stats()
	equal(t, "counted", []int64{st.SettleErrors, st.WindowGone, st.StoreErrors}, []int64{2, 1, 2})
}

// slowStore takes its time, and tells how many changes each trip had.
type slowStore struct {
	*budget.Memory
	wait  time.Duration
	mu    sync.Mutex
	trips []int
	do    func(n int) // in the n-th trip
}

func (s *slowStore) Apply(ctx context.Context, cs []*budget.Change) error {
	s.mu.Lock()
	s.trips = append(s.trips, len(cs))
	n := len(s.trips)
	s.mu.Unlock()
	if s.do != nil {
		s.do(n)
	}
	select {
	case <-time.After(s.wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.Memory.Apply(ctx, cs)
}

// Those who come while a trip is under way go with the next one, together.
func TestCallersAreCombined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{Memory: budget.NewMemory(), wait: time.Second}
		b := mustNew(t, budget.Config{Limit: 1000, Headroom: -1, Store: s})
		start := time.Now()
		var granted atomic.Int32
		var wg sync.WaitGroup
		for range 600 {
			wg.Go(func() {
				if _, err := b.Reserve(t.Context(), "", 2); err == nil {
					granted.Add(1)
				}
			})
		}
		wg.Wait()
		equal(t, "granted", granted.Load(), int32(500))
		equal(t, "trips", s.trips, []int{1, 256, 256, 87})
		equal(t, "took", time.Since(start), 4*time.Second)
	})
}

// A caller that leaves while its change is in the store must not pay.
func TestCallerLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{Memory: budget.NewMemory(), wait: time.Second}
		b := mustNew(t, budget.Config{Limit: 1000, Headroom: -1, Store: s})
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		soon, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		var left atomic.Int32
		var wg sync.WaitGroup
		reserve := func(ctx context.Context) {
			wg.Go(func() {
				if _, err := b.Reserve(ctx, "", 100); errors.Is(err, context.DeadlineExceeded) && call.NotSent(err) {
					left.Add(1)
				}
			})
			synctest.Wait()
		}
		reserve(t.Context()) // leads the first trip
		for range 3 {        // in the second trip when they leave
			reserve(ctx)
		}
		reserve(soon) // still queued when it leaves
		wg.Wait()
		// One of the three leads the trip for the others, and stays for it.
		equal(t, "left", left.Load(), int32(3))
		time.Sleep(time.Minute)
		mustReserve(t, b, "", 800) // takes the give-backs along
		equal(t, "spent", spent(t, b), int64(1000))
		equal(t, "outstanding", b.Stats().Outstanding, int64(3))
	})
}

// Whatever the store does, nobody is stranded behind it.
func TestStoreThatMisbehaves(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(){
		"panics":               func() { panic("driver") },
		"ends the goroutine":   runtime.Goexit,
		"hangs until told not": func() { time.Sleep(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &slowStore{Memory: budget.NewMemory(), wait: time.Second}
				s.do = func(n int) {
					if n == 2 && name != "hangs until told not" {
						do()
					}
				}
				if name == "hangs until told not" {
					s.wait = time.Hour // ended by StoreTimeout
				}
				b := mustNew(t, budget.Config{Limit: 1000, Headroom: -1, Store: s})
				var granted, refused, ended atomic.Int32
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						done := false
						defer func() {
							if !done {
								ended.Add(1)
							}
						}()
						_, err := b.Reserve(t.Context(), "", 10)
						done = true
						switch {
						case err == nil:
							granted.Add(1)
						case errors.Is(err, budget.ErrStore):
							refused.Add(1)
						default:
							t.Error(err)
						}
					})
				}
				wg.Wait()
				want := []int32{1, 19, 0}
				switch name {
				case "ends the goroutine":
					want = []int32{1, 18, 1}
				case "hangs until told not":
					want = []int32{0, 20, 0}
				}
				equal(t, "granted, refused, ended", []int32{granted.Load(), refused.Load(), ended.Load()}, want)
				s.wait = 0
				mustReserve(t, b, "", 10)
			})
		})
	}
}

// Awaiting a store's failure ends after a moment: then it is asked again.
func TestAwaitTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shaky{Store: budget.NewMemory()}
		b := mustNew(t, budget.Config{Limit: 1000, Store: s})
		s.fail(1)
		e := mustRefuse(t, b, "", 1, budget.ErrStore)
		start := time.Now()
		if err := e.Await(t.Context()); err != nil || time.Since(start) != time.Second {
			t.Errorf("Await = %v after %v", err, time.Since(start))
		}
		mustReserve(t, b, "", 1)
	})
}

// What happens is logged when there is a logger, in one line each.
func TestLogger(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := &shaky{Store: budget.NewMemory()}
	b := mustNew(t, budget.Config{Name: "day", Limit: 1000, Store: s, Logger: log, OnEvent: func(budget.Event) { panic("hook") }})
	s.fail(1)
	mustRefuse(t, b, "", 1, budget.ErrStore)
	p := mustPacer(t, budget.PacerConfig{Name: "key", Requests: 600, Logger: log, OnEvent: func(budget.PacerEvent) { panic("hook") }})
	p.Observe(mustWait(t, p, t.Context(), 0), 429, nil, 0)
	for _, want := range []string{"level=WARN msg=\"budget degraded\"", "level=DEBUG msg=\"budget refused\"", "level=INFO msg=\"pacer held\"", "OnEvent panicked"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, text.String())
		}
	}
	equal(t, "panics", []int64{b.Stats().HookPanics, p.Stats().HookPanics}, []int64{2, 1})
}
