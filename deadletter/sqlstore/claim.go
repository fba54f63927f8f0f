package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// Claim is [deadletter.Claimer]. Letters that another client is changing at this
// moment are left out. When the error says that it was perhaps done, nobody has
// the letters until the lease ends.
func (s *Store) Claim(ctx context.Context, req deadletter.ClaimReq) ([]deadletter.Claim, error) {
	req, err := req.Filled()
	if err != nil {
		return nil, err
	}
	if len(req.By) > maxBy {
		return nil, fmt.Errorf("%w: claimer's name of %d bytes, limit %d", deadletter.ErrTooLarge, len(req.By), maxBy)
	}
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	req.Filter.After, req.Filter.Limit = deadletter.Cursor{}, 0
	got, err := s.take(ctx, req, now)
	if err != nil {
		return nil, s.unsure(ctx, "claim", err)
	}
	return s.claims(ctx, got, req.Order)
}

// take claims letters and returns them as they are then. Where others change
// those that match all the time, it tries again before it says that there is
// none: an empty claim ends a replay.
func (s *Store) take(ctx context.Context, req deadletter.ClaimReq, now time.Time) ([]*row, error) {
	var waited time.Duration
	for n := 1; ; n++ {
		seq, err := s.draw(ctx)
		if err != nil {
			return nil, err
		}
		got, err := s.takeOnce(ctx, req, seq, now)
		if err != nil && faultOf(err) == unknown && ctx.Err() == nil {
			// A lost reply: the number tells what was claimed, if anything was.
			if done, rerr := s.rows(ctx, s.numbered(seq)); rerr == nil && len(done) > 0 {
				return done, nil
			}
		}
		if err != nil || len(got) > 0 {
			return got, err
		}
		q := s.query("SELECT 1 FROM " + s.t.letters)
		if err := q.available(req.Filter, now); err != nil {
			return nil, err
		}
		some := false
		err = s.each(ctx, q.add(" LIMIT 1"), func() { some = false }, func(scanner) error {
			some = true
			return nil
		})
		if err != nil || !some || n > 5 || !pause(ctx, n, &waited) {
			return nil, err
		}
	}
}

// draw returns the next claim number of the store.
func (s *Store) draw(ctx context.Context) (int64, error) {
	if s.d != MySQL {
		q := s.query("INSERT INTO " + s.t.claims + " AS c (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = c.n + 1 RETURNING n")
		var n int64
		err := s.try(ctx, func() error { return s.db.QueryRowContext(ctx, q.text.String()).Scan(&n) })
		return n, err
	}
	q := s.query("INSERT INTO " + s.t.claims + " (id, n) VALUES (1, LAST_INSERT_ID(1)) ON DUPLICATE KEY UPDATE n = LAST_INSERT_ID(n + 1)")
	var n int64
	err := s.try(ctx, func() error {
		res, err := s.db.ExecContext(ctx, q.text.String())
		if err == nil {
			n, err = res.LastInsertId()
		}
		return err
	})
	if err == nil && n <= 0 {
		err = errors.New("the database tells no claim number")
	}
	return n, err
}

// available appends the condition of letters that may be claimed.
func (q *query) available(f deadletter.Filter, now time.Time) error {
	return q.where(f, []deadletter.State{deadletter.Dead}, claimable, now)
}

