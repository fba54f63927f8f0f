package budget_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

// Counters end: a program that runs for years does not keep every day. What
// settles after that meets no counter, and makes none.
func TestMemoryDropsWhatHasExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := budget.NewMemory()
		b := mustNew(t, budget.Config{Limit: 1000, Window: budget.Hourly(time.UTC), Store: m, Owners: []budget.Owner{{Name: "a"}}})
		late := mustReserve(t, b, "a", 100)
		soon := mustReserve(t, b, "a", 100)
		time.Sleep(2 * time.Hour)
		if err := soon.Reconcile(t.Context(), 10); err != nil {
			t.Error(err)
		}
		time.Sleep(72 * time.Hour)
		for i := range 200 { // others' counters make somebody look
			c := &budget.Change{Ops: []budget.Op{{Key: fmt.Sprint(i), Delta: 1, Expire: time.Hour}}}
			if err := m.Apply(t.Context(), []*budget.Change{c}); err != nil {
				t.Fatal(err)
			}
		}
		if err := late.Reconcile(t.Context(), 10); err != nil {
			t.Error(err)
		}
		equal(t, "window gone", b.Stats().WindowGone, int64(1))
		mustReserve(t, b, "a", 850)
	})
}
