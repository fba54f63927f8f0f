package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// fault is what an error of a driver says about the statement that it met.
type fault int

const (
	unknown fault = iota // nobody knows: the connection is gone, or the caller
	refused              // the database said no, and nothing was done
	again                // the same, and it may go well the next time
	noTable
	taken // there is such a row
)

// faultOf reads an error without knowing the driver: pgx and lib/pq tell the
// SQLSTATE by a method, the drivers of MySQL and SQLite a number by a field or a
// method. What is in none of them counts as unknown.
func faultOf(err error) fault {
	var pg interface{ SQLState() string }
	if errors.As(err, &pg) {
		switch code := pg.SQLState(); code {
		case "40001", "40P01": // lost to a concurrent transaction, a deadlock
			return again
		case "53300", "57P03": // too many connections, the server is starting
			return again
		case "42P01":
			return noTable
		case "57014": // cancelled, by whom is seen elsewhere
			return refused
		default:
			if strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") {
				return unknown // about the connection or the server, not the statement
			}
			return refused
		}
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" && errors.Is(dial, syscall.EAGAIN) {
		return again // the queue of the server's socket is full
	}
	var lite interface{ Code() int }
	if errors.As(err, &lite) {
		return faultOfSQLite(lite.Code(), err)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if n, ok := number(e, "Number"); ok {
			switch n {
			case 1213, 1020: // a deadlock, a row changed since it was read
				return again
			case 1040, 1203: // too many connections
				return again
			case 1146:
				return noTable
			case 1062:
				return taken
			case 1053, 1077, 1078, 1079, 1080, 1927: // the server ends, or ended the connection
				return unknown
			}
			return refused
		}
		if n, ok := number(e, "Code"); ok {
			return faultOfSQLite(int(n), err)
		}
	}
	return unknown
}

func faultOfSQLite(code int, err error) fault {
	switch code & 0xff { // the rest tells more of the same
	case 5, 6: // busy, locked
		return again
	}
	if strings.Contains(err.Error(), "no such table") {
		return noTable // SQLite has no code for it
	}
	return refused
}

// number reads a field of an error that is a struct.
func number(err error, field string) (int64, bool) {
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return 0, false
	}
	switch f := v.FieldByName(field); {
	case f.CanInt():
		return f.Int(), true
	case f.CanUint():
		return int64(f.Uint()), true
	}
	return 0, false
}

// patience bounds how long a call waits in all for a database that is busy or
// has to choose between transactions, beside what the context allows.
const patience = 10 * time.Second

// pause waits before the n-th new try, from 1, a random time that grows to some
// 100 ms, and reports whether to try at all.
func pause(ctx context.Context, n int, waited *time.Duration) bool {
	d := min(time.Millisecond<<min(n, 7), 100*time.Millisecond)
	d = d/2 + rand.N(d/2+1)
	if *waited += d; *waited > patience {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// try runs fn, one statement outside a transaction, until the database does not
// ask to try again.
func (s *Store) try(ctx context.Context, fn func() error) error {
	var waited time.Duration
	for n := 1; ; n++ {
		err := fn()
		if err == nil || faultOf(err) != again || !pause(ctx, n, &waited) {
			return err
		}
	}
}

// exec runs a statement and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, q *query) (int64, error) {
	var n int64
	err := s.try(ctx, func() error {
		res, err := s.db.ExecContext(ctx, q.text.String(), q.args...)
		if err == nil {
			n, err = res.RowsAffected()
		}
		return err
	})
	return n, err
}

// fail is the error of a call that could not do what it was asked.
func (s *Store) fail(ctx context.Context, what string, err error) error {
	switch {
	case errors.Is(err, deadletter.ErrCorrupt) || errors.Is(err, deadletter.ErrClaimLost):
		return err
	case ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)):
		// Drivers say it in many ways, callers ask for one.
		return fmt.Errorf("deadletter/sqlstore: %s: %w: %w", what, context.Cause(ctx), err)
	case faultOf(err) == noTable:
		return fmt.Errorf("deadletter/sqlstore: %s: a table is missing: create %s, %s and %s by the statements of Dialect.Schema: %w",
			what, s.t.letters, s.t.payloads, s.t.claims, err)
	}
	return fmt.Errorf("deadletter/sqlstore: %s: %w", what, err)
}

// unsure is fail for a change of which nobody knows whether it was done.
func (s *Store) unsure(ctx context.Context, what string, err error) error {
	if faultOf(err) == unknown {
		what += " (perhaps done)"
	}
	return s.fail(ctx, what, err)
}
