package sqltest

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
)

// sql puts the name of the table into a statement.
func (b database) sql(statement string) string {
	return strings.ReplaceAll(statement, "TABLE", b.table)
}

func (b database) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := b.connect(t).ExecContext(t.Context(), b.sql(statement)); err != nil {
		t.Fatal(err)
	}
}

// Why: MySQL takes 16 MiB at once by default, and that with all around it.
func TestLargestPayload(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, b database) {
		s := b.store(t, nil)
		payload := bytes.Repeat([]byte("\x00\xff'\\ab"), deadletter.DefaultMaxPayload/6+1)[:deadletter.DefaultMaxPayload]
		r := deadletter.Record{Queue: "q", ItemID: "a", Payload: payload}
		if err := s.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		c, err := s.Claim(t.Context(), deadletter.ClaimReq{})
		if err != nil || len(c) != 1 || !bytes.Equal(c[0].Record.Payload, payload) {
			t.Errorf("claimed %d letters, %v", len(c), err)
		}
		r.Payload = append(payload, 0)
		if err := s.Put(t.Context(), r); !errors.Is(err, deadletter.ErrTooLarge) {
			t.Errorf("one byte more: %v", err)
		}
	})
}

// Why: what somebody changes or loses in the tables must be told, and cost no
// other letter.
func TestDamage(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, b database) {
		s := b.store(t, nil)
		fill(t, s, 4, func(int) deadletter.Record { return deadletter.Record{Payload: []byte("p")} })
		id := func(n string) string { return deadletter.ID("q", "item-000"+n) }
		quote := func(n string) string {
			if b.dialect == sqlstore.PostgreSQL {
				return "'" + id(n) + "'::bytea"
			}
			if b.dialect == sqlstore.SQLite {
				return "CAST('" + id(n) + "' AS BLOB)"
			}
			return "'" + id(n) + "'"
		}
		b.exec(t, "UPDATE TABLE SET rec = payload WHERE id = "+quote("0"))
		b.exec(t, "DELETE FROM TABLE_payload WHERE letter = "+quote("1"))
		b.exec(t, "UPDATE TABLE_payload SET data = letter WHERE letter = "+quote("2"))

		var bad, good int
		for r, err := range s.List(t.Context(), deadletter.Filter{}) {
			switch {
			case errors.Is(err, deadletter.ErrCorrupt):
				bad++
			case err != nil:
				t.Fatal(err)
			case r.ItemID != "":
				good++
			}
		}
		if bad != 1 || good != 3 {
			t.Errorf("listed %d good and %d bad, want 3 and 1", good, bad)
		}
		for _, n := range []string{"0", "1", "2"} {
			if _, err := s.Get(t.Context(), id(n)); !errors.Is(err, deadletter.ErrCorrupt) {
				t.Errorf("get %s: %v", n, err)
			}
		}
		c, err := s.Claim(t.Context(), deadletter.ClaimReq{N: 10})
		if err != nil || len(c) != 1 || c[0].Record.ItemID != "item-0003" {
			t.Fatalf("claimed %+v, %v", c, err)
		}
		st, err := s.Stats(t.Context(), deadletter.Filter{})
		if err != nil || st.States[deadletter.Quarantined] != 3 || st.States[deadletter.Claimed] != 1 {
			t.Errorf("%v, %v; want three in quarantine", st.States, err)
		}
		if r, err := s.Get(t.Context(), id("1")); err == nil {
			t.Errorf("a letter without its payload: %+v", r)
		}
		// The item fails anew: then there is a good record again.
		if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "item-0000", Payload: []byte("new")}); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Get(t.Context(), id("0")); err != nil || r.Failures != 2 || string(r.Payload) != "new" {
			t.Errorf("put on a damaged letter: %+v, %v", r, err)
		}
		b.exec(t, "UPDATE TABLE SET rec = payload WHERE id = "+quote("3"))
		if err := s.Resolve(t.Context(), c[0].Token, deadletter.Outcome{Verb: deadletter.Ack}); !errors.Is(err, deadletter.ErrCorrupt) {
			t.Errorf("resolve of a damaged letter: %v", err)
		}
	})
}

// Why: a payload may be confidential; one that a dead client left belongs to no
// letter and must go as well.
func TestPurgeSweeps(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, b database) {
		clk := clock.NewMock()
		clk.Set(time.Unix(1_700_000_000, 0))
		s := b.store(t, clk)
		put := func(item string) {
			t.Helper()
			if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: item, Payload: []byte(item)}); err != nil {
				t.Fatal(err)
			}
		}
		put("kept")
		put("orphan")
		b.exec(t, "DELETE FROM TABLE WHERE payload_size = 6")
		// A client that died after it had replaced a payload left the old one.
		b.exec(t, "INSERT INTO TABLE_payload (id, part, letter, born, data) SELECT letter, part, letter, born, data FROM TABLE_payload")
		clk.Add(23 * time.Hour)
		for _, want := range []int{4, 1} {
			if n, err := s.Purge(t.Context(), deadletter.Filter{}); n != 0 || err != nil {
				t.Errorf("purged %d, %v", n, err)
			}
			if n := b.count(t, "_payload"); n != want {
				t.Errorf("%d payloads, want %d", n, want)
			}
			clk.Add(2 * time.Hour)
		}
		all := []deadletter.State{deadletter.Dead}
		if n, err := s.Purge(t.Context(), deadletter.Filter{States: all}); n != 1 || err != nil {
			t.Errorf("purged %d, %v", n, err)
		}
		if n := b.count(t, "_payload"); n != 0 {
			t.Errorf("%d payloads after a purge of all letters", n)
		}
	})
}

// Why: hosts whose clocks differ must agree about leases.
func TestServerTime(t *testing.T) {
	t.Parallel()
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			b := newDatabase(t, d)
			s, err := sqlstore.New(sqlstore.Config{DB: b.connect(t), Dialect: d, Table: b.table, ServerTime: true})
			if err != nil {
				t.Fatal(err)
			}
			before := time.Now().Add(-time.Minute)
			if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a"}); err != nil {
				t.Fatal(err)
			}
			c, err := s.Claim(t.Context(), deadletter.ClaimReq{Lease: time.Hour})
			if err != nil || len(c) != 1 {
				t.Fatal(len(c), err)
			}
			// The server is on this host; a zone that was forgotten is hours off.
			for _, at := range []time.Time{c[0].Record.LastFailedAt, c[0].Record.ClaimUntil.Add(-time.Hour)} {
				if at.Before(before) || at.After(time.Now().Add(time.Minute)) {
					t.Errorf("a time of %v, want about %v", at, time.Now())
				}
			}
		})
	}
}
