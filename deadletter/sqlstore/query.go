package sqlstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// query is a statement in the making. Values only ever become parameters.
type query struct {
	d    Dialect
	text strings.Builder
	args []any
}

// add appends SQL in which each ? stands for a value.
func (q *query) add(text string, values ...any) *query {
	for _, v := range values {
		before, after, _ := strings.Cut(text, "?")
		q.text.WriteString(before)
		q.text.WriteString(q.arg(v))
		text = after
	}
	q.text.WriteString(text)
	return q
}

// arg makes v a parameter and returns its placeholder.
func (q *query) arg(v any) string {
	switch s := v.(type) {
	case string:
		v = raw(s)
	case word:
		v = string(s)
	}
	q.args = append(q.args, v)
	return q.d.placeholder(len(q.args))
}

// raw returns the bytes of s, never nil: that would be a NULL.
func raw(s string) []byte { return append(make([]byte, 0, len(s)), s...) }

func (s *Store) query(text string, values ...any) *query {
	q := &query{d: s.d}
	return q.add(text, values...)
}

// maxIDs bounds the ids of a filter: databases bound the parameters of a
// statement, SQLite at 32,766.
const maxIDs = 30_000

// where appends the condition of a filter, without its Limit. states are those
// of a filter that names none; but says which may be chosen at all.
func (q *query) where(f deadletter.Filter, states, but []deadletter.State, now time.Time) error {
	if len(f.IDs) > maxIDs {
		return fmt.Errorf("deadletter/sqlstore: a filter of %d ids, at most %d", len(f.IDs), maxIDs)
	}
	if len(f.States) > 0 {
		states = f.States
	}
	q.add(" WHERE (1=0")
	for _, st := range but {
		switch {
		case !slices.Contains(states, st):
		case st == deadletter.Claimed:
			q.add(" OR claim_until > ?", micros(now))
		default:
			q.add(" OR base = '"+string(st)+"' AND claim_until <= ?", micros(now))
		}
	}
	q.add(")")
	for _, c := range []struct{ column, value string }{
		{"queue", f.Queue}, {"signature", f.Signature}, {"owner", f.Owner}, {"run_id", f.RunID},
	} {
		if c.value != "" {
			q.add(" AND "+c.column+" = ?", c.value)
		}
	}
	if len(f.IDs) > 0 {
		q.add(" AND id IN (")
		for i, id := range f.IDs {
			q.add(comma(i)+"?", id)
		}
		q.add(")")
	}
	if len(f.Statuses) > 0 {
		q.add(" AND status IN (")
		for i, st := range f.Statuses {
			q.add(comma(i)+"?", int64(st))
		}
		q.add(")")
	}
	for k, v := range f.Labels {
		q.add(" AND " + q.d.contains("labels", q.arg(labelMark(k, v))))
	}
	if !f.Since.IsZero() {
		since := micros(f.Since)
		if f.Since.Nanosecond()%1000 != 0 {
			since++
		}
		q.add(" AND last_failed >= ?", since)
	}
	if !f.Until.IsZero() {
		q.add(" AND last_failed <= ?", micros(f.Until))
	}
	if !f.Due.IsZero() {
		q.add(" AND retry_after <= ?", micros(f.Due))
	}
	if at := micros(f.After.FailedAt); f.After != (deadletter.Cursor{}) {
		q.add(" AND (last_failed > ?", at)
		if f.After.FailedAt.Nanosecond()%1000 == 0 {
			q.add(" OR last_failed = ? AND id > ?", at, f.After.ID)
		}
		q.add(")")
	}
	return nil
}

// orderBy is the order of List and of claims.
func orderBy(o deadletter.Order) string {
	if o == deadletter.Cheapest {
		return " ORDER BY est_tokens, payload_size, last_failed, id"
	}
	return " ORDER BY last_failed, id"
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ", "
}

// labelMark is what a filter looks for in the column of the labels: part of a
// hash, so that no label looks like two and no byte of it is special.
func labelMark(k, v string) []byte {
	h := sha256.New()
	h.Write(binary.AppendUvarint(nil, uint64(len(k))))
	h.Write([]byte(k))
	h.Write([]byte(v))
	return h.Sum(nil)[:16]
}

func labelMarks(labels map[string]string) []byte {
	out := make([]byte, 0, 16*len(labels))
	for k, v := range labels {
		out = append(out, labelMark(k, v)...)
	}
	return out
}

// The states of letters that may be chosen.
var (
	unresolved = []deadletter.State{deadletter.Dead, deadletter.Claimed, deadletter.Quarantined}
	resolved   = []deadletter.State{deadletter.Acked, deadletter.Discarded}
	all        = append(slices.Clone(unresolved), resolved...)
	claimable  = []deadletter.State{deadletter.Dead, deadletter.Quarantined}
	unclaimed  = append(slices.Clone(claimable), resolved...)
)
