package budget_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/budget"
)

// noon is the start of most tests.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func mockAt(t time.Time) *clock.Mock {
	m := clock.NewMock()
	m.Set(t)
	return m
}

func mustNew(t testing.TB, c budget.Config) *budget.Budget {
	t.Helper()
	b, err := budget.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustReserve(t testing.TB, b *budget.Budget, owner string, n int64) *budget.Reservation {
	t.Helper()
	r, err := b.Reserve(context.Background(), owner, n)
	if err != nil {
		t.Fatalf("Reserve(%q, %d): %v", owner, n, err)
	}
	return r
}

func mustRefuse(t testing.TB, b *budget.Budget, owner string, n int64, reason error) *budget.RefusedError {
	t.Helper()
	_, err := b.Reserve(context.Background(), owner, n)
	var e *budget.RefusedError
	if !errors.As(err, &e) || !errors.Is(err, reason) {
		t.Fatalf("Reserve(%q, %d): %v, want %v", owner, n, err, reason)
	}
	return e
}

func spent(t testing.TB, b *budget.Budget) int64 {
	t.Helper()
	st, err := b.Status(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return st.Spent
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("%s (-got +want):\n%s", what, d)
	}
}

// recorder keeps events.
type recorder struct {
	mu     sync.Mutex
	events []budget.Event
}

func (r *recorder) add(e budget.Event) {
	r.mu.Lock()
	r.events = append(r.events, e)
	r.mu.Unlock()
}

func (r *recorder) kinds() []budget.EventKind {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ks []budget.EventKind
	for _, e := range r.events {
		ks = append(ks, e.Kind)
	}
	return ks
}

// shaky is a store that can be told to fail.
type shaky struct {
	budget.Store
	mu    sync.Mutex
	fails int   // the next trips that fail
	err   error // with this
	hook  func([]*budget.Change)
	trips int
}

var errDown = errors.New("connection refused")

func (s *shaky) failing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trips++
	if s.fails > 0 {
		s.fails--
		if s.err != nil {
			return s.err
		}
		return errDown
	}
	return nil
}

func (s *shaky) Apply(ctx context.Context, cs []*budget.Change) error {
	if err := s.failing(); err != nil {
		return err
	}
	if s.hook != nil {
		s.hook(cs)
	}
	return s.Store.Apply(ctx, cs)
}

func (s *shaky) Load(ctx context.Context, keys []string) ([]int64, error) {
	if err := s.failing(); err != nil {
		return nil, err
	}
	return s.Store.Load(ctx, keys)
}

func (s *shaky) fail(n int) {
	s.mu.Lock()
	s.fails = n
	s.mu.Unlock()
}
