package budget_test

import (
	"context"
	"testing"

	"github.com/nightfuse/nightfuse/budget"
)

// A reservation is the only thing that a call in memory makes, and a free turn
// makes nothing. Not parallel: allocations are counted for the whole process.
func TestAllocations(t *testing.T) {
	ctx := context.Background()
	b := mustNew(t, budget.Config{Limit: budget.MaxAmount, Owners: []budget.Owner{{Name: "a"}, {Name: "b", Limit: 1 << 40}}})
	if n := testing.AllocsPerRun(1000, func() {
		r, err := b.Reserve(ctx, "b", 100)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Reconcile(ctx, 40)
	}); n > 1 {
		t.Errorf("reserve and reconcile: %v allocations, want 1", n)
	}
	p := mustPacer(t, budget.PacerConfig{Requests: budget.MaxAmount, Tokens: budget.MaxAmount})
	if n := testing.AllocsPerRun(1000, func() {
		s, err := p.Wait(ctx, 10)
		if err != nil {
			t.Fatal(err)
		}
		p.Observe(s, 200, nil, 0)
	}); n > 0 {
		t.Errorf("a free turn: %v allocations, want none", n)
	}
}
