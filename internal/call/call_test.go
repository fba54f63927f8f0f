package call_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
)

func TestWithInheritsSettings(t *testing.T) {
	t.Parallel()
	outer := call.With(t.Context())
	outer.NewItem("a.json", map[string]string{"night": "1"})
	outer.Owner, outer.Estimate, outer.Recorded = "nightly", 900, true
	type other struct{}
	inner := call.With(context.WithValue(outer, other{}, 1))

	if inner.ID != "a.json" || inner.Owner != "nightly" || inner.Estimate != 900 || !inner.Recorded {
		t.Errorf("inner box = %+v, want the outer settings", inner)
	}
	if inner.Item != outer.Item {
		t.Error("the item is not shared")
	}
	inner.Owner = "human"
	if outer.Owner != "nightly" {
		t.Error("a setting leaked outwards")
	}
	if inner.Value(other{}) != 1 {
		t.Error("a foreign context value is lost")
	}
}

func TestWithoutBox(t *testing.T) {
	t.Parallel()
	if b := call.From(t.Context()); b != nil {
		t.Fatalf("From = %v, want nil", b)
	}
	var none *call.Box
	if none.Inside(1) {
		t.Error("a nil box is inside a guard")
	}
}

// A box is a context: cancelling its parent must reach contexts made of it
// without a goroutine of their own, and through them the box itself.
func TestBoxPassesCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	b := call.With(ctx)
	child, stop := context.WithTimeout(b, time.Hour)
	defer stop()
	gone := errors.New("gone")
	cancel(gone)
	<-child.Done()
	if context.Cause(child) != gone || b.Err() == nil {
		t.Errorf("cause = %v, box err = %v", context.Cause(child), b.Err())
	}
}

func TestInside(t *testing.T) {
	t.Parallel()
	one, two := new(int), new(int)
	b := call.With(t.Context())
	b.Enter(one)
	deep := call.With(call.With(b))
	if !deep.Inside(one) || deep.Inside(two) || call.From(t.Context()).Inside(one) {
		t.Error("a guard is told wrongly")
	}
}

func TestWireSharesOneAttempt(t *testing.T) {
	t.Parallel()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://upstream.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	first, b1 := call.Wire(req)
	again, b2 := call.Wire(first)
	if first == req || again != first || b1.Attempt != b2.Attempt || b1.Attempt.N != 1 {
		t.Errorf("the second transport does not find the attempt of the first")
	}
	if call.From(req.Context()) != nil {
		t.Error("the caller's request was changed")
	}

	// Two requests inside one function attempt are two round trips.
	fn := call.With(t.Context())
	fn.Begin(3)
	_, x := call.Wire(req.WithContext(fn))
	_, y := call.Wire(req.WithContext(fn))
	if x.Attempt == y.Attempt || x.Attempt.N != 3 || x.Item != y.Item {
		t.Errorf("attempts %p %p number %d: want two, both numbered 3, of one item", x.Attempt, y.Attempt, x.Attempt.N)
	}
}

// stopwatch counts what an attempt's guards tell its time limit.
type stopwatch struct{ holds, gos int }

func (s *stopwatch) Hold() { s.holds++ }
func (s *stopwatch) Go()   { s.gos++ }

