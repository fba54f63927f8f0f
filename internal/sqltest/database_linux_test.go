package sqltest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/deadlettertest"
	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
)

// database is where the tables of one test are.
type database struct {
	dialect     sqlstore.Dialect
	driver, dsn string
	table       string
}

var tableNumber atomic.Int64

// each runs a test with every database, with tables of its own in each.
func each(t *testing.T, parallel bool, fn func(t *testing.T, d database)) {
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL, sqlstore.SQLite} {
		t.Run(d.String(), func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			fn(t, newDatabase(t, d))
		})
	}
}

func newDatabase(t *testing.T, d sqlstore.Dialect) database {
	t.Helper()
	b := database{dialect: d, table: fmt.Sprintf("letters%d", tableNumber.Add(1))}
	switch d {
	case sqlstore.PostgreSQL:
		postgres.start(t)
		b.driver, b.dsn = postgres.driver, postgres.dsn
	case sqlstore.MySQL:
		mariadb.start(t)
		b.driver, b.dsn = mariadb.driver, mariadb.dsn
	default:
		b.driver = "sqlite"
		b.dsn = "file:" + filepath.Join(t.TempDir(), "letters.db") +
			"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
	}
	db := b.connect(t)
	b.create(t, db)
	return b
}

// create makes the tables.
func (b database) create(t *testing.T, db *sql.DB) {
	t.Helper()
	schema, err := b.dialect.Schema(b.table)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range schema {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%v\n%s", err, statement)
		}
	}
}

// connect opens another pool of connections.
func (b database) connect(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open(b.driver, b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(32)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// store opens the letters by connections of its own.
func (b database) store(t *testing.T, clk deadletter.Clock) *sqlstore.Store {
	t.Helper()
	return b.over(t, b.connect(t), clk)
}

func (b database) over(t *testing.T, db *sql.DB, clk deadletter.Clock) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.New(sqlstore.Config{DB: db, Dialect: b.dialect, Table: b.table, Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// count counts the rows of one of the tables.
func (b database) count(t *testing.T, table string) int {
	t.Helper()
	var n int
	if err := b.connect(t).QueryRowContext(t.Context(), "SELECT count(*) FROM "+b.table+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestContract runs what every store has to pass.
func TestContract(t *testing.T) {
	t.Parallel()
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL, sqlstore.SQLite} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			deadlettertest.Run(t, func(t *testing.T, clk deadletter.Clock) deadlettertest.Opened {
				b := newDatabase(t, d)
				db := b.connect(t)
				return deadlettertest.Opened{
					Store:   b.over(t, db, clk),
					Reopen:  func() deadletter.Store { return b.over(t, db, clk) },
					Letters: 1500, // each Put is a commit of its own
				}
			})
		})
	}
}

// Why: a program behind a pooler, or with SQLite, may have one connection only,
// and uses the store while it lists.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, b database) {
		db := b.connect(t)
		db.SetMaxOpenConns(1)
		s := b.over(t, db, nil)
		for i := range 3 {
			if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: fmt.Sprint(i), Payload: []byte("p")}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for r, err := range s.List(t.Context(), deadletter.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			whole, err := s.Get(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, whole.ItemID)
		}
		if len(got) != 3 {
			t.Errorf("listed %v", got)
		}
	})
}

// Why: the schema is a migration that runs at every start of some programs.
func TestSchemaTwice(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, b database) {
		b.create(t, b.connect(t))
	})
}

// Why: a program of several tables keeps them in a schema.
func TestQualifiedTable(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, b database) {
		schema := map[sqlstore.Dialect]string{sqlstore.PostgreSQL: "SCHEMA night", sqlstore.MySQL: "DATABASE night"}[b.dialect]
		if schema != "" {
			b.exec(t, "CREATE "+schema)
			b.table = "night." + b.table
		} else {
			b.table = "main." + b.table + "_more"
		}
		b.create(t, b.connect(t))
		s := b.store(t, nil)
		if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a", Payload: []byte("p")}); err != nil {
			t.Fatal(err)
		}
		c, err := s.Claim(t.Context(), deadletter.ClaimReq{})
		if err != nil || len(c) != 1 {
			t.Fatalf("claimed %d, %v", len(c), err)
		}
		if err := s.Resolve(t.Context(), c[0].Token, deadletter.Outcome{Verb: deadletter.Ack}); err != nil {
			t.Error(err)
		}
		if n, err := s.Purge(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
			t.Errorf("purged %d, %v", n, err)
		}
		if n := b.count(t, "_payload"); n != 0 {
			t.Errorf("%d payloads are left", n)
		}
	})
}

// Why: the tables are the user's to create, and the first night tells.
func TestNoTable(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, b database) {
		b.table += "_missing"
		s := b.store(t, nil)
		_, getErr := s.Get(t.Context(), "x")
		_, claimErr := s.Claim(t.Context(), deadletter.ClaimReq{})
		for what, err := range map[string]error{
			"put": s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a"}), "get": getErr, "claim": claimErr,
		} {
			if err == nil || !strings.Contains(err.Error(), "create "+b.table) || strings.Contains(err.Error(), "perhaps") {
				t.Errorf("%s without tables: %v", what, err)
			}
		}
	})
}
