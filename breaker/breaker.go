package breaker

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/hook"
)

// Breaker guards one upstream. Make one with New; most callers then want Do,
// NewTransport or Allow. Safe for concurrent use.
type Breaker struct {
	// Read by every call, written seldom.
	phase   atomic.Pointer[phase]
	stage   atomic.Uint32 // raised when a streak of failures begins
	seq     atomic.Uint64 // the Sequencer's number of what is known
	down    atomic.Bool   // the store failed a moment ago
	unsure  atomic.Bool   // what is known did not come from a good read
	looked  atomic.Int64  // when a store without numbers was read, in Unix nanoseconds
	cfg     Config
	rules   rules
	clock   Clock
	real    bool // the clock is the real one
	private bool // there is no store to share
	numbers Sequencer
	holder  string
	lane    chan struct{} // holds one element while someone is in the store
	stuck   atomic.Int32  // store operations that outlived their time limit

	waiting atomic.Int32
	stripes [stripes]stripe

	mu       sync.Mutex
	rec      record // what counts: the stored record and the pending events
	base     record // as last read or written
	pending  []event
	flying   bool          // an operation is out
	diverged bool          // rec has moved on without the store
	granting chan struct{} // closed when the probe on its way is decided
	look     chan struct{} // closed when the look in hand is done
	slowLook bool          // the look in hand has taken too long to wait for
	retryAt  time.Time
	backoff  time.Duration
	reported bool
	streak   streak
	window   window
	counts   counts
	changes  hook.Queue[Change]
}

// New returns the breaker that cfg describes, or everything that is wrong with
// cfg. It reads the store, for at most StoreTimeout, and never writes it; a
// store that fails is no error here, but is reported as at any other time.
func New(cfg Config) (*Breaker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Breaker{cfg: cfg, rules: cfg.rules(), clock: cfg.Clock, private: cfg.Store == nil, lane: make(chan struct{}, 1)}
	if b.clock == nil {
		b.clock, b.real = realClock{}, true
	}
	b.changes.Hook, b.changes.Lost = b.deliver, b.hookPanicked
	b.window = newWindow(cfg)
	b.numbers, _ = cfg.Store.(Sequencer)
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	b.holder = fmt.Sprintf("%s pid %d", host, os.Getpid())
	now := b.clock.Now()
	b.phase.Store(b.newPhase(record{}, now))
	if !b.private {
		b.load(now)
	}
	return b, nil
}

// Name returns Config.Name.
func (b *Breaker) Name() string { return b.cfg.Name }

// Allow asks for one call. It returns a permit, which must be settled when the
// call has ended, or an *OpenError that is made once per opening. ctx is
// remembered until then, to tell the caller's own cancel from a failure. While
// closed, and while it refuses, it allocates nothing.
//
// A probe is written to the store before Allow returns; when ctx ends during
// that, the error is ctx's cause and the slot is free again.
func (b *Breaker) Allow(ctx context.Context) (*Permit, error) {
	// Kept so small that it is inlined and the permit stays on the caller's
	// stack.
	p := new(Permit)
	if err := b.admit(ctx, p); err != nil {
		return nil, err
	}
	return p, nil
}

func (b *Breaker) admit(ctx context.Context, p *Permit) error {
	p.b, p.ctx, p.stripe = b, ctx, stripeOf(p)
	if b.private || b.fresh() {
		ph := b.phase.Load()
		if ph.err == nil {
			// Counted before the stage is read: a streak that begins between
			// counts this call as older than it is, which only makes it wait.
			b.stripes[p.stripe].in.Add(1)
			p.phase, p.stage = ph, b.stage.Load()
			return nil
		}
		if !b.cfg.Shadow && ph.lasts(b) {
			b.stripes[p.stripe].refused.Add(1)
			return ph.err
		}
	}
	return b.admitSlowly(ctx, p)
}

// admitSlowly decides under the lock, after a look at the store if one is due.
func (b *Breaker) admitSlowly(ctx context.Context, p *Permit) error {
	b.refresh(ctx)
	now := b.clock.Now()
	b.mu.Lock()
	ev := event{kind: evAllow, now: now, seen: b.seen(now), holder: b.holder, draw: mathrand.Float64()}
	_, eff := b.rules.step(b.rec, ev)
	if eff.answer == probing {
		ev.token = rand.Text()
		if b.private {
			b.commit(ev)
			b.take(p, ev.token)
			b.mu.Unlock()
			b.changes.Run()
			return nil
		}
		if b.granting == nil {
			b.granting = make(chan struct{})
			b.mu.Unlock()
			return b.grant(ctx, p, ev)
		}
		// Another caller is on the way to the store for this probe.
		eff = effect{}
	}
	if eff.answer == admitted {
		b.take(p, "")
		b.mu.Unlock()
		b.changes.Run() // what the look has found
		return nil
	}
	if eff.repair {
		ev.kind = evRepair
		b.commit(ev)
	}
	err := b.refuse(p)
	b.mu.Unlock()
	b.drain(ctx)
	b.changes.Run()
	return err
}

