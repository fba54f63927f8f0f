package budget

import (
	"context"
	"sync"
	"time"
)

// Memory is a [Store] in this process: what it counts ends with it. Expiry is
// counted in real time.
type Memory struct {
	mu       sync.Mutex
	counters map[string]*counter
	sweepAt  int // drop the expired when there are this many counters
}

type counter struct {
	value   int64
	expire  time.Time
	dropped bool // no longer in the map
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
		m.apply(c)
	}
	return nil
}

// apply is [Change.Decide] on m's counters; m.mu is held.
func (m *Memory) apply(c *Change) {
	for i := range c.Ops {
		op := &c.Ops[i]
		op.Value = m.counters[op.Key].get(op.Expire)
	}
	if c.OK = c.Over() < 0; !c.OK {
		return
	}
	for i := range c.Ops {
		op := &c.Ops[i]
		if op.Value < 0 {
			continue
		}
		cell := m.counters[op.Key]
		if cell == nil {
			cell = m.create(op.Key, op.Expire)
		}
		op.Value = step(op.Value, op.Delta)
		cell.value = op.Value
	}
}

// get returns a counter's value, 0 or -1 when it is missing.
func (c *counter) get(expire time.Duration) int64 {
	switch {
	case c != nil:
		return c.value
	case expire > 0:
		return 0
	}
	return -1
}

func (m *Memory) create(key string, expire time.Duration) *counter {
	now := realClock{}.Now()
	if len(m.counters) >= m.sweepAt {
		for k, c := range m.counters {
			if !now.Before(c.expire) {
				c.dropped = true
				delete(m.counters, k)
			}
		}
		m.sweepAt = max(minSweep, 2*len(m.counters))
	}
	c := &counter{expire: now.Add(expire)}
	m.counters[key] = c
	return c
}

// move is Apply for a budget's move, without a Change; m.mu is held. The span
// remembers its counters, so that nothing is looked up.
func (m *Memory) move(mv *move) (res moved) {
	s := mv.span
	pool := m.cell(s, 0)
	res.pool = pool.get(mv.expire)
	if refuses(res.pool, mv.delta, mv.poolMax) {
		return moved{pool: res.pool, value: res.pool}
	}
	if len(s.keys) > 1 {
		own := m.cell(s, 1+mv.owner)
		v := own.get(mv.expire)
		if refuses(v, mv.delta, mv.ownerMax) {
			return moved{pool: res.pool, value: v, over: 1}
		}
		if own == nil && v == 0 {
			own = m.create(s.keys[1+mv.owner], mv.expire)
			s.cells[1+mv.owner] = own
		}
		if own != nil {
			own.value = step(v, mv.delta)
		}
	}
	if pool == nil && res.pool == 0 {
		pool = m.create(s.keys[0], mv.expire)
		s.cells[0] = pool
	}
	if pool != nil {
		pool.value = step(res.pool, mv.delta)
		res.pool = pool.value
	}
	res.ok = true
	return res
}

// cell returns the counter of s's key i, nil when there is none; m.mu is held
// and guards s.cells.
func (m *Memory) cell(s *span, i int) *counter {
	c := s.cells[i]
	if c == nil || c.dropped {
		c = m.counters[s.keys[i]]
		s.cells[i] = c
	}
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