// The time limit of an attempt is found from every attempt within it.
func TestAttemptTimer(t *testing.T) {
	t.Parallel()
	var s stopwatch
	lazy := &call.Lazy{Context: t.Context(), Timer: &s}
	fn := call.With(lazy)
	fn.NewItem("other", nil)
	req, err := http.NewRequestWithContext(fn, http.MethodPost, "http://upstream.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, wire := call.Wire(req)
	again := call.With(wire)
	again.Begin(2)
	for _, b := range []*call.Box{lazy.Box(), fn, wire, again} {
		b.Attempt.Hold()
		b.Attempt.Go()
	}
	if s != (stopwatch{4, 4}) {
		t.Errorf("told %+v, want 4 of each", s)
	}
	var none *call.Attempt
	for _, a := range []*call.Attempt{none, {N: 1}} {
		a.Hold()
		a.Go()
	}
}

func TestAttemptView(t *testing.T) {
	t.Parallel()
	var a call.Attempt
	if a.View() != nil {
		t.Error("a view out of nothing")
	}
	a.AddView("one")
	if a.View() != "one" {
		t.Errorf("View = %v, want one", a.View())
	}
	a.AddView("two")
	if a.View() != nil {
		t.Error("an ambiguous view was given out")
	}
}

func TestItem(t *testing.T) {
	t.Parallel()
	var it call.Item
	no := errors.New("no")
	it.Refuse(no)
	if it.Refusal() != no {
		t.Error("the refusal is lost")
	}
	it.Pass()
	it.Sent()
	it.Fail(no)
	if it.Refusal() != nil || it.Calls() != 1 || it.Failure() != no {
		t.Errorf("refusal %v, calls %d, failure %v", it.Refusal(), it.Calls(), it.Failure())
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	outer := call.NewLimit(5, nil)
	inner := call.NewLimit(3, outer)
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for range 64 {
		wg.Go(func() {
			if inner.Take(nil) {
				mu.Lock()
				granted++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if granted != 3 {
		t.Errorf("granted %d of an inner limit of 3", granted)
	}
	take := func(l *call.Limit) (n int) {
		for l.Take(nil) {
			n++
		}
		return n
	}
	if n := take(outer); n != 2 {
		t.Errorf("%d more from the outer limit of 5, want 2", n)
	}
	inner.Give(nil)
	if n := take(inner); n != 1 {
		t.Errorf("%d more from the inner limit, want the one given back", n)
	}
	// Up to a limit around it that is taken already: only what is inside.
	inner = call.NewLimit(2, outer)
	for i := range 3 {
		if granted := inner.Take(outer); granted != (i < 2) {
			t.Errorf("call %d of an inner limit of 2: granted %v", i+1, granted)
		}
	}
	inner.Give(outer)
	if !inner.Take(outer) || outer.Take(nil) {
		t.Error("Give up to a limit gives to that limit too, or nothing")
	}
	if !(*call.Limit)(nil).Take(nil) || !outer.Take(outer) {
		t.Error("no limit must grant")
	}
}

func TestUsed(t *testing.T) {
	t.Parallel()
	var u call.Used
	if _, told := u.Sum(); told {
		t.Error("told before anything was added")
	}
	u.See(40)
	u.See(2)
	if n, told := u.Sum(); n != 42 || !told {
		t.Errorf("Sum = %d, %v, want what was seen, 42", n, told)
	}
	u.Add(0)
	if n, told := u.Sum(); n != 0 || !told {
		t.Errorf("Sum = %d, %v, want 0, true", n, told)
	}
}

func TestCallerGaveUp(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("shutting down"))
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	if call.CallerGaveUp(t.Context()) || !call.CallerGaveUp(cancelled) || call.CallerGaveUp(late) {
		t.Error("want only the cancelled context")
	}
}

type answers struct {
	refused string
	unsent  bool
	at      time.Time
	hasAt   bool
	status  int
	calls   int
	inner   error
}

func (a *answers) Error() string              { return "answers" }
func (a *answers) Unwrap() error              { return a.inner }
func (a *answers) RefusedBy() string          { return a.refused }
func (a *answers) NotSent() bool              { return a.unsent }
func (a *answers) RetryAt() (time.Time, bool) { return a.at, a.hasAt }
func (a *answers) StatusCode() int            { return a.status }
func (a *answers) Attempts() int              { return a.calls }

type final struct{ error }

func (final) Retryable() bool { return false }

// selfish wraps itself: a cycle must not hang a reader.
type selfish struct{}

func (s *selfish) Error() string { return "selfish" }
func (s *selfish) Unwrap() error { return s }

func TestBehaviours(t *testing.T) {
	t.Parallel()
	at := time.Unix(0, 0).UTC() // the mock clock's epoch is a time like any other
	deep := &answers{refused: "breaker", unsent: true, at: at, hasAt: true, status: 429, calls: 2}
	for name, err := range map[string]error{
		"bare":    deep,
		"wrapped": fmt.Errorf("item 7: %w", deep),
		// A wrapper of the same kind without an answer passes the question on.
		"silent wrapper": &answers{inner: deep},
		"joined":         errors.Join(errors.New("first"), &answers{}, deep),
	} {
		if got := call.RefusedBy(err); got != "breaker" {
			t.Errorf("%s: RefusedBy = %q", name, got)
		}
		if !call.NotSent(err) {
			t.Errorf("%s: NotSent = false", name)
		}
		if got, ok := call.RetryAt(err); !ok || !got.Equal(at) {
			t.Errorf("%s: RetryAt = %v, %v", name, got, ok)
		}
		if got := call.StatusCode(err); got != 429 {
			t.Errorf("%s: StatusCode = %d", name, got)
		}
		if got := call.Attempts(err); got != 2 {
			t.Errorf("%s: Attempts = %d", name, got)
		}
	}
	for name, err := range map[string]error{"nil": nil, "plain": errors.New("x"), "cycle": &selfish{}} {
		if call.RefusedBy(err) != "" || call.NotSent(err) || call.StatusCode(err) != 0 || call.Attempts(err) != 0 {
			t.Errorf("%s: an answer out of nothing", name)
		}
		if _, said := call.Retryable(err); said {
			t.Errorf("%s: Retryable says something", name)
		}
		if waited, err := call.Await(t.Context(), err); waited || err != nil {
			t.Errorf("%s: Await = %v, %v", name, waited, err)
		}
	}
	if again, said := call.Retryable(fmt.Errorf("x: %w", final{errors.New("y")})); again || !said {
		t.Errorf("Retryable = %v, %v, want false, true", again, said)
	}
}

type gate struct{ open chan struct{} }

func (g *gate) Error() string { return "closed" }
func (g *gate) Await(ctx context.Context) error {
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	g := &gate{open: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if waited, err := call.Await(ctx, fmt.Errorf("x: %w", g)); !waited || !errors.Is(err, context.Canceled) {
		t.Errorf("Await = %v, %v, want the context's error", waited, err)
	}
	close(g.open)
	if waited, err := call.Await(t.Context(), g); !waited || err != nil {
		t.Errorf("Await = %v, %v, want true, nil", waited, err)
	}
}

// A job names its owner once, for all its items: they must not share what is
// known of one of them.
func TestSettingBeginsNoItem(t *testing.T) {
	t.Parallel()
	job := call.Setting(call.Setting(t.Context()))
	job.Owner = "nightly"
	one, two := call.With(job), call.With(job)
	if one.Item == two.Item || one.Owner != "nightly" {
		t.Error("two calls under one setting share an item")
	}
	one.Item.Sent()
	within := call.Setting(one)
	if within.Item != one.Item || call.With(within).Item != one.Item {
		t.Error("a setting within an item lost the item")
	}
}

func TestStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("shutting down")
	cancel(why)
	err := call.Stopped(ctx, "breaker: not asked")
	if !errors.Is(err, why) || !errors.Is(err, context.Canceled) || !call.NotSent(err) || err.Error() != "breaker: not asked: shutting down" {
		t.Errorf("err = %v, not sent %v", err, call.NotSent(err))
	}
}

// A Lazy makes one Box, and only for who asks.
func TestLazy(t *testing.T) {
	t.Parallel()
	type key struct{}
	l := &call.Lazy{Context: context.WithValue(t.Context(), key{}, "v")}
	if l.Value(key{}) != "v" || l.Asked() != nil {
		t.Error("a foreign key makes a Box, or is lost")
	}
	var wg sync.WaitGroup
	var boxes [8]*call.Box
	for i := range boxes {
		wg.Go(func() { boxes[i] = call.From(l) })
	}
	wg.Wait()
	b := l.Box()
	for _, got := range boxes {
		if got != b || l.Asked() != b {
			t.Error("two Boxes")
		}
	}
	if !b.Retried || b.Attempt == nil || b.Attempt.N != 1 || b.Item == nil || b.Value(key{}) != "v" {
		t.Errorf("the Box is %+v", b)
	}
}
