// Package budgettest checks that a budget.Store keeps the contract that a
// budget relies on. Call [Run] from a test of the store.
//
// It does not check what a store does when it fails or its process is killed:
// that is for the store's own tests.
package budgettest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/budget"
)

// Run runs every case as a subtest, each on a store that open returns, which
// must be empty and is not closed by Run.
func Run(t *testing.T, open func(t *testing.T) budget.Store) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Logf("this matters because %s", c.why)
				}
			}()
			c.run(&store{t: t, Store: open(t)})
		})
	}
}

type store struct {
	t *testing.T
	budget.Store
}

func add(key string, delta, limit int64) budget.Op {
	return budget.Op{Key: key, Delta: delta, Max: limit, Expire: time.Hour}
}

func settle(key string, delta int64) budget.Op { return budget.Op{Key: key, Delta: delta} }

// apply applies changes in one call and compares OK and the values.
func (s *store) apply(want string, changes ...[]budget.Op) {
	s.t.Helper()
	cs := make([]*budget.Change, len(changes))
	for i, ops := range changes {
		cs[i] = &budget.Change{Ops: ops}
	}
	if err := s.Apply(s.t.Context(), cs); err != nil {
		s.t.Fatal(err)
	}
	var got []string
	for _, c := range cs {
		text := "no"
		if c.OK {
			text = "ok"
		}
		for _, op := range c.Ops {
			text += fmt.Sprint(" ", op.Value)
		}
		got = append(got, text)
	}
	if d := cmp.Diff(strings.Join(got, ", "), want); d != "" {
		s.t.Errorf("Apply (-got +want):\n%s", d)
	}
}

func (s *store) holds(keys string, want ...int64) {
	s.t.Helper()
	got, err := s.Load(s.t.Context(), strings.Fields(keys))
	if err != nil {
		s.t.Fatal(err)
	}
	if d := cmp.Diff(got, want); d != "" {
		s.t.Errorf("Load %s (-got +want):\n%s", keys, d)
	}
}

type ops = []budget.Op

