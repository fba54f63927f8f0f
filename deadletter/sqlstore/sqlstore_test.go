package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
)

// The store itself is tested with real databases in internal/sqltest. Here is
// what no database does on demand.

// script is a database without rows, whose changes do as fn says.
type script struct {
	fn func(ctx context.Context) error

	mu      sync.Mutex
	changes int
	texts   []string
}

func (s *script) Connect(context.Context) (driver.Conn, error) { return conn{s}, nil }
func (s *script) Driver() driver.Driver                        { return nil }

type conn struct{ *script }

func (conn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("no statements") }
func (conn) Close() error                        { return nil }
func (conn) Begin() (driver.Tx, error)           { return nil, errors.New("no transactions") }

func (c conn) QueryContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Rows, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts = append(c.texts, text)
	return noRows{}, nil
}

func (c conn) ExecContext(ctx context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	c.mu.Lock()
	c.changes++
	c.texts = append(c.texts, text)
	c.mu.Unlock()
	return driver.RowsAffected(1), c.fn(ctx)
}

type noRows struct{}

func (noRows) Columns() []string         { return nil }
func (noRows) Close() error              { return nil }
func (noRows) Next([]driver.Value) error { return io.EOF }

func over(t *testing.T, s *script, d sqlstore.Dialect) *sqlstore.Store {
	t.Helper()
	db := sql.OpenDB(s)
	t.Cleanup(func() { _ = db.Close() })
	store, err := sqlstore.New(sqlstore.Config{DB: db, Dialect: d})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// The errors of the drivers, as far as the store can see them.
type (
	pgError     struct{ code string }     // pgx and lib/pq
	mysqlError  struct{ Number uint16 }   // go-sql-driver
	moderncLite struct{ code int }        // modernc.org/sqlite
	mattnLite   struct{ Code liteNumber } // mattn/go-sqlite3
	liteNumber  int
)

func (e *pgError) Error() string     { return "postgres says " + e.code }
func (e *pgError) SQLState() string  { return e.code }
func (e *mysqlError) Error() string  { return "mysql says no" }
func (e *moderncLite) Error() string { return "no such table: x" }
func (e *moderncLite) Code() int     { return e.code }
func (e mattnLite) Error() string    { return "sqlite says no" }

func TestErrorsOfDrivers(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset by peer")
	for _, c := range []struct {
		name    string
		err     error
		dialect sqlstore.Dialect
		changes int    // until it succeeds or gives up, when it fails twice
		want    string // in the error; "" = it succeeds
	}{
		{"deadlock", &pgError{"40P01"}, sqlstore.PostgreSQL, 3, ""},
		{"serialization", &pgError{"40001"}, sqlstore.PostgreSQL, 3, ""},
		{"disk full", &pgError{"53100"}, sqlstore.PostgreSQL, 1, "put: postgres says 53100"},
		{"no table", &pgError{"42P01"}, sqlstore.PostgreSQL, 1, "create deadletter, deadletter_payload and deadletter_claim"},
		{"shutdown", &pgError{"57P01"}, sqlstore.PostgreSQL, 3, ""},
		{"too many connections", &pgError{"53300"}, sqlstore.PostgreSQL, 3, ""},
		{"starting", &pgError{"57P03"}, sqlstore.PostgreSQL, 3, ""},
		{"full socket", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EAGAIN)}, sqlstore.MySQL, 3, ""},
		{"MySQL too many connections", &mysqlError{1040}, sqlstore.MySQL, 3, ""},
		{"MySQL too many of a user", &mysqlError{1203}, sqlstore.MySQL, 3, ""},
		{"MySQL deadlock", &mysqlError{1213}, sqlstore.MySQL, 3, ""},
		{"MySQL snapshot", &mysqlError{1020}, sqlstore.MySQL, 3, ""},
		{"MySQL packet", &mysqlError{1153}, sqlstore.MySQL, 1, "put: mysql says no"},
		{"MySQL no table", &mysqlError{1146}, sqlstore.MySQL, 1, "create deadletter"},
		{"SQLite busy", &moderncLite{5}, sqlstore.SQLite, 3, ""},
		{"SQLite busy snapshot", mattnLite{5 | 2<<8}, sqlstore.SQLite, 3, ""},
		{"SQLite full", mattnLite{13}, sqlstore.SQLite, 1, "put: sqlite says no"},
		{"SQLite no table", &moderncLite{1}, sqlstore.SQLite, 1, "create deadletter"},
		{"lost", lost, sqlstore.PostgreSQL, 3, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &script{}
			s.fn = func(context.Context) error {
				if s.changes <= 2 {
					return c.err
				}
				return nil
			}
			err := over(t, s, c.dialect).Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a"})
			switch {
			case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("put: %v, want %q", err, c.want)
			case c.want != "" && !errors.Is(err, c.err):
				t.Errorf("%v does not wrap the driver's error", err)
			}
			if s.changes != c.changes {
				t.Errorf("%d statements, want %d", s.changes, c.changes)
			}
		})
	}
}

// Why: a letter that is perhaps stored must be told as such.
func TestPerhapsDone(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset by peer")
	s := &script{fn: func(context.Context) error { return lost }}
	err := over(t, s, sqlstore.PostgreSQL).Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a"})
	if !errors.Is(err, lost) || !strings.Contains(err.Error(), "perhaps done") {
		t.Errorf("put: %v", err)
	}
	synctest.Test(t, func(t *testing.T) { // so that the deadline comes in the statement, however slow the machine
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		s := &script{fn: func(ctx context.Context) error { <-ctx.Done(); return errors.New("i/o timeout") }}
		err := over(t, s, sqlstore.PostgreSQL).Put(ctx, deadletter.Record{Queue: "q", ItemID: "a"})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "perhaps done") {
			t.Errorf("put at a deadline: %v", err)
		}
	})
}

