package deadletter

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
)

// Memory is a [Store] that ends with the process, for tests and for batches
// that only want the report. The zero value is not usable; see [NewMemory].
type Memory struct {
	cfg StoreConfig

	mu sync.Mutex
	ix *index
}

// NewMemory returns an empty store in memory.
func NewMemory() *Memory { return newMemory(StoreConfig{}) }

// Memory returns an empty store in memory. It uses MaxPayload and Clock. The
// error names every field that is out of range.
func (c StoreConfig) Memory() (*Memory, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return newMemory(c), nil
}

func newMemory(c StoreConfig) *Memory { return &Memory{cfg: c.filled(), ix: newIndex()} }

// change runs fn on the letters and keeps what it did, or nothing on an error.
func (m *Memory) change(ctx context.Context, fn func(*tx) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("deadletter: %w", context.Cause(ctx))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &tx{
		ix: m.ix, over: map[string]*letter{}, seq: m.ix.seq, now: m.cfg.Clock.Now(),
		load:  func(l *letter) (Record, error) { return *l.rec, nil },
		write: func(*entry, []byte, []byte) (place, error) { return place{}, nil },
	}
	if err := t.run(fn); err != nil {
		return err
	}
	for id, l := range t.over {
		m.ix.set(id, l)
	}
	m.ix.seq = max(m.ix.seq, t.seq)
	return nil
}

// Put is [Writer].
func (m *Memory) Put(ctx context.Context, r Record) error {
	if err := m.cfg.fits(r); err != nil {
		return err
	}
	r = prepared(r, m.cfg.Clock.Now())
	r.Payload = slices.Clone(r.Payload)
	return m.change(ctx, func(t *tx) error { return t.put(r, nil, nil) })
}

// record returns the record of l. Only the payload is left out when it is not
// wanted; nothing is shared with the store.
func (m *Memory) record(l *letter, now time.Time, payload bool) Record {
	r := l.rec.clone()
	if payload {
		r.Payload = slices.Clone(r.Payload)
	} else {
		r.Payload = nil
	}
	l.overlay(&r, now)
	return r
}

// Get is [Reader].
func (m *Memory) Get(ctx context.Context, id string) (Record, error) {
	if ctx.Err() != nil {
		return Record{}, fmt.Errorf("deadletter: %w", context.Cause(ctx))
	}
	m.mu.Lock()
	l := m.ix.letters[id]
	m.mu.Unlock()
	if l == nil {
		return Record{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return m.record(l, m.cfg.Clock.Now(), true), nil
}

// List is [Reader].
func (m *Memory) List(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		now := m.cfg.Clock.Now()
		m.mu.Lock()
		found := m.ix.find(f, unresolved, now)
		m.mu.Unlock()
		for _, l := range found {
			if ctx.Err() != nil {
				yield(Record{}, fmt.Errorf("deadletter: %w", context.Cause(ctx)))
				return
			}
			if !yield(m.record(l, now, false), nil) {
				return
			}
		}
	}
}

// Stats is [Reader].
func (m *Memory) Stats(ctx context.Context, f Filter) (Summary, error) {
	if ctx.Err() != nil {
		return Summary{}, fmt.Errorf("deadletter: %w", context.Cause(ctx))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ix.sum(f, m.cfg.Clock.Now()), nil
}

// Claim is [Claimer].
func (m *Memory) Claim(ctx context.Context, req ClaimReq) ([]Claim, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	var got []*letter
	err := m.change(ctx, func(t *tx) (err error) {
		got, err = t.claim(req.filled())
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]Claim, len(got))
	for i, l := range got {
		out[i] = Claim{Record: m.record(l, time.Time{}, true), Token: Token{ID: l.id, Seq: l.seq}}
	}
	return out, nil
}

// Extend is [Claimer].
func (m *Memory) Extend(ctx context.Context, tok Token, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("deadletter: a lease of %v", d)
	}
	return m.change(ctx, func(t *tx) error { return t.extend(tok, d) })
}

// Resolve is [Claimer].
func (m *Memory) Resolve(ctx context.Context, tok Token, o Outcome) error {
	if err := o.check(); err != nil {
		return err
	}
	return m.change(ctx, func(t *tx) error { return t.resolve(tok, o) })
}

// Purge is [Claimer].
func (m *Memory) Purge(ctx context.Context, f Filter) (n int, err error) {
	err = m.change(ctx, func(t *tx) (err error) {
		n, err = t.purge(f)
		return err
	})
	return n, err
}
