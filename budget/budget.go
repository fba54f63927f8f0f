package budget

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/hook"
)

// A Budget reserves spend before it happens. It is safe for concurrent use.
// Most callers want [NewTransport] or [Budget.Do]; the others [Budget.Reserve].
type Budget struct {
	name        string
	limit, soft int64
	window      Window
	owners      []Owner
	estimate    func(*http.Request, []byte) int64
	charge      func(Call) int64
	policy      StoreErrorPolicy
	store       Store
	timeout     time.Duration
	clock       Clock
	logger      *slog.Logger
	events      hook.Queue[Event]

	mem     *Memory   // store, if it is one: no trip, no queue
	combine *combiner // else
	current atomic.Pointer[span]
	settles atomic.Uint64 // settlements so far
	owing   atomic.Bool   // owed is not empty

	mu       *sync.Mutex // mem's own, so that a reservation takes one lock
	open     []list      // per owner, at least one
	wake     chan struct{}
	stats    Stats
	degraded bool
	owed     map[debt]int64 // granted while the store failed, not booked yet
	owedSum  int64
}

// New returns a budget, or everything that is wrong with the Config.
func New(c Config) (*Budget, error) {
	b := &Budget{
		name: c.Name, limit: c.Limit, window: c.Window, owners: append([]Owner(nil), c.Owners...),
		estimate: c.Estimate, charge: c.Charge, policy: c.OnStoreError, store: c.Store,
		timeout: c.StoreTimeout, clock: clockOr(c.Clock), logger: c.Logger,
	}
	if b.name == "" {
		b.name = defaultName
	}
	if b.window == nil {
		b.window = Daily(time.UTC)
	}
	if b.estimate == nil {
		b.estimate = EstimateBody
	}
	if b.charge == nil {
		b.charge = Charge
	}
	if b.timeout == 0 {
		b.timeout = defaultStoreTimeout
	}
	if b.store == nil {
		b.store = NewMemory()
	}
	if c.Headroom == 0 {
		c.Headroom = defaultHeadroom
	}
	if err := b.check(c); err != nil {
		return nil, fmt.Errorf("budget: %w", err)
	}
	b.soft = softCap(c.Limit, c.Headroom)
	if b.soft == 0 && !anyHeadroom(b.owners) {
		return nil, errors.New("budget: Limit and Headroom leave a soft cap of 0: nothing could ever be reserved")
	}
	b.events.Hook, b.events.Lost = c.OnEvent, b.hookPanicked
	b.open = make([]list, max(1, len(b.owners)))
	if m, ok := b.store.(*Memory); ok {
		b.mem, b.mu = m, &m.mu
	} else {
		b.mu = new(sync.Mutex)
		b.combine = &combiner{store: b.store, timeout: b.timeout}
	}
	return b, nil
}

// Name returns the Config's Name.
func (b *Budget) Name() string { return b.name }

// owner returns the index of the owner of that name: 0 for the only owner.
func (b *Budget) owner(name string) (int, bool) {
	if name == "" {
		return 0, len(b.owners) <= 1
	}
	for i := range b.owners {
		if b.owners[i].Name == name {
			return i, true
		}
	}
	return 0, false
}

// mayUseHeadroom reports whether the call in box finishes something that was
// begun: an attempt after the item's first, or a breaker's probe.
func mayUseHeadroom(box *call.Box) bool {
	return box != nil && (box.Probe || box.Attempt != nil && box.Attempt.N > 1)
}