var cases = []struct {
	name, why string
	run       func(s *store)
}{
	{"missing counters are zero", "a budget's first reservation of a day meets no counter", func(s *store) {
		s.holds("a b", 0, 0)
		s.apply("ok 5", ops{add("a", 5, 10)})
		s.holds("b a", 0, 5)
	}},
	{"up to Max, not above", "reaching the cap exactly is allowed, and the first change of a day is checked as well", func(s *store) {
		s.apply("no 0", ops{add("a", 11, 10)})
		s.holds("a", 0)
		s.apply("ok 10", ops{add("a", 10, 10)})
		s.apply("no 10", ops{add("a", 1, 10)})
		s.apply("ok 11", ops{add("a", 1, 11)})
		s.apply("no 11", ops{add("a", 1, 5)})
		s.holds("a", 11)
	}},
	{"all or nothing", "the pool must not pay for what the owner's ceiling refuses", func(s *store) {
		s.apply("ok 4 4", ops{add("pool", 4, 10), add("owner", 4, 5)})
		s.apply("no 4 4", ops{add("pool", 2, 10), add("owner", 2, 5)})
		s.apply("no 4 0", ops{add("pool", 7, 10), add("other", 7, 9)})
		s.holds("pool owner other", 4, 4, 0)
	}},
	{"a refused change creates nothing", "an owner's counter would otherwise appear without an end", func(s *store) {
		s.apply("no 0 0", ops{add("pool", 7, 5), add("owner", 7, 0)})
		s.apply("ok -1 -1", ops{settle("pool", 1), settle("owner", 1)})
	}},
	{"in order, each seeing those before", "a budget combines its callers into one call", func(s *store) {
		s.apply("ok 6, no 6, ok 10, no 10, ok 4, ok 9",
			ops{add("a", 6, 10)}, ops{add("a", 5, 10)}, ops{add("a", 4, 10)}, ops{add("a", 1, 10)},
			ops{settle("a", -6)}, ops{add("a", 5, 10)})
		s.holds("a", 9)
	}},
	{"no Max, no limit", "an owner without a ceiling is only counted", func(s *store) {
		s.apply("ok 1000000", ops{add("a", 1_000_000, 0)})
		s.apply("ok 1000001", ops{add("a", 1, 0)})
	}},
	{"a negative Delta is never refused", "a refund names the limit it was taken under, also above it", func(s *store) {
		s.apply("ok 100", ops{add("a", 100, 0)})
		s.apply("ok 90", ops{{Key: "a", Delta: -10, Max: 50}})
		s.apply("ok 90", ops{{Key: "a", Delta: 0, Max: 50}})
	}},
	{"counters stop at 0", "a refund after an operator's correction must not become credit", func(s *store) {
		s.apply("ok 5", ops{add("a", 5, 0)})
		s.apply("ok 0", ops{settle("a", -7)})
		s.apply("ok 3", ops{add("a", 3, 0)})
		s.apply("ok 0", ops{add("b", -3, 0)})
	}},
	{"counters stop at MaxAmount", "a counter must not wrap, and every store must be exact", func(s *store) {
		s.apply("ok 9007199254740992", ops{add("a", budget.MaxAmount, 0)})
		s.apply("ok 9007199254740992", ops{settle("a", budget.MaxAmount)})
		s.apply("no 9007199254740992", ops{add("a", budget.MaxAmount, budget.MaxAmount)})
		s.apply("ok 9007199254740991", ops{settle("a", -1)})
		s.apply("ok 9007199254740992", ops{add("a", 1, budget.MaxAmount)})
	}},
	{"Expire 0 creates nothing", "a settlement after its window was dropped must not make a counter that never ends", func(s *store) {
		s.apply("ok -1", ops{settle("a", 5)})
		s.apply("ok -1", ops{settle("a", -5)})
		s.holds("a", 0)
		s.apply("ok 5 -1", ops{add("pool", 5, 10), settle("gone", 5)})
	}},
	{"keys are exact", "owners whose names differ in case, in a last space or beyond a prefix are two", func(s *store) {
		long := strings.Repeat("k", 254)
		keys := []string{"a", "A", "a ", " a", "a|", "a%20", "a'b\"c\\d;--", long + "1", long + "2"}
		for i, k := range keys {
			s.apply(fmt.Sprint("ok ", i+1), ops{add(k, int64(i+1), 0)})
		}
		got, err := s.Load(s.t.Context(), keys)
		if err != nil {
			s.t.Fatal(err)
		}
		if d := cmp.Diff(got, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}); d != "" {
			s.t.Errorf("Load (-got +want):\n%s", d)
		}
	}},
	{"nothing to do", "an empty call is legal", func(s *store) {
		s.apply("")
		if got, err := s.Load(s.t.Context(), nil); err != nil || len(got) != 0 {
			s.t.Errorf("Load of no keys = %v, %v", got, err)
		}
	}},
	{"a full batch", "a budget sends up to 256 changes at once", func(s *store) {
		cs := make([]*budget.Change, 256)
		for i := range cs {
			cs[i] = &budget.Change{Ops: ops{add("pool", 1, 200), add(fmt.Sprint("owner", i%8), 1, 0)}}
		}
		if err := s.Apply(s.t.Context(), cs); err != nil {
			s.t.Fatal(err)
		}
		for i, c := range cs {
			if c.OK != (i < 200) {
				s.t.Fatalf("change %d: OK = %v", i, c.OK)
			}
		}
		s.holds("pool owner0 owner7", 200, 25, 25)
	}},
	{"never above Max", "check-then-charge lets all of many callers pass", func(s *store) {
		const callers, each, limit = 8, 40, 1000
		var granted atomic.Int64
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				owner := fmt.Sprint("owner", i%2)
				for n := range each {
					delta := int64(1 + n%9)
					c := &budget.Change{Ops: ops{add("pool", delta, limit), add(owner, delta, 600)}}
					if i%2 == 1 { // the other order of keys, which must not deadlock
						c.Ops[0], c.Ops[1] = c.Ops[1], c.Ops[0]
					}
					if err := s.Apply(s.t.Context(), []*budget.Change{c}); err != nil {
						s.t.Error(err)
						return
					}
					if !c.OK {
						continue
					}
					granted.Add(delta)
					if n%4 == 0 {
						back := &budget.Change{Ops: ops{settle("pool", -delta), settle(owner, -delta)}}
						if err := s.Apply(s.t.Context(), []*budget.Change{back}); err != nil {
							s.t.Error(err)
							return
						}
						granted.Add(-delta)
					}
				}
			})
		}
		wg.Wait()
		got, err := s.Load(s.t.Context(), []string{"pool", "owner0", "owner1"})
		if err != nil {
			s.t.Fatal(err)
		}
		if got[0] > limit || got[0] != granted.Load() || got[0] != got[1]+got[2] {
			s.t.Errorf("pool %d, owners %d and %d, granted %d: want equal sums, at most %d", got[0], got[1], got[2], granted.Load(), limit)
		}
	}},
	{"an ended context", "a caller that has gone must not hang, nor break the store", func(s *store) {
		ctx, cancel := context.WithCancel(s.t.Context())
		cancel()
		// Whether it is applied is the store's choice.
		_ = s.Apply(ctx, []*budget.Change{{Ops: ops{add("a", 1, 0)}}})
		s.apply("ok 1", ops{add("b", 1, 0)})
	}},
}
