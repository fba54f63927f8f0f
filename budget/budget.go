package budget

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
)

// Config is what a [Budget] is made of. Amounts are in a unit of the caller's
// choice: tokens, requests, micro-dollars. The defaults of Estimate and Charge
// count tokens.
type Config struct {
	// Name tells budgets on one Store apart and appears in errors, events and
	// Stats. "" = "budget".
	Name string

	// Limit is the hard cap per window, from the plan's current terms; 1 to
	// MaxAmount. Required.
	Limit int64

	// Headroom is the share of Limit kept back from owners without
	// UseHeadroom, for people and for finishing what was begun. 0 = 0.15,
	// < 0 = none; below 1. The soft cap is floor(Limit*(1-Headroom)) in
	// decimal arithmetic; reaching it exactly is allowed.
	Headroom float64

	// Window is what Limit is for. nil = Daily(time.UTC).
	Window Window

	// Owners are those who may spend. Empty = one owner without a name.
	Owners []Owner

	// Estimate says what a request may cost at most, for the transport. The
	// body is the request's, at most its first 4 MiB, valid during the call
	// only, and nil if there is none. nil = EstimateBody. WithEstimate takes
	// precedence.
	Estimate func(req *http.Request, body []byte) int64

	// Charge says what an ended call has cost, for the transport and Do. nil =
	// the function Charge. A negative result is settled at the estimate.
	Charge func(Call) int64

	// OnStoreError says what Reserve does when Store fails. Zero = Closed.
	OnStoreError StoreErrorPolicy

	// Store keeps the counters. nil = a new Memory: a restart forgets what was
	// spent. Budgets with the same Name, Window and Store share their limit.
	Store Store

	// StoreTimeout bounds one trip to the Store, in real time. 0 = 2s.
	StoreTimeout time.Duration

	// Clock is the time. nil = real time.
	Clock Clock

	// Logger gets what OnEvent gets, refusals at debug level. nil = silent.
	Logger *slog.Logger

	// OnEvent is told what happens, with no lock held, one event at a time, in
	// order. It may call any method. A panic in it is logged and counted.
	OnEvent func(Event)
}

// An Owner is somebody who spends: a job, a team, a person.
type Owner struct {
	Name        string // "" is possible for the only owner
	Limit       int64  // the owner's own ceiling per window; 0 = the pool's limit only
	UseHeadroom bool   // may spend up to the hard cap
}

// StoreErrorPolicy says what happens to reservations while the store fails:
// [Closed], [Open] or [Local].
type StoreErrorPolicy int64

const (
	// Closed refuses: nobody knows what is left. It is the zero value.
	Closed StoreErrorPolicy = 0
	// Open grants everything, and books it when the store works again.
	Open StoreErrorPolicy = math.MinInt64
)

// Local grants up to n units in this process while the store fails, and books
// them when it works again. n must be positive.
func Local(n int64) StoreErrorPolicy {
	if n <= 0 {
		return -1 // reported by New
	}
	return StoreErrorPolicy(n)
}

const (
	defaultHeadroom     = 0.15
	defaultStoreTimeout = 2 * time.Second
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
	events      events[Event]

	mem     *Memory   // store, if it is one: no trip, no queue
	combine *combiner // else
	current atomic.Pointer[span]
	settles atomic.Uint64 // settlements so far
	owing   atomic.Bool   // owed is not empty

	mu       sync.Mutex
	open     []list // per owner, at least one
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
		b.name = "budget"
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
	b.events.hook, b.events.lost = c.OnEvent, b.hookPanicked
	b.open = make([]list, max(1, len(b.owners)))
	if m, ok := b.store.(*Memory); ok {
		b.mem = m
	} else {
		b.combine = &combiner{store: b.store, timeout: b.timeout}
	}
	return b, nil
}