// Reserve takes estimate units from the window that it is now, in one step
// with the check, or refuses with a [*RefusedError]. owner "" is the only
// owner. Whoever gets a reservation must end it by [Reservation.Reconcile] or
// [Reservation.Cancel]; what is never ended stays spent.
//
// A ctx of an attempt after an item's first, or of a breaker's probe, may use
// the headroom. If ctx ends while the store is asked, Reserve returns its
// cause and what was taken is given back.
func (b *Budget) Reserve(ctx context.Context, owner string, estimate int64) (*Reservation, error) {
	i, ok := b.owner(owner)
	if !ok {
		return nil, b.refuse(&RefusedError{Owner: owner, Reason: ErrUnknownOwner, Estimate: estimate})
	}
	if estimate <= 0 || estimate > MaxAmount {
		return nil, b.refuse(&RefusedError{Owner: owner, Reason: ErrEstimate, Estimate: estimate})
	}
	borrows := mayUseHeadroom(call.From(ctx))
	hard := borrows || len(b.owners) > 0 && b.owners[i].UseHeadroom
	m := b.take(nil, i, hard, estimate)
	if estimate > m.poolMax || m.ownerMax > 0 && estimate > m.ownerMax {
		e := &RefusedError{Owner: owner, Reason: ErrTooLarge, Estimate: estimate, Cap: m.poolMax}
		if e.OwnerCap = m.ownerMax > 0 && m.ownerMax < m.poolMax; e.OwnerCap {
			e.Cap = m.ownerMax
		}
		return nil, b.refuse(e)
	}
	if ctx.Err() != nil {
		return nil, call.Stopped(ctx, "budget: not reserved")
	}
	if b.owing.Load() {
		b.book() // before the reservation, so that it sees what is owed
	}
	now := b.clock.Now()
	m.span = b.span(now)
	m.expire = m.span.expire(now)
	settles := b.settles.Load()
	r := &Reservation{b: b, span: m.span, units: estimate, at: now.UnixNano(), owner: int32(i), hard: hard}
	var res moved
	var err error
	if b.mem != nil {
		b.mu.Lock()
		res = b.mem.move(&m)
	} else {
		res, err = b.move(ctx, m)
		b.mu.Lock()
	}
	if err == nil && res.ok {
		b.admit(r)
		if borrows && res.pool > b.soft {
			b.stats.Headroom++
		}
	}
	b.mu.Unlock()
	switch {
	case err != nil:
		if _, ok := err.(*call.StoppedError); ok {
			return nil, err
		}
		return b.withoutStore(r, m, owner, now, err)
	case res.ok:
		return r, nil
	}
	e := &RefusedError{
		Owner: owner, Reason: ErrExhausted, Estimate: estimate, Spent: res.value, Cap: m.poolMax,
		OwnerCap: res.over == 1, Window: m.span.key, Until: m.span.end,
	}
	if e.OwnerCap {
		e.Cap = m.ownerMax
	}
	return nil, b.exhausted(e, i, settles)
}

// admit counts a granted reservation; b.mu is held.
func (b *Budget) admit(r *Reservation) {
	b.open[r.owner].push(r)
	b.stats.Reserved++
	b.stats.ReservedUnits += r.units
	b.stats.Outstanding++
	b.stats.OutstandingUnits += r.units
}

// exhausted completes a refusal with how it may lift.
func (b *Budget) exhausted(e *RefusedError, owner int, settles uint64) error {
	b.mu.Lock()
	// A settlement while the store was asked may have made room already, and
	// its wake-up has passed.
	e.settled = b.settles.Load() != settles
	e.Outstanding = int(b.stats.Outstanding)
	if e.OwnerCap {
		e.Outstanding = b.open[owner].n
	}
	if b.wake == nil {
		b.wake = make(chan struct{})
	}
	e.wake = b.wake
	b.mu.Unlock()
	return b.refuse(e)
}

func (b *Budget) refuse(e *RefusedError) error {
	e.Budget, e.clock = b.name, b.clock
	b.mu.Lock()
	b.stats.refused(e.Reason)
	b.mu.Unlock()
	b.emit(Event{Kind: EventRefused, Owner: e.Owner, Window: e.Window, Amount: e.Estimate, Err: e})
	return e
}

// Adjust changes what owner has spent in the current window by delta, for an
// operator who knows better: a leak after a crash, spend that happened
// elsewhere. It is not checked against any limit; counters stop at 0.
func (b *Budget) Adjust(ctx context.Context, owner string, delta int64) error {
	i, ok := b.owner(owner)
	if !ok {
		return b.refuse(&RefusedError{Owner: owner, Reason: ErrUnknownOwner, Estimate: delta})
	}
	if delta < -MaxAmount || delta > MaxAmount {
		return b.refuse(&RefusedError{Owner: owner, Reason: ErrEstimate, Estimate: delta})
	}
	now := b.clock.Now()
	s := b.span(now)
	if _, err := b.move(ctx, move{span: s, owner: i, delta: delta, expire: s.expire(now)}); err != nil {
		return fmt.Errorf("budget: %s: adjusting: %w", b.name, err)
	}
	b.wakeAll()
	b.emit(Event{Kind: EventAdjusted, Owner: owner, Window: s.key, Amount: delta})
	return nil
}
