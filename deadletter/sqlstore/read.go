package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// Get is [deadletter.Reader].
func (s *Store) Get(ctx context.Context, id string) (deadletter.Record, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return deadletter.Record{}, err
	}
	for {
		l, err := s.find(ctx, id)
		if err != nil {
			return deadletter.Record{}, s.fail(ctx, "get", err)
		}
		if l == nil {
			return deadletter.Record{}, fmt.Errorf("%w: %q", deadletter.ErrNotFound, id)
		}
		r, err := l.record(now)
		if err != nil {
			return deadletter.Record{}, err
		}
		if err = s.attach(ctx, l, &r); err == nil {
			return r, nil
		}
		// The payload may have been replaced since the letter was read.
		newer, ferr := s.find(ctx, id)
		if ferr != nil {
			err = ferr // nobody knows, so it is not called damaged
		}
		if ferr != nil || newer != nil && newer.payload == l.payload {
			return deadletter.Record{}, s.fail(ctx, "get", err)
		}
	}
}

// List is [deadletter.Reader]. What it yields is read before the first is
// yielded, so that the loop may use the store also over a single connection:
// page large lists by Limit and After.
func (s *Store) List(ctx context.Context, f deadletter.Filter) iter.Seq2[deadletter.Record, error] {
	return func(yield func(deadletter.Record, error) bool) {
		now, err := s.begin(ctx)
		var found []*row
		if err == nil {
			found, err = s.list(ctx, f, unresolved, all, now)
		}
		if err != nil {
			yield(deadletter.Record{}, err)
			return
		}
		for i, l := range found {
			if ctx.Err() != nil {
				yield(deadletter.Record{}, fmt.Errorf("deadletter/sqlstore: %w", context.Cause(ctx)))
				return
			}
			found[i] = nil // its text is not needed any more
			if !yield(l.record(now)) {
				return
			}
		}
	}
}

// list reads the letters of a filter, in the order of List.
func (s *Store) list(ctx context.Context, f deadletter.Filter, states, but []deadletter.State, now time.Time) ([]*row, error) {
	q := s.query("SELECT " + columns + " FROM " + s.t.letters)
	if err := q.where(f, states, but, now); err != nil {
		return nil, err
	}
	q.add(orderBy(deadletter.Oldest))
	if f.Limit > 0 {
		q.add(" LIMIT ?", int64(f.Limit))
	}
	found, err := s.rows(ctx, q)
	if err != nil {
		return nil, s.fail(ctx, "list", err)
	}
	return found, nil
}

// rows runs a query whose columns are those of scan.
func (s *Store) rows(ctx context.Context, q *query) ([]*row, error) {
	var found []*row
	err := s.each(ctx, q, func() { found = nil }, func(from scanner) error {
		r, err := scan(from)
		found = append(found, r)
		return err
	})
	return found, err
}

// each runs a query and calls fn for every row, after start. Both are called
// again when the query has to be.
func (s *Store) each(ctx context.Context, q *query, start func(), fn func(scanner) error) error {
	return s.try(ctx, func() error {
		start()
		rows, err := s.db.QueryContext(ctx, q.text.String(), q.args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			if err := fn(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// Stats is [deadletter.Reader]. It reads the columns of all letters that match,
// but neither records nor payloads, and leaves Disk at 0.
func (s *Store) Stats(ctx context.Context, f deadletter.Filter) (deadletter.Summary, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return deadletter.Summary{}, err
	}
	f.After, f.Limit = deadletter.Cursor{}, 0
	q := s.query("SELECT id, queue, signature, sig_text, status, base, claim_until, first_failed, last_failed, est_tokens, payload_size FROM " + s.t.letters)
	if err := q.where(f, all, all, now); err != nil {
		return deadletter.Summary{}, err
	}
	var t *tally
	err = s.each(ctx, q, func() { t = newTally() }, func(from scanner) error {
		var id, queue, sig, text []byte
		var base string
		var status int
		var until, first, last, est, size int64
		if err := from.Scan(&id, &queue, &sig, &text, &status, &base, &until, &first, &last, &est, &size); err != nil {
			return err
		}
		st := deadletter.State(base)
		if until > micros(now) {
			st = deadletter.Claimed
		}
		t.add(st, string(queue), status, deadletter.Group{
			Signature: string(sig), Text: string(text), Count: 1, First: timeOf(first), Last: timeOf(last),
			Sample: string(id), Bytes: size, EstTokens: est,
		})
		return nil
	})
	if err != nil {
		return deadletter.Summary{}, s.fail(ctx, "stats", err)
	}
	return t.summary(), nil
}

// tally sums letters up.
type tally struct {
	deadletter.Summary
	groups map[string]*deadletter.Group
	oldest map[string]time.Time // the last failure of a group's sample
}

func newTally() *tally {
	return &tally{
		Summary: deadletter.Summary{
			States: map[deadletter.State]int{}, Queues: map[string]map[deadletter.State]int{}, Statuses: map[int]int{},
		},
		groups: map[string]*deadletter.Group{}, oldest: map[string]time.Time{},
	}
}

// add counts a letter, told as a group of one.
func (t *tally) add(st deadletter.State, queue string, status int, l deadletter.Group) {
	t.States[st]++
	if t.Queues[queue] == nil {
		t.Queues[queue] = map[deadletter.State]int{}
	}
	t.Queues[queue][st]++
	if slices.Contains(resolved, st) {
		return
	}
	t.Statuses[status]++
	t.Bytes += l.Bytes
	t.EstTokens += l.EstTokens
	if t.Oldest.IsZero() || l.First.Before(t.Oldest) {
		t.Oldest = l.First
	}
	g := t.groups[l.Signature]
	if g == nil {
		t.groups[l.Signature], t.oldest[l.Signature] = &l, l.Last
		return
	}
	g.Count++
	g.Bytes += l.Bytes
	g.EstTokens += l.EstTokens
	if l.First.Before(g.First) {
		g.First = l.First
	}
	if l.Last.After(g.Last) {
		g.Last = l.Last
	}
	if c := cmp.Or(l.Last.Compare(t.oldest[l.Signature]), strings.Compare(l.Sample, g.Sample)); c < 0 {
		t.oldest[l.Signature] = l.Last
		g.Sample, g.Text = l.Sample, l.Text
	}
}

func (t *tally) summary() deadletter.Summary {
	t.Groups = make([]deadletter.Group, 0, len(t.groups))
	for _, g := range t.groups {
		t.Groups = append(t.Groups, *g)
	}
	slices.SortFunc(t.Groups, func(a, b deadletter.Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Signature, b.Signature))
	})
	return t.Summary
}
