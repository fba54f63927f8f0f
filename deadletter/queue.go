package deadletter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/hook"
	"github.com/nightfuse/nightfuse/internal/nils"
)

// Decision is what a Classify function says of a failed item.
type Decision int

// The decisions.
const (
	Auto Decision = iota // as the package guide's table says
	Keep                 // a dead letter, also when the answer looks good
	Pass                 // no dead letter
)

// Config says how a [Queue] works. Name and Store are required.
type Config struct {
	Name  string // of the queue, at most 200 bytes of UTF-8 without a NUL; one store may hold several queues
	Store Store

	// Classify decides about a failure: resp is set for an answer, err for
	// anything else. It is not asked about refusals and cancelled calls, which
	// are never dead letters, and it may run twice for one item. nil = Auto.
	Classify func(resp *http.Response, err error) Decision

	// MaxPayload is the largest payload in bytes that is kept, after
	// Redact, and how much of a body without GetBody is held in memory; 0 =
	// DefaultMaxPayload. A larger one is a loss (ErrTooLarge).
	MaxPayload int64

	// Redact may take more out of a record before it is stored, after the
	// package's own scrubbing. If it panics the record is not stored.
	Redact func(*Record)

	// ResolveOnSuccess acks an item's letter when the item succeeds later. Set
	// it when something above the queue tries again, as SDKs do. It costs a
	// look into the store for each success of an item with an id.
	ResolveOnSuccess bool

	RunID      string        // names this run in the letters; "" = not said
	PutTimeout time.Duration // for one step in the store, in real time; 0 = 5 s
	Clock      Clock         // nil = real time
	Logger     *slog.Logger  // nil = silent

	// OnDead is told of every stored letter, as the store has it after that
	// failure and with its payload; OnLost of every letter that could not be
	// stored. One call at a time, in order, with no lock held, perhaps on another
	// goroutine that buries a letter. They may call any method. A panic in them
	// is counted and logged.
	OnDead func(Record)
	OnLost func(Loss)
}

// Loss is a letter that could not be stored, and why.
type Loss struct {
	Record Record
	Err    *LostError
}

// Queue keeps the items that failed in a [Store]. Most callers wrap their
// client with [NewTransport], or a function with [Queue.Do]. Its methods are
// safe for concurrent use.
type Queue struct {
	cfg   Config
	count counters
	hooks hook.Queue[func()]
}

// New returns a queue. The error names every field that is missing or out of
// range.
func New(c Config) (*Queue, error) {
	var errs []error
	if c.Name == "" || len(c.Name) > 200 || !utf8.ValidString(c.Name) || strings.IndexByte(c.Name, 0) >= 0 {
		errs = append(errs, fmt.Errorf("deadletter: Name %q is not 1 to 200 bytes of UTF-8 without a NUL", c.Name))
	}
	if nils.In(c.Store) {
		errs = append(errs, errors.New("deadletter: Store is missing: use OpenJournal, or NewMemory when letters may end with the process"))
	}
	errs = append(errs, nils.Field("deadletter: Clock", c.Clock))
	if c.MaxPayload < 0 || c.MaxPayload > maxMaxPayload {
		errs = append(errs, fmt.Errorf("deadletter: MaxPayload %d is not between 0 and %d", c.MaxPayload, maxMaxPayload))
	}
	if c.PutTimeout < 0 {
		errs = append(errs, fmt.Errorf("deadletter: PutTimeout %v is negative", c.PutTimeout))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = DefaultMaxPayload
	}
	if c.PutTimeout == 0 {
		c.PutTimeout = 5 * time.Second
	}
	c.Clock = orReal(c.Clock)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	q := &Queue{cfg: c}
	q.hooks.Hook, q.hooks.Lost = func(tell func()) { tell() }, q.hookPanicked
	return q, nil
}

// Name returns the queue's name.
func (q *Queue) Name() string { return q.cfg.Name }

