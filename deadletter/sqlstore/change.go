package sqlstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// next is a letter as it is to become.
type next struct {
	rec     deadletter.Record
	base    deadletter.State // of a claimed one
	payload string           // the key of the payload it has
	body    []byte           // a new payload instead
}

// lostReplies is how often a change looks again whether it was done, after its
// connection broke.
const lostReplies = 3

// errContended says that others were faster all the time.
var errContended = errors.New("the letter changed again and again")

// change reads the letter with this id, lets fn say what becomes of it, and
// writes that if the letter is still as it was read; else it begins anew. So no
// transaction is open between two statements, and a client that stops anywhere
// holds no lock. fn gets nil when there is no letter, and must be pure.
//
// Every change leaves a number of its own in the letter. When the reply to the
// write is lost, the number tells whether it was done.
func (s *Store) change(ctx context.Context, what, id string, now time.Time, fn func(old *row) (next, error)) error {
	var (
		ver    = rand.Int64()
		key    string   // of the new payload, once it is stored
		spare  []string // payloads to remove at the end, but for the one that the letter has
		before *row     // what the last write was to replace
		to     next
		lost   int
		waited time.Duration
	)
	for n := 1; ; n++ {
		old, err := s.find(ctx, id)
		if err == nil && old != nil && old.ver == ver {
			s.clear(ctx, before, spare, old.payload)
			return nil
		}
		if err == nil {
			before = old
			if to, err = fn(old); err != nil {
				return err
			}
			if to.body != nil && key == "" {
				if key, err = s.upload(ctx, id, to.body, now); err == nil {
					spare = append(spare, key)
				}
			}
			if to.body != nil {
				to.payload = key
			}
		}
		if err == nil {
			var done bool
			if done, err = s.write(ctx, id, old, to, ver); done {
				s.clear(ctx, old, spare, to.payload)
				return nil
			}
			if err != nil {
				// Perhaps the letter has the payload, and then whoever replaced it
				// meanwhile has removed that.
				key = ""
				if old != nil {
					spare = append(spare, old.payload)
				}
			}
		}
		if err != nil {
			if lost++; faultOf(err) != unknown || lost > lostReplies || ctx.Err() != nil {
				return s.unsure(ctx, what, err)
			}
		}
		if !pause(ctx, n, &waited) {
			if err == nil {
				err = errContended
			}
			return s.unsure(ctx, what, err)
		}
	}
}

// clear removes the payload that a change has replaced, and the spare ones. What
// stays behind is removed by a later Purge.
func (s *Store) clear(ctx context.Context, old *row, spare []string, kept string) {
	if old != nil {
		spare = append(spare, old.payload)
	}
	var gone []string
	for _, key := range spare {
		if key != "" && key != kept {
			gone = append(gone, key)
		}
	}
	if err := s.drop(ctx, gone); err != nil {
		s.log.Warn("deadletter/sqlstore: payload not removed, the next Purge will", "error", err)
	}
}

// write replaces old, or the letter that is not there, by to. It reports whether
// it did: not when somebody else was first.
func (s *Store) write(ctx context.Context, id string, old *row, to next, ver int64) (bool, error) {
	names, vals, err := values(to, ver)
	if err != nil {
		return false, err
	}
	q := s.query("")
	if old == nil {
		q.insert(s.t.letters, append(names, "id"), append(vals, id))
		if s.d != MySQL { // whose INSERT IGNORE would also cut what is too long
			q.add(" ON CONFLICT (id) DO NOTHING")
		}
	} else {
		q.add("UPDATE " + s.t.letters + " SET ")
		for i, name := range names {
			q.add(comma(i)+name+" = ?", vals[i])
		}
		q.add(" WHERE id = ? AND ver = ?", id, old.ver)
	}
	n, err := s.exec(ctx, q)
	if err != nil && old == nil && faultOf(err) == taken {
		return false, nil
	}
	return n == 1, err
}

// insert appends the statement that makes one row.
func (q *query) insert(table string, names []string, vals []any) {
	q.add("INSERT INTO " + table + " (")
	for i, name := range names {
		q.add(comma(i) + name)
	}
	q.add(") VALUES (")
	for i := range names {
		q.add(comma(i)+"?", vals[i])
	}
	q.add(")")
}