func (b *Budget) check(c Config) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !nameText(b.name) {
		bad("Name %q: at most 64 bytes without control characters", b.name)
	}
	if c.Limit < 1 || c.Limit > MaxAmount {
		bad("Limit %d: must be 1 to %d", c.Limit, int64(MaxAmount))
	}
	if !(c.Headroom < 1) {
		bad("Headroom %v: must be below 1", c.Headroom)
	}
	if err := checkWindow(b.window, b.clock.Now()); err != nil {
		errs = append(errs, err)
	}
	seen := make(map[string]bool)
	for i, o := range c.Owners {
		if o.Name == "" && len(c.Owners) > 1 {
			bad("Owners[%d]: one of several needs a Name", i)
		}
		if o.Name != "" && !nameText(o.Name) {
			bad("Owners[%d]: Name %q: at most 64 bytes without control characters", i, o.Name)
		}
		if seen[o.Name] {
			bad("Owners[%d]: %q is there twice", i, o.Name)
		}
		seen[o.Name] = true
		if o.Limit < 0 || o.Limit > MaxAmount {
			bad("Owners[%d]: Limit %d: must be 0 to %d", i, o.Limit, int64(MaxAmount))
		}
	}
	if c.OnStoreError < 0 && c.OnStoreError != Open {
		bad("OnStoreError: Local needs a positive amount")
	}
	if c.StoreTimeout < 0 {
		bad("StoreTimeout %v: must not be negative", c.StoreTimeout)
	}
	return errors.Join(errs...)
}

func nameText(s string) bool {
	return s != "" && len(s) <= 64 && len(escape(s)) <= 90 && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// escape makes s a part of a store's key: printable ASCII without space, '|'
// and '%'.
func escape(s string) string {
	var sb strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '|' || c == '%' {
			fmt.Fprintf(&sb, "%%%02x", c)
		} else {
			sb.WriteByte(c)
		}
	}
	return sb.String()
}

// softCap is floor(limit*(1-headroom)), of the decimal number that headroom
// was written as: in floating point 0.9 of 100 would leave 9.
func softCap(limit int64, headroom float64) int64 {
	if headroom < 0 {
		return limit
	}
	h, ok := new(big.Rat).SetString(strconv.FormatFloat(headroom, 'g', -1, 64))
	if !ok {
		return 0
	}
	r := h.Sub(big.NewRat(1, 1), h)
	r.Mul(r, new(big.Rat).SetInt64(limit))
	return new(big.Int).Quo(r.Num(), r.Denom()).Int64()
}

func anyHeadroom(owners []Owner) bool {
	for _, o := range owners {
		if o.UseHeadroom {
			return true
		}
	}
	return false
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
	return box != nil && (box.Probe || box.Attempt != nil && box.Attempt.N > 1 || box.Item.Calls() > 0)
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
		return nil, stop(ctx, "budget: not reserved")
	}
	if b.owing.Load() {
		b.book() // before the reservation, so that it sees what is owed
	}
	now := b.clock.Now()
	m.span = b.span(now)
	m.expire = m.span.expire(now)
	settles := b.settles.Load()
	res, err := b.move(ctx, m)
	if err != nil {
		if _, ok := err.(*stopped); ok {
			return nil, err
		}
		return b.withoutStore(m, hard, owner, now, err)
	}
	if !res.ok {
		e := &RefusedError{
			Owner: owner, Reason: ErrExhausted, Estimate: estimate, Spent: res.value, Cap: m.poolMax,
			OwnerCap: res.over == 1, Window: m.span.key, Until: m.span.end,
		}
		if e.OwnerCap {
			e.Cap = m.ownerMax
		}
		return nil, b.exhausted(e, settles)
	}
	r := &Reservation{b: b, span: m.span, units: estimate, at: now.UnixNano(), owner: int32(i), hard: hard}
	b.mu.Lock()
	b.admit(r)
	if borrows && m.poolMax > b.soft && res.pool > b.soft {
		b.stats.Headroom++
	}
	b.mu.Unlock()
	return r, nil
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
func (b *Budget) exhausted(e *RefusedError, settles uint64) error {
	b.mu.Lock()
	// A settlement while the store was asked may have made room already, and
	// its wake-up has passed.
	e.settled = b.settles.Load() != settles
	e.Outstanding = int(b.stats.Outstanding)
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

// move is one amount moved between a window's counters and a reservation.
type move struct {
	span              *span
	owner             int
	delta             int64
	poolMax, ownerMax int64
	expire            time.Duration
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
		return b.mem.move(&m), nil
	}
	p := &pending{undo: m.expire > 0 && m.poolMax > 0}
	p.change.Ops = m.ops(p.buf[:0])
	if err := b.combine.do(ctx, p); err != nil {
		if _, ok := err.(*stopped); !ok {
			b.storeFailed(err)
		}
		return moved{}, err
	}
	b.storeWorks()
	return result(p.change.Ops, p.change.OK), nil
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
		return fmt.Errorf("budget %s: adjusting: %w", b.name, err)
	}
	b.wakeAll()
	b.emit(Event{Kind: EventAdjusted, Owner: owner, Window: s.key, Amount: delta})
	return nil
}