// Why: the usual reason for a dead letter is that its caller has been cancelled.
func TestPutGoesOnWhenCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{fn: func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}}
	if err := over(t, s, sqlstore.MySQL).Put(ctx, deadletter.Record{Queue: "q", ItemID: "a", Payload: []byte("p")}); err != nil {
		t.Error(err)
	}
	if s.changes != 2 {
		t.Errorf("%d statements, want one for the payload and one for the letter", s.changes)
	}
}

// Why: what failed may hold anything, and must never become SQL.
func TestNoValueIsSQL(t *testing.T) {
	t.Parallel()
	const evil = "evil"
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL, sqlstore.SQLite} {
		s := &script{fn: func(context.Context) error { return nil }}
		store := over(t, s, d)
		ctx := t.Context()
		if err := store.Put(ctx, deadletter.Record{
			ID: evil, Queue: evil, ItemID: evil, Owner: evil, RunID: evil, Signature: evil, Err: evil, Payload: []byte(evil),
			Labels: map[string]string{evil: evil},
		}); err != nil {
			t.Fatal(err)
		}
		f := deadletter.Filter{
			Queue: evil, IDs: []string{evil}, States: []deadletter.State{evil, deadletter.Dead}, Signature: evil, Owner: evil, RunID: evil,
			Labels: map[string]string{evil: evil}, After: deadletter.Cursor{FailedAt: time.Unix(1, 0), ID: evil},
		}
		// There are no rows: the answers do not matter here.
		_, _ = store.Get(ctx, evil)
		_, _ = store.Stats(ctx, f)
		_, _ = store.Purge(ctx, f)
		_, _ = store.Claim(ctx, deadletter.ClaimReq{By: evil, Filter: f})
		for range store.List(ctx, f) {
			t.Error("there are no rows")
		}
		for _, text := range s.texts {
			if strings.Contains(text, evil) {
				t.Errorf("%v: a value stands in %s", d, text)
			}
		}
		if len(s.texts) < 7 {
			t.Errorf("%v: only %d statements", d, len(s.texts))
		}
	}
}

func TestNewNamesEveryField(t *testing.T) {
	t.Parallel()
	var none *clock.Mock
	_, err := sqlstore.New(sqlstore.Config{
		Table: "x; DROP TABLE y", MaxPayload: -1, Clock: none, ServerTime: true,
	})
	for _, field := range []string{"DB", "Dialect", "Table", "MaxPayload", "Clock is a nil", "ServerTime"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	db := sql.OpenDB(&script{})
	defer func() { _ = db.Close() }()
	if _, err := sqlstore.New(sqlstore.Config{DB: db, Dialect: sqlstore.SQLite, ServerTime: true}); err == nil {
		t.Error("SQLite was asked for the time of a server")
	}
	for name, good := range map[string]bool{
		"letters": true, "night.letters": true, "_x1": true, strings.Repeat("x", 50): true,
		strings.Repeat("x", 51): false, "1x": false, "a.b.c": false, "a-b": false, ".x": false, "x.": false, `"x"`: false, "é": false,
	} {
		_, err := sqlstore.New(sqlstore.Config{DB: db, Dialect: sqlstore.MySQL, Table: name})
		_, serr := sqlstore.MySQL.Schema(name)
		if (err == nil) != good || (serr == nil) != good {
			t.Errorf("table %q: %v, %v", name, err, serr)
		}
	}
	if _, err := sqlstore.Dialect(0).Schema(""); err == nil {
		t.Error("no dialect has a schema")
	}
}

// Why: no name in braces may be left; what the rest is worth the databases tell.
func TestSchema(t *testing.T) {
	t.Parallel()
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL, sqlstore.SQLite} {
		schema, err := d.Schema("night.letters")
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(schema, ";\n")
		for _, name := range []string{"night.letters (", "night.letters_payload (", "night.letters_claim (", "letters_oldest ", "letters_cheapest "} {
			if !strings.Contains(text, name) {
				t.Errorf("%v: no %q in\n%s", d, name, text)
			}
		}
		if strings.ContainsAny(text, "{}") {
			t.Errorf("%v:\n%s", d, text)
		}
	}
}

// Why: the limits of this store are told before anything is stored.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	s := &script{fn: func(context.Context) error { return nil }}
	store := over(t, s, sqlstore.PostgreSQL)
	err := store.Put(t.Context(), deadletter.Record{Queue: strings.Repeat("q", 257), ItemID: "a"})
	if !errors.Is(err, deadletter.ErrTooLarge) {
		t.Errorf("a queue of 257 bytes: %v", err)
	}
	_, err = store.Claim(t.Context(), deadletter.ClaimReq{By: strings.Repeat("b", 1025)})
	if !errors.Is(err, deadletter.ErrTooLarge) {
		t.Errorf("a claimer of 1025 bytes: %v", err)
	}
	if _, err := store.Stats(t.Context(), deadletter.Filter{IDs: make([]string, 30_001)}); err == nil {
		t.Error("30,001 ids were taken")
	}
	if len(s.texts) != 0 {
		t.Errorf("%d statements ran", len(s.texts))
	}
}
