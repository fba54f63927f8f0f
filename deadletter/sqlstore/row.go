package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// row is a letter as the table holds it. rec is the record without its payload
// as JSON; of what a claim changes the columns are right, not rec.
type row struct {
	id, payload string
	ver         int64
	base        deadletter.State // the state, or the one a claim ends in
	until       int64            // the claim ends; zeroMicros = there is none
	seq         int64
	by          string
	replays     int
	size        int64
	first, last int64
	rec         []byte
}

// columns are what scan reads.
const columns = "id, payload, ver, base, claim_until, claim_seq, claimed_by, replays, payload_size, first_failed, last_failed, rec"

type scanner interface{ Scan(into ...any) error }

func scan(from scanner) (*row, error) {
	r := new(row)
	var id, payload, by []byte
	var base string
	err := from.Scan(&id, &payload, &r.ver, &base, &r.until, &r.seq, &by, &r.replays, &r.size, &r.first, &r.last, &r.rec)
	r.id, r.payload, r.by, r.base = string(id), string(payload), string(by), deadletter.State(base)
	return r, err
}

// claimed reports whether somebody has the letter, be it that his lease is over.
func (r *row) claimed() bool { return r.until != zeroMicros }

// record returns the record, in the state at now. The zero time is before the
// end of every lease.
func (r *row) record(now time.Time) (deadletter.Record, error) {
	var out deadletter.Record
	err := json.Unmarshal(r.rec, &out)
	if err == nil && out.ID != r.id {
		err = fmt.Errorf("it is the record of %q", out.ID)
	}
	if err != nil {
		return deadletter.Record{}, fmt.Errorf("deadletter/sqlstore: letter %q: %w: %w", r.id, deadletter.ErrCorrupt, err)
	}
	out.State, out.Replays, out.ClaimSeq = r.base, r.replays, r.seq
	out.ClaimedBy, out.ClaimUntil = "", time.Time{}
	if r.until > micros(now) {
		out.State, out.ClaimedBy, out.ClaimUntil = deadletter.Claimed, r.by, timeOf(r.until)
	}
	return out, nil
}

// remains is record for a letter whose rec is damaged: what the columns tell.
func (r *row) remains() deadletter.Record {
	out := deadletter.Record{
		ID: r.id, State: r.base, Replays: r.replays, ClaimSeq: r.seq, Failures: 1,
		FirstFailedAt: timeOf(r.first), LastFailedAt: timeOf(r.last),
	}
	if r.claimed() {
		out.State, out.ClaimedBy, out.ClaimUntil = deadletter.Claimed, r.by, timeOf(r.until)
	}
	return out
}

// values are the columns of a letter with their values, all but the id.
func values(to next, ver int64) ([]string, []any, error) {
	r, base := to.rec, to.base
	if r.State != deadletter.Claimed {
		base = r.State
	}
	r.Payload = nil
	rec, err := json.Marshal(r)
	if err != nil {
		return nil, nil, fmt.Errorf("deadletter/sqlstore: %w", err)
	}
	names := []string{
		"ver", "queue", "run_id", "owner", "signature", "sig_text", "labels", "status", "base",
		"first_failed", "last_failed", "retry_after", "claim_until", "claim_seq", "claimed_by", "replays",
		"est_tokens", "payload_size", "payload", "rec",
	}
	args := []any{
		ver, r.Queue, r.RunID, r.Owner, r.Signature, r.SignatureText, labelMarks(r.Labels), int64(r.Status), word(base),
		micros(r.FirstFailedAt), micros(r.LastFailedAt), micros(r.RetryAfter), micros(r.ClaimUntil), r.ClaimSeq, r.ClaimedBy, int64(r.Replays),
		r.EstTokens, r.PayloadSize, to.payload, rec,
	}
	return names, args, nil
}

// word is a text that goes into a column of words, not of bytes.
type word string

// find returns the letter with this id, nil when there is none.
func (s *Store) find(ctx context.Context, id string) (*row, error) {
	q := s.query("SELECT "+columns+" FROM "+s.t.letters+" WHERE id = ?", id)
	var r *row
	err := s.try(ctx, func() (err error) {
		r, err = scan(s.db.QueryRowContext(ctx, q.text.String(), q.args...))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return r, err
}