// takeOnce is one statement, so that no lock outlives it. It passes over what
// others have locked, and over what was claimed by a later number meanwhile:
// the numbers of a letter only grow.
func (s *Store) takeOnce(ctx context.Context, req deadletter.ClaimReq, seq int64, now time.Time) ([]*row, error) {
	set := " SET claim_until = ?, claim_seq = ?, claimed_by = ?, replays = replays + 1, ver = ?"
	vals := []any{micros(now.Add(req.Lease)), seq, req.By, rand.Int64()}
	q := s.query("")
	choose := func(lock string) error {
		q.add("SELECT id FROM " + s.t.letters)
		if err := q.available(req.Filter, now); err != nil {
			return err
		}
		q.add(" AND claim_seq < ?"+orderBy(req.Order)+" LIMIT ?"+lock, seq, int64(req.N))
		return nil
	}
	var err error
	switch s.d {
	case PostgreSQL:
		// A subquery in place of the CTE may run more than once and lock more.
		q.add("WITH c AS MATERIALIZED (")
		err = choose(" FOR UPDATE SKIP LOCKED")
		q.add(") UPDATE "+s.t.letters+" AS l"+set+" FROM c WHERE l.id = c.id RETURNING l."+strings.ReplaceAll(columns, ", ", ", l."), vals...)
	case SQLite:
		q.add("UPDATE "+s.t.letters+set+" WHERE id IN (", vals...)
		err = choose("")
		q.add(") RETURNING " + columns)
	case MySQL:
		q.add("UPDATE " + s.t.letters + " l JOIN (")
		err = choose(" FOR UPDATE SKIP LOCKED")
		q.add(") c ON l.id = c.id"+set, vals...)
	}
	if err != nil {
		return nil, err
	}
	if s.d != MySQL {
		return s.rows(ctx, q)
	}
	n, err := s.exec(ctx, q)
	if err != nil || n == 0 {
		return nil, err
	}
	return s.rows(ctx, s.numbered(seq))
}

// numbered asks for the letters of one claim.
func (s *Store) numbered(seq int64) *query {
	return s.query("SELECT "+columns+" FROM "+s.t.letters+" WHERE claim_seq = ? AND claim_until > ?", seq, zeroMicros)
}

// claims returns the letters with their payloads, in the order of the request.
func (s *Store) claims(ctx context.Context, got []*row, o deadletter.Order) ([]deadletter.Claim, error) {
	out := make([]deadletter.Claim, 0, len(got))
	var errs []error
	for _, l := range got {
		tok := deadletter.Token{ID: l.id, Seq: l.seq}
		r, err := l.record(time.Time{})
		if err == nil {
			err = s.attach(ctx, l, &r)
		}
		if err == nil {
			out = append(out, deadletter.Claim{Record: r, Token: tok})
			continue
		}
		if errors.Is(err, deadletter.ErrCorrupt) {
			err = s.setAside(ctx, tok, err)
		} else {
			err = errors.Join(err, s.giveBack(ctx, tok))
		}
		if err != nil {
			errs = append(errs, s.fail(ctx, "claim", err))
		}
	}
	if len(out) == 0 {
		return nil, errors.Join(errs...)
	}
	for _, err := range errs {
		s.log.Error("deadletter/sqlstore: a letter was claimed and cannot be read", "error", err)
	}
	slices.SortFunc(out, func(a, b deadletter.Claim) int {
		byAge := cmp.Or(a.Record.LastFailedAt.Compare(b.Record.LastFailedAt), strings.Compare(a.Record.ID, b.Record.ID))
		if o == deadletter.Cheapest {
			return cmp.Or(cmp.Compare(a.Record.EstTokens, b.Record.EstTokens), cmp.Compare(a.Record.PayloadSize, b.Record.PayloadSize), byAge)
		}
		return byAge
	})
	return out, nil
}

// giveBackTime bounds the end of a claim that nobody learned of.
const giveBackTime = 5 * time.Second

// giveBack ends the claim of a letter that could not be read, perhaps because ctx
// has ended: nobody has tried it, so it does not count.
func (s *Store) giveBack(ctx context.Context, tok deadletter.Token) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
	defer cancel()
	err := s.Resolve(ctx, tok, deadletter.Outcome{Verb: deadletter.Release})
	if errors.Is(err, deadletter.ErrClaimLost) {
		return nil
	}
	return err
}