// WithItem names the item that is worked on under the returned context, and
// describes it by labels: a key, its value, the next key and so on. The id is
// what the letter and the replay know the item by; without one they have to go
// by the payload. Neither leaves the process.
func WithItem(ctx context.Context, id string, labels ...string) context.Context {
	var m map[string]string
	if len(labels) > 0 {
		m = make(map[string]string, (len(labels)+1)/2)
		for kv := range slices.Chunk(labels, 2) {
			m[kv[0]] = append(kv, "")[1]
		}
	}
	b := call.With(ctx)
	b.NewItem(id, m)
	return b
}

// Do runs fn, and keeps payload as a dead letter if it fails. payload is what a
// replay needs to do the item again. What fn returns is returned; when the
// letter could not be stored it is joined with a *[LostError]. A nil pointer as an
// error, and one that panics when it is asked, is returned as a text that says so.
// A panic of fn makes a letter too and goes on. Where fn's error has no status of its own
// (StatusCode() int), the letter has that of the last call which a retry inside
// has given up; an SDK's error for the answer that such a retry gave in place of
// its own is told as the retry's.
//
// Inside another Do or transport of q, and under a [Replay] or a runner, which
// keep the letters themselves, it only calls fn.
func (q *Queue) Do(ctx context.Context, payload []byte, fn func(context.Context) error) error {
	if b := call.From(ctx); b.Inside(q) || (b != nil && b.Recorded) {
		return fn(ctx)
	}
	box := call.With(ctx)
	box.Enter(q)
	box.Item.Pass()
	var cause error // of the letter, when it is known
	decided := false
	defer func() {
		if decided {
			return
		}
		// A runtime.Goexit has no value and is no failure of the item.
		if p := recover(); p != nil {
			if cause == nil {
				cause = fmt.Errorf("panic: %v", p)
			}
			q.count.items.Add(1)
			_ = q.bury(ctx, q.functionLetter(box, payload, cause))
			panic(p)
		}
	}()
	err := sound(fn(box))
	f := done
	if err != nil {
		cause = causeOf(box, err)
		f = q.fateOf(ctx, box, nil, err) // a Classify that panics loses no item
	}
	decided = true
	q.count.items.Add(1)
	switch f {
	case done:
		q.success(ctx, box)
	case dead:
		if lost := q.bury(ctx, q.functionLetter(box, payload, cause)); lost != nil {
			return errors.Join(err, lost)
		}
	default:
		q.count.note(f)
	}
	return err
}

// functionLetter is letterAbout for the function form.
func (q *Queue) functionLetter(box *call.Box, payload []byte, cause error) Record {
	r := q.letterAbout(box, cause, q.cfg.Clock.Now())
	r.Payload = payload
	if r.ItemID == "" && len(payload) == 0 {
		// Nothing tells it from others, so it must not be merged with them.
		r.ID = ID(q.cfg.Name, rand.Text())
	}
	return r
}

// Fail keeps the item of ctx (see [WithItem]) as a dead letter because of
// cause, whatever cause is. It is for runners that decide by themselves; the
// context's end does not stop it. The error is a *[LostError].
func (q *Queue) Fail(ctx context.Context, payload []byte, cause error) error {
	box := call.With(ctx)
	q.count.items.Add(1)
	return q.bury(ctx, q.functionLetter(box, payload, causeOf(box, sound(cause))))
}

// Put stores r in the queue, whose name it gets, after the queue's Redact. The
// context's end does not stop it. The error is a *[LostError].
func (q *Queue) Put(ctx context.Context, r Record) error {
	q.count.items.Add(1)
	return q.bury(ctx, r)
}

// bury stores r and tells who wants to know.
func (q *Queue) bury(ctx context.Context, r Record) error {
	r.Queue = q.cfg.Name
	// Before Redact, which may make two items look alike.
	switch {
	case r.ID != "":
	case r.ItemID != "":
		r.ID = ID(r.Queue, r.ItemID)
	default:
		r.ID = payloadID(r)
	}
	err := q.redact(&r)
	if n := int64(len(r.Payload)); err == nil && n > q.cfg.MaxPayload {
		err = tooLarge(q.cfg.MaxPayload)
	}
	if err == nil {
		// The usual reason for a dead letter is a context that has ended.
		pctx, cancel := q.detached(ctx)
		err = q.cfg.Store.Put(pctx, r)
		cancel()
	}
	if err != nil {
		return q.lose(r, err)
	}
	q.count.dead.Add(1)
	q.count.bytes.Add(int64(len(r.Payload)))
	if q.cfg.OnDead != nil {
		r = q.kept(ctx, r)
		q.hooks.Tell(func() { q.cfg.OnDead(r) })
	}
	return nil
}

