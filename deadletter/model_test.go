package deadletter_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// What a claim hands out is what a look at every letter would choose, after any
// mixture of changes.
func TestClaimsAgainstALookAtEveryLetter(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		clk := clock.NewMock()
		var store deadletter.Store = memoryAt(t, clk)
		if seed%2 == 1 {
			j, err := deadletter.OpenJournalFS(durabletest.NewDisk(seed), deadletter.StoreConfig{Clock: clk, Segment: 32 << 10}, diskDir)
			if err != nil {
				t.Fatal(err)
			}
			store = j
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		var held []deadletter.Claim
		for step := range 600 {
			switch rng.IntN(6) {
			case 0, 1, 2:
				r := letter(fmt.Sprint(rng.IntN(150)), fmt.Sprint(rng.IntN(2)))
				r.EstTokens, r.Signature = int64(rng.IntN(5)), fmt.Sprint(rng.IntN(3))
				if err := store.Put(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			case 3:
				clk.Add(time.Duration(rng.IntN(40)) * time.Second)
			case 4:
				if len(held) > 0 {
					i := rng.IntN(len(held))
					verb := deadletter.Verb(1 + rng.IntN(5))
					// A lost claim is part of the mixture.
					_ = store.Resolve(t.Context(), held[i].Token, deadletter.Outcome{Verb: verb, Failure: deadletter.Failure{Status: 500}})
					held = slices.Delete(held, i, i+1)
				}
			case 5:
				req := deadletter.ClaimReq{N: 1 + rng.IntN(4), Order: deadletter.Order(rng.IntN(2)), Lease: time.Minute}
				if rng.IntN(2) == 0 {
					req.Filter.Signature = fmt.Sprint(rng.IntN(3))
				}
				want := chosen(t, store, req)
				got, err := store.Claim(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				var ids []string
				for _, c := range got {
					ids = append(ids, c.Record.ID)
				}
				if diff := gocmp.Diff(ids, want); diff != "" {
					t.Fatalf("seed %d, step %d, %+v: %s", seed, step, req, diff)
				}
				held = append(held, got...)
			}
		}
	}
}

// chosen returns the ids that a claim should hand out.
func chosen(t *testing.T, store deadletter.Store, req deadletter.ClaimReq) []string {
	t.Helper()
	f := req.Filter
	f.States = []deadletter.State{deadletter.Dead}
	var list []deadletter.Record
	for r, err := range store.List(t.Context(), f) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	if req.Order == deadletter.Cheapest {
		slices.SortStableFunc(list, func(a, b deadletter.Record) int {
			return cmp.Or(cmp.Compare(a.EstTokens, b.EstTokens), cmp.Compare(a.PayloadSize, b.PayloadSize))
		})
	}
	var ids []string
	for _, r := range list[:min(req.N, len(list))] {
		ids = append(ids, r.ID)
	}
	return ids
}
