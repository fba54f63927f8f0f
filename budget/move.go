package budget

import (
	"context"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
)

// move is one amount moved between a window's counters and a reservation.
type move struct {
	span              *span
	owner             int
	delta             int64
	poolMax, ownerMax int64
	expire            time.Duration
}

// take returns the move of delta for an owner, under its hard or soft cap.
func (b *Budget) take(s *span, owner int, hard bool, delta int64) move {
	m := move{span: s, owner: owner, delta: delta, poolMax: b.soft}
	if hard {
		m.poolMax = b.limit
	}
	if len(b.owners) > 0 {
		m.ownerMax = b.owners[owner].Limit
	}
	return m
}

// moved is what a move came to.
type moved struct {
	ok    bool
	over  int   // which counter refused: 0 the pool's, 1 the owner's
	value int64 // of that counter
	pool  int64 // the pool's counter, -1 when it is gone
}

func (m *move) ops(ops []Op) []Op {
	ops = append(ops, Op{Key: m.span.keys[0], Delta: m.delta, Max: m.poolMax, Expire: m.expire})
	if len(m.span.keys) > 1 {
		ops = append(ops, Op{Key: m.span.keys[1+m.owner], Delta: m.delta, Max: m.ownerMax, Expire: m.expire})
	}
	return ops
}

func result(ops []Op, ok bool) moved {
	m := moved{ok: ok, pool: ops[0].Value}
	if !ok {
		m.over = max(over(ops), 0)
		m.value = ops[m.over].Value
	}
	return m
}

// move asks the store.
func (b *Budget) move(ctx context.Context, m move) (moved, error) {
	if b.mem != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.mem.move(&m), nil
	}
	p := &pending{undo: m.expire > 0 && m.poolMax > 0}
	p.change.Ops = m.ops(p.buf[:0])
	if err := b.combine.do(ctx, p); err != nil {
		if _, ok := err.(*call.StoppedError); !ok {
			b.storeFailed(err)
		}
		return moved{}, err
	}
	b.storeWorks()
	return result(p.change.Ops, p.change.OK), nil
}