// kept returns r as the store has it: with what earlier failures have left.
func (q *Queue) kept(ctx context.Context, r Record) Record {
	ctx, cancel := q.detached(ctx)
	defer cancel()
	stored, err := q.cfg.Store.Get(ctx, r.ID)
	if err != nil {
		// Purged meanwhile, or the store fails: then this failure is all that is
		// known of it.
		q.cfg.Logger.Warn("deadletter: a letter cannot be read back", "queue", q.cfg.Name, "id", r.ID, "error", err)
		return prepared(r, q.cfg.Clock.Now())
	}
	return stored
}

// detached returns a context for one step in the store that outlives ctx.
func (q *Queue) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), q.cfg.PutTimeout)
}

// lose tells that r could not be stored.
func (q *Queue) lose(r Record, err error) error {
	lost := &LostError{Queue: q.cfg.Name, ItemID: r.ItemID, Err: err}
	q.count.lost.Add(1)
	q.cfg.Logger.Error("deadletter: item lost", "queue", q.cfg.Name, "item", r.ItemID, "error", err)
	if q.cfg.OnLost != nil {
		q.hooks.Tell(func() { q.cfg.OnLost(Loss{Record: r, Err: lost}) })
	}
	return lost
}

// hookPanicked counts and logs a hook that panicked or ended its goroutine.
func (q *Queue) hookPanicked(text string) {
	q.count.hookPanics.Add(1)
	q.cfg.Logger.Error("deadletter: hook panicked", "queue", q.cfg.Name, "panic", text)
}

// redact runs the caller's Redact. What it could not look at is not stored.
func (q *Queue) redact(r *Record) (err error) {
	if q.cfg.Redact == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("deadletter: Redact panicked: %s", hook.Text(p))
		}
	}()
	*r = r.clone()
	r.Payload = slices.Clone(r.Payload)
	q.cfg.Redact(r)
	return nil
}

// success counts an item that is done and acks the letter of an earlier
// failure. Its errors are counted and logged: the item is done all the same.
func (q *Queue) success(ctx context.Context, box *call.Box) {
	q.count.done.Add(1)
	if !q.cfg.ResolveOnSuccess || box.ID == "" {
		return
	}
	ctx, cancel := q.detached(ctx)
	defer cancel()
	f := Filter{IDs: []string{ID(q.cfg.Name, box.ID)}, States: []State{Dead, Quarantined}}
	for _, err := range q.cfg.Store.List(ctx, f) {
		if err == nil {
			err = q.ack(ctx, f)
		}
		if err != nil {
			q.count.unresolved.Add(1)
			q.cfg.Logger.Error("deadletter: letter of an item that is done now stays", "queue", q.cfg.Name, "item", box.ID, "error", err)
		}
	}
}

func (q *Queue) ack(ctx context.Context, f Filter) error {
	claims, err := q.cfg.Store.Claim(ctx, ClaimReq{By: "success", Lease: time.Minute, Filter: f})
	if err != nil {
		return err
	}
	for _, c := range claims {
		if err := q.cfg.Store.Resolve(ctx, c.Token, Outcome{Verb: Ack}); err != nil {
			return err
		}
		q.count.resolved.Add(1)
	}
	return nil
}

// Get returns the letter of an item, with its payload, or ErrNotFound.
func (q *Queue) Get(ctx context.Context, item string) (Record, error) {
	return q.cfg.Store.Get(ctx, ID(q.cfg.Name, item))
}

// List yields the queue's letters that match, as [Reader.List] does.
func (q *Queue) List(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	f.Queue = q.cfg.Name
	return q.cfg.Store.List(ctx, f)
}
