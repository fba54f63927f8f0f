package budget_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/call"
)

// hours is a Window whose pointer can be nil.
type hours struct{ budget.Window }

func TestNewReportsEveryBadField(t *testing.T) {
	t.Parallel()
	_, err := budget.New(budget.Config{
		Name: "a\nb", Limit: -1, Headroom: 1, Window: budget.Daily(nil),
		Owners:       []budget.Owner{{Name: ""}, {Name: "x", Limit: -2}, {Name: "x"}},
		OnStoreError: budget.Local(0), StoreTimeout: -1,
	})
	_, nils := budget.New(budget.Config{Limit: 10, Store: (*budget.File)(nil), Clock: (*clock.Mock)(nil), Window: (*hours)(nil)})
	for _, want := range []string{"Store is a nil *budget.File", "Clock is a nil *clock.Mock", "Window is a nil *budget_test.hours"} {
		if nils == nil || !strings.Contains(nils.Error(), want) {
			t.Errorf("the error does not mention %q:\n%v", want, nils)
		}
	}
	if err == nil {
		t.Fatal("a bad Config was taken")
	}
	for _, want := range []string{"Name \"a\\nb\"", "Limit -1", "Headroom 1", "time.LoadLocation", "Owners[0]", "Owners[1]", "Owners[2]", "Local", "StoreTimeout"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q:\n%v", want, err)
		}
	}
	for _, c := range []budget.Config{{Limit: budget.MaxAmount + 1}, {Limit: 1}, {Limit: 10, Headroom: math.NaN()}} {
		if _, err := budget.New(c); err == nil {
			t.Errorf("New(%+v) succeeded", c)
		}
	}
}

// The cap is decimal arithmetic: floating point would make 9 of 100*(1-0.9).
func TestSoftCap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit    int64
		headroom float64
		want     int64
	}{
		{1000, 0, 850},
		{1000, -1, 1000},
		{100, 0.9, 10},
		{100, 0.07, 93},
		{10, 0.15, 8},
		{7, 0.5, 3},
		{budget.MaxAmount, -1, budget.MaxAmount},
		{1_000_000_007, 0.29, 710000004},
	} {
		b := mustNew(t, budget.Config{Limit: c.limit, Headroom: c.headroom})
		st, err := b.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "soft cap", st.SoftCap, c.want)
		mustReserve(t, b, "", c.want) // exactly the cap is allowed
		mustRefuse(t, b, "", 1, budget.ErrExhausted)
	}
}

func TestOwnersAndCeilings(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 1000, Clock: mockAt(noon), Owners: []budget.Owner{
		{Name: "nightly"}, {Name: "small", Limit: 100}, {Name: "human", UseHeadroom: true},
	}})
	mustRefuse(t, b, "", 1, budget.ErrUnknownOwner)
	mustRefuse(t, b, "nightl", 1, budget.ErrUnknownOwner)
	mustRefuse(t, b, "small", 101, budget.ErrTooLarge)
	mustReserve(t, b, "small", 60)
	e := mustRefuse(t, b, "small", 50, budget.ErrExhausted)
	if !e.OwnerCap || e.Spent != 60 || e.Cap != 100 {
		t.Errorf("refusal = %+v, want the owner's ceiling of 100 with 60 spent", e)
	}
	mustReserve(t, b, "nightly", 790)
	e = mustRefuse(t, b, "nightly", 1, budget.ErrExhausted)
	if e.OwnerCap || e.Spent != 850 || e.Cap != 850 {
		t.Errorf("refusal = %+v, want the pool's soft cap", e)
	}
	mustReserve(t, b, "human", 150)
	e = mustRefuse(t, b, "human", 1, budget.ErrExhausted)
	equal(t, "cap for a person", e.Cap, int64(1000))

	st, err := b.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "status", st, budget.Status{
		Budget: "budget", Window: "2026-05-04", End: noon.Add(12 * time.Hour), Limit: 1000, SoftCap: 850, Spent: 1000,
		Outstanding: 3, OutstandingUnits: 1000,
		Owners: []budget.OwnerStatus{
			{Owner: budget.Owner{Name: "nightly"}, Spent: 790, Outstanding: 1, OutstandingUnits: 790, Oldest: noon},
			{Owner: budget.Owner{Name: "small", Limit: 100}, Spent: 60, Outstanding: 1, OutstandingUnits: 60, Oldest: noon},
			{Owner: budget.Owner{Name: "human", UseHeadroom: true}, Spent: 150, Outstanding: 1, OutstandingUnits: 150, Oldest: noon},
		},
	})
}

