package budget

import (
	"context"
	"time"
)

// MaxAmount is the largest limit, amount and counter: 1<<53, up to which every
// store (Redis counts in Lua's floating point) is exact.
const MaxAmount = 1 << 53

// An Op changes one counter.
type Op struct {
	Key    string
	Delta  int64
	Max    int64         // a positive Delta is refused if the counter would exceed it; 0 = no limit
	Expire time.Duration // counted by the store from when the op creates the counter; 0 = never create it

	// Value is set by the store: the counter after the change, or as it is
	// when the change was refused; -1 when it is missing and Expire is 0.
	Value int64
}

// A Change is a few ops on different keys, applied all or none.
type Change struct {
	Ops []Op
	OK  bool // set by the store: applied, rather than refused by an op's Max
}

// A Store keeps counters. It must be safe for concurrent use.
//
// Apply applies the changes in order, each all or nothing and seeing those
// before it, and sets OK and every Value. The keys within a change differ.
// A counter stays within 0 and [MaxAmount]: what would leave the range stops
// at its end. Only a positive Delta can be refused; a negative one may carry
// the Max under which it was taken, which [Leased] uses. An error means that
// it is not known what was applied. Load returns the counters, 0 for missing
// ones. Both return soon after ctx has ended.
//
// Keys are up to 255 bytes of printable ASCII, exact and case-sensitive.
// Package budgettest checks a Store.
type Store interface {
	Apply(ctx context.Context, changes []*Change) error
	Load(ctx context.Context, keys []string) ([]int64, error)
}

// refuses reports whether limit stands against adding delta to value.
func refuses(value, delta, limit int64) bool {
	return delta > 0 && limit > 0 && (delta > limit || value > limit-delta)
}

// step returns what value becomes.
func step(value, delta int64) int64 {
	if delta > MaxAmount-value {
		return MaxAmount
	}
	return max(value+delta, 0)
}

// Over returns the index of the op whose Max refused the change, -1 when none
// did.
func (c *Change) Over() int { return over(c.Ops) }

func over(ops []Op) int {
	for i := range ops {
		if op := &ops[i]; op.Value >= 0 && refuses(op.Value, op.Delta, op.Max) {
			return i
		}
	}
	return -1
}

// Decide is the rule of [Store.Apply] for one change, for stores that load
// their counters, decide and write them back. It sets c.OK and every Value,
// and changes counters, where a missing key is a missing counter.
func (c *Change) Decide(counters map[string]int64) {
	for i := range c.Ops {
		op := &c.Ops[i]
		v, ok := counters[op.Key]
		if !ok && op.Expire <= 0 {
			v = -1
		}
		op.Value = v
	}
	if c.OK = over(c.Ops) < 0; !c.OK {
		return
	}
	for i := range c.Ops {
		if op := &c.Ops[i]; op.Value >= 0 {
			op.Value = step(op.Value, op.Delta)
			counters[op.Key] = op.Value
		}
	}
}
