package sqltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
)

// Why: a database that finds a deadlock or a busy file has undone the statement,
// so it is tried again; the night must not lose a letter to it. The other side
// of the deadlock locks one letter, waits until the store waits for it behind
// another, and then asks for that.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dialect             sqlstore.Dialect
		first, heavy, waits string
	}{
		{
			// Each side looks for a deadlock once, so long after it began to wait: the
			// store's is to find it, and the test's later, should the store's have
			// looked before there was one.
			sqlstore.PostgreSQL, "SET deadlock_timeout = '1min'", "",
			"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE FROM TABLE %'",
		},
		{
			sqlstore.MySQL, "SET innodb_lock_wait_timeout = 60",
			"UPDATE TABLE SET status = status + 1 WHERE id >= 'x'", // InnoDB undoes the one that has changed less
			"SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_query LIKE 'DELETE FROM TABLE %'",
		},
	} {
		t.Run(c.dialect.String(), func(t *testing.T) {
			t.Parallel()
			b := newDatabase(t, c.dialect)
			db := b.connect(t)
			own := b.connect(t)
			var deadlocks func() int
			if c.dialect == sqlstore.PostgreSQL {
				config, err := pgx.ParseConfig(b.dsn + " deadlock_timeout=5s")
				if err != nil {
					t.Fatal(err)
				}
				met := &deadlockTracer{}
				config.Tracer = met
				own = stdlib.OpenDB(*config)
				t.Cleanup(func() { _ = own.Close() })
				deadlocks = func() int { return int(met.n.Load()) }
			} else {
				deadlocks = func() (n int) {
					q := "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_DEADLOCKS'"
					if err := db.QueryRowContext(t.Context(), q).Scan(&n); err != nil {
						t.Fatal(err)
					}
					return n
				}
			}
			s := b.over(t, own, nil)
			put := func(queue, id string) {
				t.Helper()
				if err := s.Put(t.Context(), deadletter.Record{Queue: queue, ID: id}); err != nil {
					t.Fatal(err)
				}
			}
			put("q", "0")
			put("q", "1")
			for i := range 50 {
				put("other", fmt.Sprint("x", i))
			}
			before := deadlocks()
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			for _, statement := range []string{c.first, "BEGIN", c.heavy, "UPDATE TABLE SET status = 7 WHERE id = '1'"} {
				if _, err := conn.ExecContext(t.Context(), b.sql(statement)); err != nil {
					t.Fatal(err)
				}
			}
			purged := make(chan error, 1)
			go func() {
				n, err := s.Purge(t.Context(), deadletter.Filter{Queue: "q", States: []deadletter.State{deadletter.Dead}})
				if err == nil && n != 2 {
					err = fmt.Errorf("purged %d, want 2", n)
				}
				purged <- err
			}()
			for waiting := 0; waiting == 0; {
				if err := db.QueryRowContext(t.Context(), b.sql(c.waits)).Scan(&waiting); err != nil {
					t.Fatal(err)
				}
				select {
				case err := <-purged:
					t.Fatalf("the purge did not wait: %v", err)
				case <-time.After(150 * time.Millisecond): // innodb_trx shows the old state to whoever looks within 100 ms again
				}
			}
			for _, statement := range []string{"UPDATE TABLE SET status = 7 WHERE id = '0'", "COMMIT"} {
				if _, err := conn.ExecContext(t.Context(), b.sql(statement)); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-purged; err != nil {
				t.Errorf("the store's side of the deadlock: %v", err)
			}
			if deadlocks() == before {
				t.Error("there was no deadlock")
			}
		})
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		b := newDatabase(t, sqlstore.SQLite)
		conn, err := b.connect(t).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		b.dsn = strings.Replace(b.dsn, "busy_timeout(5000)", "busy_timeout(0)", 1)
		s := b.store(t, nil)
		if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		put := make(chan error, 1)
		go func() { put <- s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a"}) }()
		select {
		case err := <-put:
			t.Fatalf("put into a busy file: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if err := <-put; err != nil {
			t.Error(err)
		}
	})
}

// deadlockTracer counts the deadlocks that PostgreSQL tells a client.
type deadlockTracer struct{ n atomic.Int64 }

func (*deadlockTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (d *deadlockTracer) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	var e *pgconn.PgError
	if errors.As(data.Err, &e) && e.Code == "40P01" {
		d.n.Add(1)
	}
}

// Why: what a database does depends on settings that belong to somebody else.
// Under these, texts would be cut, updates counted otherwise, and transactions
// that meet refused.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dialect sqlstore.Dialect
		dsn     string
	}{
		{sqlstore.PostgreSQL, " default_transaction_isolation=serializable"},
		{sqlstore.PostgreSQL, " default_query_exec_mode=simple_protocol"},
		{sqlstore.MySQL, "?tx_isolation='SERIALIZABLE'&sql_mode=''"},
		{sqlstore.MySQL, "?tx_isolation='READ-COMMITTED'&clientFoundRows=true&interpolateParams=true"},
		{sqlstore.MySQL, "?innodb_snapshot_isolation=1&time_zone='-05:00'&sql_mode='ANSI,NO_BACKSLASH_ESCAPES'&interpolateParams=true"},
	} {
		t.Run(c.dialect.String()+c.dsn, func(t *testing.T) {
			t.Parallel()
			b := newDatabase(t, c.dialect)
			b.dsn += c.dsn
			s := b.store(t, nil)
			const letters = 200
			fill(t, s, letters, func(i int) deadletter.Record {
				text := hostile[i%len(hostile)]
				return deadletter.Record{Err: text, Owner: text, Labels: map[string]string{text: text}, Payload: []byte("x" + text)}
			})
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "many", Payload: []byte("p")}); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if r, err := s.Get(t.Context(), deadletter.ID("q", "many")); err != nil || r.Failures != 20 {
				t.Errorf("%d failures after twenty at once, %v", r.Failures, err)
			}
			var got seen
			for range 4 {
				wg.Go(func() {
					for {
						claims, err := s.Claim(t.Context(), deadletter.ClaimReq{N: 7})
						if err != nil || len(claims) == 0 {
							if err != nil {
								t.Error(err)
							}
							return
						}
						for _, c := range claims {
							got.add(c.Record.ItemID)
							if err := s.Resolve(t.Context(), c.Token, deadletter.Outcome{Verb: deadletter.Ack}); err != nil {
								t.Error(err)
							}
							if r := c.Record; r.ItemID != "many" && string(r.Payload) != "x"+hostileOf(t, r.ItemID) {
								t.Errorf("%s has the payload %q", r.ItemID, r.Payload)
							}
						}
					}
				})
			}
			wg.Wait()
			got.want(t, letters+1)
			if n, err := s.Purge(t.Context(), deadletter.Filter{}); n != letters+1 || err != nil {
				t.Errorf("purged %d, %v", n, err)
			}
		})
	}
}

func hostileOf(t *testing.T, item string) string {
	var i int
	if _, err := fmt.Sscanf(item, "item-%d", &i); err != nil {
		t.Error(err)
	}
	return hostile[i%len(hostile)]
}
