package call

import (
	"context"
	"net/http"
)

// Box is one layer's view of the call. It is a context.Context: pass it on as
// such. Every field is written before the Box is handed on and only read
// afterwards.
type Box struct {
	context.Context

	// Item is shared by all calls made for one item. Never nil in a Box made
	// by this package.
	Item *Item

	// ID names the item and Labels describe it; "" and nil when nobody said.
	// Labels must not be modified.
	ID     string
	Labels map[string]string

	// Owner is who pays, Estimate what the caller expects to pay in the
	// budget's unit; "" and 0 when nobody said.
	Owner    string
	Estimate int64

	// Limit bounds the calls under this context; nil when there is none. The
	// retry that owns the attempts takes from Counted and what is around it;
	// limits set further in are still to be taken from.
	Limit   *Limit
	Counted *Limit

	// Outcome is the caller's *retry.Outcome, nil when nobody asked.
	Outcome any

	// Recorded says that a runner or a replay above keeps the dead letters,
	// so the queue's own transport steps aside. Replay says that the item
	// comes out of a queue.
	Recorded bool
	Replay   bool

	// Retried says that a retry of ours owns the attempts. Probe says that
	// this call is a breaker's probe.
	Retried bool
	Probe   bool

	// Attempt is the attempt in hand, nil outside one.
	Attempt *Attempt

	// Used collects what the caller's function says it has used; nil outside
	// a budget's function form.
	Used *Used

	guard any  // the guard entered by this Box, nil for a mere setting
	up    *Box // the enclosing Box
	many  bool // a setting outside of any item: each Box below begins its own

	attempt Attempt // what Attempt points to when this Box begins one
	item    Item    // what Item points to when this Box is the first
}

// Met is an error that came out of what was done under a Box. deadletter's
// FailureOf, given one, says what the item's letter will say of it: from a
// runner, whose reports and alerts then name the failure as the letter does.
type Met struct {
	Box *Box
	Err error
}

func (m *Met) Error() string { return m.Err.Error() }
func (m *Met) Unwrap() error { return m.Err }

type boxKey struct{}

// Value returns the Box itself for this package's key.
func (b *Box) Value(key any) any {
	if key == (boxKey{}) {
		return b
	}
	return b.Context.Value(key)
}

// From returns the nearest Box, or nil when ctx has none.
func From(ctx context.Context) *Box {
	b, _ := ctx.Value(boxKey{}).(*Box)
	return b
}

// With returns a Box below ctx with the inherited settings, ready to be
// changed before it is handed on. It makes the shared Item when it is the
// first.
func With(ctx context.Context) *Box {
	b := &Box{Context: ctx}
	up := From(ctx)
	if up == nil {
		b.Item = &b.item
		return b
	}
	b.up = up
	b.Item, b.ID, b.Labels = up.Item, up.ID, up.Labels
	b.Owner, b.Estimate = up.Owner, up.Estimate
	b.Limit, b.Counted, b.Outcome = up.Limit, up.Counted, up.Outcome
	b.Recorded, b.Replay = up.Recorded, up.Replay
	b.Retried, b.Probe = up.Retried, up.Probe
	b.Attempt, b.Used = up.Attempt, up.Used
	if up.many {
		b.Item = &b.item
	}
	return b
}

// Own returns the Item that the Box belongs to, nil for a nil Box and for a
// mere setting, under which each call is an item of its own.
func (b *Box) Own() *Item {
	if b == nil || b.many {
		return nil
	}
	return b.Item
}

// Setting is With for a setting that may hold for many items, such as who
// pays. Outside of an item it begins none: two calls under the same setting
// are two items, and one's refusal says nothing about the other.
func Setting(ctx context.Context) *Box {
	b := With(ctx)
	b.many = b.up == nil || b.up.many
	return b
}

// NewItem makes the Box the first of another item, with a fresh [Item] and a
// name of its own. The marks of the layers around it stay: a retry that runs a
// function which names its item inside still owns the attempts, or the two
// would multiply.
func (b *Box) NewItem(id string, labels map[string]string) {
	b.item = Item{}
	b.Item, b.ID, b.Labels = &b.item, id, labels
}

// Enter marks the Box as inside guard.
func (b *Box) Enter(guard any) { b.guard = guard }

// Inside reports whether the call has already passed guard, which must be
// comparable. It is false for a nil Box.
func (b *Box) Inside(guard any) bool {
	for ; b != nil; b = b.up {
		if b.guard == guard {
			return true
		}
	}
	return false
}

// Begin makes the Box attempt number n (1 is the call's first). The
// time limit of the enclosing attempt holds for it.
func (b *Box) Begin(n int) { b.begin(n, false) }

func (b *Box) begin(n int, wire bool) {
	var t Timer
	if b.Attempt != nil {
		t = b.Attempt.Timer
	}
	b.attempt = Attempt{N: n, Timer: t, wire: wire}
	b.Attempt = &b.attempt
}

// Wire returns req as a transport of ours must pass it on: with a Box whose
// Attempt belongs to this round trip. The first transport a request meets
// makes it, on a shallow copy of the request; the ones inside find it.
func Wire(req *http.Request) (*http.Request, *Box) {
	ctx := req.Context()
	if b := From(ctx); b != nil && b.Attempt != nil && b.Attempt.wire {
		return req, b
	}
	b := With(ctx)
	b.BeginWire(0)
	return req.WithContext(b), b
}

// BeginWire is Begin for a transport: the attempt belongs to one round trip.
// n = 0 keeps the number of the enclosing attempt, or 1 when there is none.
func (b *Box) BeginWire(n int) {
	if n == 0 {
		n = 1
		if b.Attempt != nil {
			n = b.Attempt.N
		}
	}
	b.begin(n, true)
}