// grant writes a probe's lease and lets its call out, unless another process
// was quicker.
func (b *Breaker) grant(ctx context.Context, p *Permit, ev event) error {
	eff, _ := b.transact(ctx, ev)
	b.mu.Lock()
	close(b.granting)
	b.granting = nil
	var err error
	switch eff.answer {
	case probing:
		b.take(p, ev.token)
	case admitted:
		b.take(p, "")
	default:
		err = b.refuse(p)
	}
	b.mu.Unlock()
	b.drain(ctx)
	b.changes.Run()
	if err == nil && ctx.Err() != nil {
		p.Ignore()
		return call.Stopped(ctx, "breaker: admitted too late")
	}
	return err
}

// take fills p for a call that may go out. The lock is held.
func (b *Breaker) take(p *Permit, token string) {
	b.stripes[p.stripe].in.Add(1)
	p.phase, p.stage, p.token = b.phase.Load(), b.stage.Load(), token
	if token != "" {
		b.counts.probes++
	}
}

// refuse counts a refusal, or in shadow mode lets the call pass with a permit
// whose result will come too late to matter. The lock is held.
func (b *Breaker) refuse(p *Permit) error {
	ph := b.phase.Load()
	if b.cfg.Shadow || ph.err == nil {
		b.take(p, "")
		if ph.err != nil {
			b.counts.shadowed++
		}
		return nil
	}
	b.stripes[p.stripe].refused.Add(1)
	return ph.err
}

// State returns the state as of now, after the look at the store that Allow
// would take. It changes nothing: an opening whose time is over stays Open
// until a call asks.
func (b *Breaker) State() State {
	b.refresh(context.Background())
	b.changes.Run()
	return b.phase.Load().state
}

// Trip opens the breaker at once, or opens it again with a longer cooldown. An
// error means that the store could not be written: the trip then holds in this
// process, and reaches the store when that works again.
func (b *Breaker) Trip(ctx context.Context, reason string) error {
	return b.order(ctx, event{kind: evTrip, reason: reason})
}

// Reset closes the breaker and forgets its failures, its cooldown and a probe
// that is out; the number of trips and the last one stay. The error is as for
// Trip; reason is logged.
func (b *Breaker) Reset(ctx context.Context, reason string) error {
	return b.order(ctx, event{kind: evReset, reason: reason})
}

func (b *Breaker) order(ctx context.Context, ev event) error {
	ev.now, ev.draw = b.clock.Now(), mathrand.Float64()
	var err error
	if b.private {
		b.mu.Lock()
		b.commit(ev)
		b.mu.Unlock()
	} else {
		_, err = b.transact(ctx, ev)
		b.drain(ctx)
	}
	b.changes.Run()
	return err
}

// commit applies ev to what counts, and keeps it for the store. The lock is
// held.
func (b *Breaker) commit(ev event) effect {
	from := b.rec.State
	next, eff := b.rules.step(b.rec, ev)
	if !eff.changed {
		return eff
	}
	b.install(next, ev.now)
	if eff.moved {
		b.report(from, ev, false)
	}
	if !b.private {
		b.remember(ev)
	}
	return eff
}

// install makes next the record that counts. The lock is held.
func (b *Breaker) install(next record, now time.Time) {
	b.rec = next
	old, ph := b.phase.Load(), b.newPhase(next, now)
	if old.is(ph) {
		old.dirty.Store(b.window.on || next.dirty())
		if !next.dirty() {
			b.streak.end()
		}
		return
	}
	b.phase.Store(ph)
	if old.changed != nil {
		close(old.changed)
	}
	b.streak.end()
	b.streak.stale = b.flight()
	b.window.clear()
}

func (b *Breaker) log(level slog.Level, msg string, args ...any) {
	if b.cfg.Logger != nil {
		b.cfg.Logger.Log(context.Background(), level, msg, append([]any{"breaker", b.cfg.Name}, args...)...)
	}
}
