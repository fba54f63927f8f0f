package budget

import (
	"context"
	"sync"
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

// step returns what the counter becomes, and false when Max refuses.
func (op *Op) step(value int64) (int64, bool) {
	if op.Delta > 0 && op.Max > 0 && (op.Delta > op.Max || value > op.Max-op.Delta) {
		return value, false
	}
	if op.Delta > MaxAmount-value {
		return MaxAmount, true
	}
	return max(value+op.Delta, 0), true
}

// Over returns the index of the op whose Max refused the change, -1 when none
// did.
func (c *Change) Over() int { return over(c.Ops) }

func over(ops []Op) int {
	for i := range ops {
		if op := &ops[i]; op.Value >= 0 {
			if _, ok := op.step(op.Value); !ok {
				return i
			}
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
			op.Value, _ = op.step(op.Value)
			counters[op.Key] = op.Value
		}
	}
}

// Memory is a [Store] in this process: what it counts ends with it. Expiry is
// counted in real time.
type Memory struct {
	mu       sync.Mutex
	counters map[string]*counter
	sweepAt  int // drop the expired when there are this many counters
}

type counter struct {
	value  int64
	expire time.Time
}

// minSweep is how many counters are kept before anyone looks for expired ones.
const minSweep = 64

// NewMemory returns an empty store in memory.
func NewMemory() *Memory {
	return &Memory{counters: make(map[string]*counter), sweepAt: minSweep}
}

// Apply implements [Store]. It never fails and does not look at ctx.
func (m *Memory) Apply(_ context.Context, changes []*Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		c.OK = m.apply(c.Ops)
	}
	return nil
}

// applyOne is Apply for one change that needs no room on the heap.
func (m *Memory) applyOne(ops []Op) bool {
	m.mu.Lock()
	ok := m.apply(ops)
	m.mu.Unlock()
	return ok
}

// apply is [Change.Decide] on m's counters; m.mu is held.
func (m *Memory) apply(ops []Op) bool {
	var few [4]*counter
	found := few[:0]
	for i := range ops {
		op := &ops[i]
		c := m.counters[op.Key]
		switch {
		case c != nil:
			op.Value = c.value
		case op.Expire > 0:
			op.Value = 0
		default:
			op.Value = -1
		}
		found = append(found, c)
	}
	if over(ops) >= 0 {
		return false
	}
	for i := range ops {
		op := &ops[i]
		if op.Value < 0 {
			continue
		}
		if found[i] == nil {
			found[i] = m.create(op)
		}
		op.Value, _ = op.step(op.Value)
		found[i].value = op.Value
	}
	return true
}

func (m *Memory) create(op *Op) *counter {
	now := realClock{}.Now()
	if len(m.counters) >= m.sweepAt {
		for k, c := range m.counters {
			if !now.Before(c.expire) {
				delete(m.counters, k)
			}
		}
		m.sweepAt = max(minSweep, 2*len(m.counters))
	}
	c := &counter{expire: now.Add(op.Expire)}
	m.counters[op.Key] = c
	return c
}

// Load implements [Store]. It never fails and does not look at ctx.
func (m *Memory) Load(_ context.Context, keys []string) ([]int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := make([]int64, len(keys))
	for i, k := range keys {
		if c := m.counters[k]; c != nil {
			values[i] = c.value
		}
	}
	return values, nil
}
