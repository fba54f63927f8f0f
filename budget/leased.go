package budget

import (
	"context"
	"fmt"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/nils"
)

// A Lease is a [Store] that takes amounts from another in chunks and hands
// them out in this process, for a store that is far away. Safe for concurrent
// use. Close it, so that the rest goes back.
type Lease struct {
	store Store
	chunk int64

	turn   chan struct{} // held by whoever uses what follows; a channel, so that waiting ends with a context
	leases map[leaseKey]int64
	known  map[string]int64 // the counters as last seen
}

// leaseKey: what was taken under one limit is handed out under it only, so
// that a soft cap stays one.
type leaseKey struct {
	key string
	max int64
}

// leaseShare: no more than this part of what remains is taken at once, so that
// the last of a window is not parked with processes that do not need it.
const leaseShare = 64

// Leased returns a store that leases up to chunk units at once from s. Small
// remainders are taken exactly. Nothing is ever granted above a hard cap, but
// leased units may be used after the pool has passed its soft cap, and count
// as spent for everybody else meanwhile. A crash leaves them spent until the
// window ends. chunk must be positive.
//
// Between [Budget] and a store on the same host it gains nothing: the budget
// combines callers by itself.
func Leased(s Store, chunk int64) (*Lease, error) {
	if nils.In(s) || chunk <= 0 {
		return nil, fmt.Errorf("budget: Leased needs a Store and a positive chunk, not %v and %d", s, chunk)
	}
	return &Lease{
		store: s, chunk: chunk, turn: make(chan struct{}, 1),
		leases: make(map[leaseKey]int64), known: make(map[string]int64),
	}, nil
}

func (l *Lease) enter(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return call.Stopped(ctx, "budget: waiting for a lease")
	}
}

func (l *Lease) exit() { <-l.turn }

// Apply implements [Store]. Changes that a lease covers make no trip.
func (l *Lease) Apply(ctx context.Context, changes []*Change) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.exit()
	for _, c := range changes {
		if err := l.change(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// Load implements [Store]: leased units count as spent.
func (l *Lease) Load(ctx context.Context, keys []string) ([]int64, error) {
	return l.store.Load(ctx, keys)
}

// Close hands back what is leased and not used. A Lease may be used again
// afterwards.
func (l *Lease) Close(ctx context.Context) error {
	if err := l.enter(ctx); err != nil {
		return err
	}
	defer l.exit()
	return l.giveBack(ctx, func(string) bool { return true })
}

func (l *Lease) change(ctx context.Context, c *Change) error {
	if len(c.Ops) == 0 {
		c.OK = true
		return nil
	}
	first := &c.Ops[0]
	if first.Max == 0 && first.Expire > 0 {
		return l.pass(ctx, c) // an operator's correction is for the store
	}
	if l.local(c) {
		return nil
	}
	if first.Expire <= 0 {
		return l.pass(ctx, c) // a settlement that no lease covers
	}
	if err := l.dropOld(ctx, c); err != nil {
		return err
	}
	// With a reserve for the calls that follow, then exactly, then with what
	// is parked under other limits handed back.
	for _, share := range []int64{leaseShare, 0} {
		ok, err := l.refill(ctx, c, share)
		if err != nil {
			return err
		}
		if ok && l.local(c) {
			return nil
		}
	}
	keys := make(map[string]bool)
	for _, op := range c.Ops {
		keys[op.Key] = true
	}
	if err := l.giveBack(ctx, func(k string) bool { return keys[k] }); err != nil {
		return err
	}
	return l.pass(ctx, c)
}

// local serves c from leases, and reports false when they do not cover it.
func (l *Lease) local(c *Change) bool {
	for i := range c.Ops {
		op := &c.Ops[i]
		if _, seen := l.known[op.Key]; !seen {
			return false
		}
		if op.Delta > 0 && l.leases[l.from(op)] < op.Delta {
			return false
		}
	}
	for i := range c.Ops {
		op := &c.Ops[i]
		l.leases[l.from(op)] -= op.Delta
		op.Value = l.known[op.Key]
	}
	c.OK = true
	return true
}

// from returns the lease that op is served from. What comes on top of an
// estimate names no limit: the fullest of the key's leases pays.
func (l *Lease) from(op *Op) leaseKey {
	k := leaseKey{op.Key, op.Max}
	if op.Max != 0 || op.Expire > 0 {
		return k
	}
	for have, left := range l.leases {
		if have.key == op.Key && (left > l.leases[k] || left == l.leases[k] && have.max < k.max) {
			k = have
		}
	}
	return k
}

// refill takes from the store what c lacks, and a share of the remainder more.
func (l *Lease) refill(ctx context.Context, c *Change, share int64) (bool, error) {
	var need Change
	for i := range c.Ops {
		op := &c.Ops[i]
		lacks := op.Delta - l.leases[l.from(op)]
		known, seen := l.known[op.Key]
		if seen && lacks <= 0 {
			continue
		}
		lacks = max(lacks, 0)
		if share > 0 {
			extra := l.chunk
			if op.Max > 0 {
				extra = min(extra, max(op.Max-known-lacks, 0)/share)
			}
			lacks += extra
		}
		need.Ops = append(need.Ops, Op{Key: op.Key, Delta: lacks, Max: op.Max, Expire: op.Expire})
	}
	if err := l.store.Apply(ctx, []*Change{&need}); err != nil {
		return false, err
	}
	for i := range need.Ops {
		op := &need.Ops[i]
		l.known[op.Key] = max(op.Value, 0)
		if need.OK {
			l.leases[leaseKey{op.Key, op.Max}] += op.Delta
		}
	}
	return need.OK, nil
}

func (l *Lease) pass(ctx context.Context, c *Change) error {
	if err := l.store.Apply(ctx, []*Change{c}); err != nil {
		return err
	}
	for i := range c.Ops {
		if op := &c.Ops[i]; op.Value >= 0 {
			l.known[op.Key] = op.Value
		}
	}
	return nil
}

// dropOld hands back what is leased for the same budget's other windows when
// the first change of a new one comes.
func (l *Lease) dropOld(ctx context.Context, c *Change) error {
	if _, seen := l.known[c.Ops[0].Key]; seen {
		return nil
	}
	name, window := cutKey(c.Ops[0].Key)
	return l.giveBack(ctx, func(k string) bool {
		n, w := cutKey(k)
		return n == name && w != window
	})
}

// giveBack returns the leases of the keys that which says.
func (l *Lease) giveBack(ctx context.Context, which func(key string) bool) error {
	var cs []*Change
	for k, left := range l.leases {
		if !which(k.key) {
			continue
		}
		// Taken out first: if the store fails, nobody knows whether it was
		// given back, and a refund is not repeated.
		delete(l.leases, k)
		if left != 0 {
			cs = append(cs, &Change{Ops: []Op{{Key: k.key, Delta: -left, Max: k.max}}})
		}
	}
	for k := range l.known {
		if which(k) {
			delete(l.known, k)
		}
	}
	for len(cs) > 0 {
		n := min(len(cs), maxBatch)
		if err := l.store.Apply(ctx, cs[:n]); err != nil {
			return err
		}
		cs = cs[n:]
	}
	return nil
}