// An attempt after the first finishes what was paid for, a probe ends an
// outage: both may use the headroom, never more.
func TestLaterAttemptsUseTheHeadroom(t *testing.T) {
	t.Parallel()
	later := func(f func(*call.Box)) context.Context {
		b := call.With(context.Background())
		f(b)
		return b
	}
	for name, ctx := range map[string]context.Context{
		"second attempt": later(func(b *call.Box) { b.Begin(2) }),
		"probe":          later(func(b *call.Box) { b.Probe = true }),
	} {
		b := mustNew(t, budget.Config{Limit: 100})
		mustReserve(t, b, "", 85)
		mustRefuse(t, b, "", 1, budget.ErrExhausted)
		if _, err := b.Reserve(later(func(b *call.Box) { b.Begin(1) }), "", 1); !errors.Is(err, budget.ErrExhausted) {
			t.Errorf("%s: a first attempt: %v", name, err)
		}
		// Else an item of two calls would void the soft cap.
		if _, err := b.Reserve(later(func(b *call.Box) { b.Item.Sent() }), "", 1); !errors.Is(err, budget.ErrExhausted) {
			t.Errorf("%s: a second call of an item: %v", name, err)
		}
		if _, err := b.Reserve(ctx, "", 15); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.Reserve(ctx, "", 1); !errors.Is(err, budget.ErrExhausted) {
			t.Errorf("%s above the hard cap: %v", name, err)
		}
		equal(t, "spent", spent(t, b), int64(100))
		equal(t, "counted", b.Stats().Headroom, int64(1))
	}
}

func TestRefusalsByFault(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 100, Clock: mockAt(noon)})
	for _, n := range []int64{0, -1, math.MinInt64, budget.MaxAmount + 1, math.MaxInt64} {
		mustRefuse(t, b, "", n, budget.ErrEstimate)
	}
	mustRefuse(t, b, "", 86, budget.ErrTooLarge)
	equal(t, "spent", spent(t, b), int64(0))

	mustReserve(t, b, "", 85)
	for _, c := range []struct {
		n      int64
		reason error
		by     string
	}{{0, budget.ErrEstimate, ""}, {86, budget.ErrTooLarge, ""}, {1, budget.ErrExhausted, "budget"}} {
		e := mustRefuse(t, b, "", c.n, c.reason)
		equal(t, "refused by", call.RefusedBy(e), c.by)
		equal(t, "not sent", call.NotSent(e), true)
		if again, said := call.Retryable(e); again || !said || e.RetryableError() {
			t.Errorf("%v is retryable", e)
		}
		if c.by == "" {
			if _, ok := call.RetryAt(e); ok {
				t.Errorf("%v has a time to retry", e)
			}
			if err := e.Await(t.Context()); !errors.Is(err, c.reason) {
				t.Errorf("Await of %v = %v", e, err)
			}
		}
	}
	s := b.Stats()
	equal(t, "counted", []int64{s.BadEstimate, s.TooLarge, s.Exhausted}, []int64{6, 2, 1})
}

func TestReconcileAndCancel(t *testing.T) {
	t.Parallel()
	var rec recorder
	b := mustNew(t, budget.Config{Limit: 1000, Headroom: -1, OnEvent: rec.add})
	ended, cancel := context.WithCancel(t.Context())
	cancel() // settling does not depend on the call's context

	r := mustReserve(t, b, "", 100)
	if today := time.Now().UTC().Format("2006-01-02"); r.Estimate() != 100 || r.Window() > today {
		t.Errorf("a reservation of %d in %s", r.Estimate(), r.Window())
	}
	r2 := mustReserve(t, b, "", 100)
	for _, err := range []error{r.Reconcile(ended, 40), r.Reconcile(ended, 40), r.Cancel(ended), r2.Cancel(ended), r2.Cancel(ended), r2.Reconcile(ended, 7)} {
		if err != nil {
			t.Error(err)
		}
	}
	equal(t, "spent", spent(t, b), int64(40))
	equal(t, "second ends", b.Stats().EndedTwice, int64(4))

	// Dearer than estimated, over the cap: booked, told, and the next is refused.
	r = mustReserve(t, b, "", 900)
	if err := r.Reconcile(ended, 1200); err != nil {
		t.Error(err)
	}
	equal(t, "spent", spent(t, b), int64(1240))
	mustRefuse(t, b, "", 1, budget.ErrExhausted)
	equal(t, "events", rec.kinds(), []budget.EventKind{budget.EventOvershoot, budget.EventRefused})
	equal(t, "overshoot", rec.events[0].Amount, int64(240))
}

// Subtracting cached from reduced tokens gives negative usage: that must not
// give money back, and nothing may wrap.
func TestImpossibleActuals(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: budget.MaxAmount, Headroom: -1})
	total := int64(0)
	for _, actual := range []int64{-5, math.MinInt64, math.MaxInt64, budget.MaxAmount + 1} {
		r := mustReserve(t, b, "", 100)
		if err := r.Reconcile(t.Context(), actual); !errors.Is(err, budget.ErrEstimate) {
			t.Errorf("Reconcile(%d) = %v", actual, err)
		}
		total += 100
		equal(t, "spent", spent(t, b), total)
	}
	r := mustReserve(t, b, "", 100)
	if err := r.Reconcile(t.Context(), budget.MaxAmount); err != nil {
		t.Error(err)
	}
	equal(t, "spent at the end of the range", spent(t, b), int64(budget.MaxAmount))
	equal(t, "outstanding", b.Stats().Outstanding, int64(0))
}

