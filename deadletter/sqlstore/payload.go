package sqlstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// partSize is how much of a payload one row holds. So no statement comes near
// MySQL's max_allowed_packet, which is 16 MiB, or less, and counts what the
// protocol adds.
const partSize = 256 << 10

// upload stores a payload under a new key. Keys are never used again, so one
// may be removed by whoever has replaced it and by nobody else.
func (s *Store) upload(ctx context.Context, letter string, body []byte, now time.Time) (string, error) {
	key, part := rand.Text(), int64(0)
	for chunk := range slices.Chunk(body, partSize) {
		q := s.query("")
		q.insert(s.t.payloads, []string{"id", "part", "letter", "born", "data"}, []any{key, part, letter, micros(now), chunk})
		if _, err := s.exec(ctx, q); err != nil {
			return "", err
		}
		part++
	}
	return key, nil
}

// attach reads the payload of r, a letter as old says, and checks that it is
// what was stored.
func (s *Store) attach(ctx context.Context, old *row, r *deadletter.Record) error {
	if old.payload == "" {
		return nil
	}
	var body []byte
	err := s.try(ctx, func() error {
		body = make([]byte, 0, max(0, min(old.size, s.max)))
		q := s.query("SELECT data FROM "+s.t.payloads+" WHERE id = ? ORDER BY part", old.payload)
		rows, err := s.db.QueryContext(ctx, q.text.String(), q.args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		var part []byte
		for rows.Next() {
			if err := rows.Scan(&part); err != nil {
				return err
			}
			body = append(body, part...)
		}
		return rows.Err()
	})
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != r.PayloadHash {
		return fmt.Errorf("deadletter/sqlstore: letter %q: %w: its payload has %d bytes and another hash", r.ID, deadletter.ErrCorrupt, len(body))
	}
	r.Payload = body
	return nil
}

// drop removes payloads.
func (s *Store) drop(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	q := s.query("DELETE FROM " + s.t.payloads + " WHERE id IN (")
	for i, k := range keys {
		q.add(comma(i)+"?", k)
	}
	_, err := s.exec(ctx, q.add(")"))
	return err
}

// A payload that no letter has is either left by a client that stopped, or on
// its way: then its Put ends within maxPut.
const (
	maxPut   = 12 * time.Hour
	leftOver = 24 * time.Hour
)

// unused is true for payloads that no letter has.
func (s *Store) unused() string {
	return "NOT EXISTS (SELECT 1 FROM " + s.t.letters + " l WHERE l.id = " + s.t.payloads + ".letter AND l.payload = " + s.t.payloads + ".id)"
}

// sweep removes the payloads that clients have left behind.
func (s *Store) sweep(ctx context.Context, now time.Time) error {
	_, err := s.exec(ctx, s.query("DELETE FROM "+s.t.payloads+" WHERE born < ? AND "+s.unused(), micros(now.Add(-leftOver))))
	return err
}
