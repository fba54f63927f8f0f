package main

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

func drivers() []failure {
	_ = mysql.SetLogger(quiet)
	return []failure{
		{"pgx_refused", func(m *maker) error { return pgxConnect(m, closedAddr(m)) }},
		{"pgx_timeout", func(m *maker) error {
			addr, stop := m.listen(func(net.Conn) {})
			defer stop()
			return pgxConnect(m, addr)
		}},
		{"pgx_dsn", func(m *maker) error {
			_, err := pgx.ParseConfig("postgres://u:" + m.base62(9) + "@h:bad" + m.hex(2) + "/db")
			return err
		}},
		{"pgx_unique@23505", func(m *maker) error { return pgError(m, "23505", "duplicate key value violates unique constraint") }},
		{"pgx_unique@23503", func(m *maker) error { return pgError(m, "23503", "duplicate key value violates unique constraint") }},
		{"pgx_dead@40P01", func(m *maker) error { return pgError(m, "40P01", "transaction gave up") }},
		{"pgx_dead@40001", func(m *maker) error { return pgError(m, "40001", "transaction gave up") }},
		{"db_refused", func(m *maker) error {
			host, port, _ := net.SplitHostPort(closedAddr(m))
			db, err := sql.Open("postgres", fmt.Sprintf("host=%s port=%s user=u%d password=%s sslmode=disable", host, port, m.n, m.base62(8)))
			if err != nil {
				return err
			}
			defer db.Close()
			return db.Ping()
		}},
		{"pq_relation@42P01", func(m *maker) error {
			return &pq.Error{Severity: "ERROR", Code: "42P01", Message: fmt.Sprintf("relation %q does not exist", "results_"+m.hex(6))}
		}},
		{"db_refused", func(m *maker) error {
			db, err := sql.Open("mysql", fmt.Sprintf("u%d:%s@tcp(%s)/night", m.n, m.base62(8), closedAddr(m)))
			if err != nil {
				return err
			}
			defer db.Close()
			return db.Ping()
		}},
		{"pq_relation@42703", func(m *maker) error {
			return &pq.Error{Severity: "ERROR", Code: "42703", Message: fmt.Sprintf("relation %q does not exist", "results_"+m.hex(6))}
		}},
		{"mysql_dup@1062", func(m *maker) error {
			return &mysql.MySQLError{Number: 1062, SQLState: [5]byte{'2', '3', '0', '0', '0'}, Message: fmt.Sprintf("write of item '%d' refused", m.digits(1, 99999))}
		}},
		{"mysql_dup@1205", func(m *maker) error {
			return &mysql.MySQLError{Number: 1205, SQLState: [5]byte{'H', 'Y', '0', '0', '0'}, Message: fmt.Sprintf("write of item '%d' refused", m.digits(1, 99999))}
		}},
		{"mysql_dsn", func(m *maker) error { _, err := mysql.ParseDSN(fmt.Sprintf("u:%s@tcp(h)", m.base62(9))); return err }},
		{"sql_norows", func(m *maker) error { return item(m, sql.ErrNoRows) }},
		{"sql_txdone", func(m *maker) error { return item(m, sql.ErrTxDone) }},
		{"sql_driver", func(m *maker) error { _, err := sql.Open("driver"+m.hex(3), ""); return err }},
	}
}

func closedAddr(m *maker) string {
	addr, stop := m.listen(func(net.Conn) {})
	stop()
	return addr
}

func pgxConnect(m *maker, addr string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := pgx.Connect(ctx, fmt.Sprintf("postgres://night:%s@%s/db?sslmode=disable", m.base62(12), addr))
	return err
}

func pgError(m *maker, code, text string) error {
	return item(m, &pgconn.PgError{Severity: "ERROR", Code: code, Message: fmt.Sprintf("%s \"results_%d\"", text, m.digits(1, 99))})
}