func TestWindowOfTheReservationPays(t *testing.T) {
	t.Parallel()
	clk := mockAt(noon)
	b := mustNew(t, budget.Config{Limit: 1000, Clock: clk})
	late := mustReserve(t, b, "", 800)
	e := mustRefuse(t, b, "", 100, budget.ErrExhausted)
	equal(t, "until", e.Until, time.Date(2026, 5, 5, 0, 0, 0, 0, time.UTC))
	clk.Add(12 * time.Hour)
	mustReserve(t, b, "", 500)
	if err := late.Reconcile(t.Context(), 900); err != nil {
		t.Fatal(err)
	}
	equal(t, "today", spent(t, b), int64(500))
	clk.Set(noon) // a clock that is set back finds its counters again
	equal(t, "yesterday", spent(t, b), int64(900))
}

func TestReserveWithAnEndedContext(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Limit: 1000})
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err := b.Reserve(ctx, "", 1)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, gone) || !call.NotSent(err) || call.RefusedBy(err) != "" {
		t.Errorf("err = %v", err)
	}
	equal(t, "spent", spent(t, b), int64(0))
}

func TestAdjust(t *testing.T) {
	t.Parallel()
	var rec recorder
	b := mustNew(t, budget.Config{Limit: 1000, OnEvent: rec.add, Owners: []budget.Owner{{Name: "a"}, {Name: "b", Limit: 300}}})
	ctx := t.Context()
	if err := errors.Join(b.Adjust(ctx, "a", 700), b.Adjust(ctx, "b", 290), b.Adjust(ctx, "b", -10)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		owner  string
		delta  int64
		reason error
	}{{"", 1, budget.ErrUnknownOwner}, {"a", math.MinInt64, budget.ErrEstimate}} {
		if err := b.Adjust(ctx, c.owner, c.delta); !errors.Is(err, c.reason) {
			t.Errorf("Adjust(%q, %d) = %v", c.owner, c.delta, err)
		}
	}
	st, err := b.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "spent", []int64{st.Spent, st.Owners[0].Spent, st.Owners[1].Spent}, []int64{980, 700, 280})
	equal(t, "left", st.Left(), int64(0))
	equal(t, "events", rec.kinds(), []budget.EventKind{"adjusted", "adjusted", "adjusted", "refused", "refused"})
}

// Check, then call, then record lets all of them pass (BerriAI/litellm#34732).
func TestNoOverspendByManyCallers(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]budget.Store{
		"memory": budget.NewMemory(), "combined": &shaky{Store: budget.NewMemory()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Two budgets at the same time on one store (BerriAI/litellm#36926).
			bs := []*budget.Budget{
				mustNew(t, budget.Config{Limit: 1000, Headroom: -1, Store: store}),
				mustNew(t, budget.Config{Limit: 1000, Headroom: -1, Store: store}),
			}
			var granted atomic.Int64
			var wg sync.WaitGroup
			for i := range 200 {
				wg.Go(func() {
					if _, err := bs[i%2].Reserve(t.Context(), "", 100); err == nil {
						granted.Add(1)
					}
				})
			}
			wg.Wait()
			equal(t, "granted", granted.Load(), int64(10))
			equal(t, "spent", spent(t, bs[0]), int64(1000))
		})
	}
}

func TestStatsAndString(t *testing.T) {
	t.Parallel()
	b := mustNew(t, budget.Config{Name: "day", Limit: 1000})
	before := b.Stats()
	r := mustReserve(t, b, "", 100)
	mustReserve(t, b, "", 50)
	_ = r.Reconcile(t.Context(), 80)
	d := b.Stats().Sub(before)
	equal(t, "difference", d, budget.Stats{
		Name: "day", Reserved: 2, ReservedUnits: 150, Settled: 1, SettledUnits: 80, SettledEstimates: 100,
		Outstanding: 1, OutstandingUnits: 50,
	})
	// All and the JSON are the same fields.
	var fields map[string]any
	if err := json.Unmarshal([]byte(b.String()), &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "name")
	all := make(map[string]any)
	for k, v := range b.Stats().All() {
		all[k] = v
	}
	equal(t, "All against String", all, fields)
	for range b.Stats().All() {
		break
	}
}

func TestHooks(t *testing.T) {
	t.Parallel()
	var b *budget.Budget
	var seen []budget.EventKind
	b = mustNew(t, budget.Config{Limit: 1000, OnEvent: func(e budget.Event) {
		seen = append(seen, e.Kind)
		if e.Kind == budget.EventAdjusted {
			mustRefuse(t, b, "", 0, budget.ErrEstimate) // any method, also one that tells an event
			seen = append(seen, "after")
			panic("a hook's mistake")
		}
	}})
	if err := b.Adjust(t.Context(), "", 5); err != nil {
		t.Fatal(err)
	}
	equal(t, "events", seen, []budget.EventKind{"adjusted", "after", "refused"})
	equal(t, "panics", b.Stats().HookPanics, int64(1))
	equal(t, "spent", spent(t, b), int64(5))
}
