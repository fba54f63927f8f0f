package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
)

// A queue over a database, here over one that is down: the item is told as lost
// to the store, together with its own failure.
func ExampleNew() {
	db := sql.OpenDB(down{}) // in a program: sql.Open("pgx", dsn)
	defer func() { _ = db.Close() }()

	store, err := sqlstore.New(sqlstore.Config{DB: db, Dialect: sqlstore.PostgreSQL})
	if err != nil {
		fmt.Println(err)
		return
	}
	letters, err := deadletter.New(deadletter.Config{Name: "nightly", Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := deadletter.WithItem(context.Background(), "doc-17")
	err = letters.Do(ctx, []byte("hello"), func(context.Context) error { return errors.New("upstream said no") })
	fmt.Println(err)
	// Output:
	// upstream said no
	// deadletter: item "doc-17" of queue "nightly" is lost to the store: deadletter/sqlstore: put (perhaps done): connection refused
}

// The tables, for a migration.
func ExampleDialect_Schema() {
	schema, err := sqlstore.SQLite.Schema("nightly")
	fmt.Println(schema[2], err)
	// Output:
	// CREATE TABLE IF NOT EXISTS nightly_claim (
	// 	id BIGINT NOT NULL PRIMARY KEY,
	// 	n  BIGINT NOT NULL
	// ) <nil>
}

// down is a database that nobody can reach.
type down struct{}

func (down) Connect(context.Context) (driver.Conn, error) {
	return nil, errors.New("connection refused")
}
func (down) Driver() driver.Driver { return nil }