// setAside quarantines a claimed letter that is damaged: it cannot be replayed,
// so out of the way with it, but not away. It is no error when it was taken away
// meanwhile, which is why a payload may be missing.
func (s *Store) setAside(ctx context.Context, tok deadletter.Token, damage error) error {
	err := s.Resolve(ctx, tok, deadletter.Outcome{Verb: deadletter.Quarantine, Reason: "cannot be read: " + damage.Error()})
	if errors.Is(err, deadletter.ErrCorrupt) {
		// Nor can a reason be written into it.
		_, err = s.exec(ctx, s.query("UPDATE "+s.t.letters+" SET base = 'quarantined', claim_until = ?, ver = ? WHERE id = ? AND claim_seq = ? AND claim_until > ?",
			zeroMicros, rand.Int64(), tok.ID, tok.Seq, zeroMicros))
	}
	if errors.Is(err, deadletter.ErrClaimLost) {
		return nil
	}
	return errors.Join(damage, err)
}

// held returns the letter of a claim that nobody else has taken since: a lease
// that ran out is still the claimer's until then, as his result is there.
func held(old *row, tok deadletter.Token) (deadletter.Record, error) {
	if old == nil || !old.claimed() || old.seq != tok.Seq {
		return deadletter.Record{}, deadletter.ErrClaimLost
	}
	return old.record(time.Time{})
}

// Extend is [deadletter.Claimer].
func (s *Store) Extend(ctx context.Context, tok deadletter.Token, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("deadletter/sqlstore: a lease of %v", d)
	}
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	return s.change(ctx, "extend", tok.ID, now, func(old *row) (next, error) {
		r, err := held(old, tok)
		if err != nil {
			return next{}, err
		}
		r.ClaimUntil = now.Add(d)
		return next{rec: r, base: old.base, payload: old.payload}, nil
	})
}

// Resolve is [deadletter.Claimer].
func (s *Store) Resolve(ctx context.Context, tok deadletter.Token, o deadletter.Outcome) error {
	// An outcome that cannot be is told before anything is looked up.
	if _, err := deadletter.Resolve(deadletter.Record{}, deadletter.Dead, o, time.Time{}); err != nil {
		return err
	}
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	return s.change(ctx, "resolve", tok.ID, now, func(old *row) (next, error) {
		r, err := held(old, tok)
		if err != nil {
			return next{}, err
		}
		r, err = deadletter.Resolve(r, old.base, o, now)
		return next{rec: r, payload: old.payload}, err
	})
}

// purgeAtOnce is how many letters one statement of a Purge removes.
const purgeAtOnce = 500

// Purge is [deadletter.Claimer]. It also removes the payloads that clients have
// left behind, a day after they did. An error may come after some are gone.
func (s *Store) Purge(ctx context.Context, f deadletter.Filter) (int, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	f.After, f.Limit = deadletter.Cursor{}, purgeAtOnce
	gone := 0
	for {
		found, err := s.list(ctx, f, resolved, unclaimed, now)
		if err != nil {
			return gone, err
		}
		if len(found) == 0 {
			break
		}
		n, err := s.purge(ctx, found)
		gone += n
		if err != nil {
			return gone, s.unsure(ctx, "purge", err)
		}
		last := found[len(found)-1]
		f.After = deadletter.Cursor{FailedAt: timeOf(last.last), ID: last.id}
	}
	if err := s.sweep(ctx, now); err != nil {
		return gone, s.unsure(ctx, "purge", err)
	}
	return gone, nil
}

// purge removes letters that are still as they were found, then their payloads.
func (s *Store) purge(ctx context.Context, found []*row) (int, error) {
	q := s.query("DELETE FROM " + s.t.letters + " WHERE ")
	keys := s.query("DELETE FROM "+s.t.payloads+" WHERE "+s.unused()+" AND id IN (?", "") // never nothing
	for i, l := range found {
		if i > 0 {
			q.add(" OR ")
		}
		q.add("id = ? AND ver = ?", l.id, l.ver)
		if l.payload != "" {
			keys.add(", ?", l.payload)
		}
	}
	n, err := s.exec(ctx, q)
	if err != nil {
		return 0, err
	}
	_, err = s.exec(ctx, keys.add(")"))
	return int(n), err
}
