package budget_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

// ledger is what a budget should do, in the plainest form.
type ledger struct {
	soft, hard int64
	ceilings   []int64
	headroom   []bool
	days       map[string][]int64 // the pool, then each owner
}

func (l *ledger) day(key string) []int64 {
	if l.days[key] == nil {
		l.days[key] = make([]int64, 1+len(l.ceilings))
	}
	return l.days[key]
}

func (l *ledger) reserve(key string, owner int, n int64) error {
	limit := l.soft
	if l.headroom[owner] {
		limit = l.hard
	}
	d, c := l.day(key), l.ceilings[owner]
	switch {
	case n <= 0:
		return budget.ErrEstimate
	case n > limit || c > 0 && n > c:
		return budget.ErrTooLarge
	case d[0]+n > limit || c > 0 && d[1+owner]+n > c:
		return budget.ErrExhausted
	}
	l.move(key, owner, n)
	return nil
}

func (l *ledger) move(key string, owner int, n int64) {
	d := l.day(key)
	d[0] = max(d[0]+n, 0)
	d[1+owner] = max(d[1+owner]+n, 0)
}

// Random reservations, ends, corrections and days, against the plain ledger.
func TestBudgetAgainstAModel(t *testing.T) {
	t.Parallel()
	type entry struct {
		r     *budget.Reservation
		owner int
		n     int64
		day   string
	}
	for seed := range uint64(18) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		clk := mockAt(noon)
		owners := []budget.Owner{{Name: "a"}, {Name: "b", Limit: 300}, {Name: "c", UseHeadroom: true}}
		l := &ledger{soft: 850, hard: 1000, ceilings: []int64{0, 300, 0}, headroom: []bool{false, false, true}, days: make(map[string][]int64)}
		var store budget.Store = budget.NewMemory()
		if seed%3 == 1 {
			store = &shaky{Store: store}
		} else if seed%3 == 2 {
			store = openFile(t, filepath.Join(t.TempDir(), "spend"))
		}
		b := mustNew(t, budget.Config{Limit: 1000, Owners: owners, Clock: clk, Store: store})
		var open []entry
		var trace []string
		step := func(format string, args ...any) { trace = append(trace, fmt.Sprintf(format, args...)) }
		steps := 200
		if seed%3 == 2 {
			steps = 60 // each of them is synced
		}
		for range steps {
			day := clk.Now().UTC().Format("2006-01-02")
			switch k := rnd.IntN(20); {
			case k < 10:
				owner, n := rnd.IntN(3), rnd.Int64N(120)-5
				if k == 0 {
					n = 250 + rnd.Int64N(900)
				}
				step("reserve %d for %d", n, owner)
				r, err := b.Reserve(t.Context(), owners[owner].Name, n)
				if want := l.reserve(day, owner, n); !errors.Is(err, want) || (err == nil) != (want == nil) {
					t.Fatalf("seed %d: %s: %v, want %v", seed, strings.Join(trace, "; "), err, want)
				}
				if err == nil {
					open = append(open, entry{r, owner, n, day})
				}
			case k < 17 && len(open) > 0:
				i := rnd.IntN(len(open))
				e := open[i]
				open = append(open[:i], open[i+1:]...)
				actual := rnd.Int64N(2*e.n + 1)
				if k == 16 {
					actual = 0
				}
				step("end %d of %d with %d", e.n, e.owner, actual)
				err := e.r.Reconcile(t.Context(), actual)
				if err != nil {
					t.Fatal(err)
				}
				l.move(e.day, e.owner, actual-e.n)
			case k == 17:
				owner, n := rnd.IntN(3), rnd.Int64N(200)-120
				step("adjust %d by %d", owner, n)
				if err := b.Adjust(t.Context(), owners[owner].Name, n); err != nil {
					t.Fatal(err)
				}
				l.move(day, owner, n)
			case k == 18:
				step("wait")
				clk.Add(time.Duration(rnd.IntN(10)) * time.Hour)
			case k == 19 && rnd.IntN(4) == 0:
				step("set back")
				clk.Set(clk.Now().Add(-30 * time.Hour))
			}
			day = clk.Now().UTC().Format("2006-01-02")
			st, err := b.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := []int64{st.Spent, st.Owners[0].Spent, st.Owners[1].Spent, st.Owners[2].Spent}
			if fmt.Sprint(got) != fmt.Sprint(l.day(day)) || st.Outstanding != len(open) {
				t.Fatalf("seed %d: %s: spent %v with %d open, want %v with %d", seed, strings.Join(trace, "; "), got, st.Outstanding, l.day(day), len(open))
			}
		}
	}
}
