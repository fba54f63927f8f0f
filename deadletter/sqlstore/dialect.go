package sqlstore

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Dialect is the SQL of a database. There is no default.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1 // 12 and later
	MySQL                         // MySQL 8.0.1 and MariaDB 10.6, and later: older ones have no SKIP LOCKED
	SQLite                        // 3.35 and later: older ones have no RETURNING
)

// String returns the name of the database.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return "no dialect"
}

// Schema returns the statements that create the tables of a store where they
// are missing, to be executed one by one or joined with semicolons into a
// migration. table is as in [Config].
func (d Dialect) Schema(table string) ([]string, error) {
	if err := errors.Join(d.check(), checkTable(table)); err != nil {
		return nil, err
	}
	t := tablesOf(table)
	names := []string{
		"{letters}", t.letters, "{payloads}", t.payloads, "{claims}", t.claims,
		"{oldest}", t.base + "_oldest", "{cheapest}", t.base + "_cheapest", "{claimed}", t.base + "_claimed",
	}
	list := []string{letterTable, payloadTable, claimTable}
	if d == MySQL {
		list[0] = strings.Replace(letterTable, "{indexes}", mysqlIndexes, 1)
		names = append(names, "{key64}", "VARBINARY(64)", "{key256}", "VARBINARY(256)", "{bytes}", "MEDIUMBLOB",
			"{word}", "VARBINARY(16)", "{engine}", " ENGINE=InnoDB")
	} else {
		// An index is in the schema of its table. Only one of the two may say so,
		// in PostgreSQL the table and in SQLite the index.
		bytes, in, on := "BYTEA", "", t.letters
		if d == SQLite {
			bytes, in, on = "BLOB", strings.TrimSuffix(t.letters, t.base), t.base
		}
		list = append(list, oldestIndex, cheapestIndex)
		names = append(names, "{key64}", bytes, "{key256}", bytes, "{bytes}", bytes, "{word}", "TEXT", "{engine}", "", "{indexes}", "",
			"{in}", in, "{on}", on)
	}
	r := strings.NewReplacer(names...)
	for i := range list {
		list[i] = r.Replace(list[i])
	}
	return list, nil
}

// Texts are bytes: they compare exactly, and may hold a NUL, which PostgreSQL's
// text may not. Times are microseconds since 1970; a zero time is the first one
// there is, so it needs no NULL.
const (
	letterTable = `CREATE TABLE IF NOT EXISTS {letters} (
	id           {key64}  NOT NULL PRIMARY KEY,
	ver          BIGINT NOT NULL,
	queue        {key256} NOT NULL,
	run_id       {bytes}  NOT NULL,
	owner        {bytes}  NOT NULL,
	signature    {key256} NOT NULL,
	sig_text     {bytes}  NOT NULL,
	labels       {bytes}  NOT NULL,
	status       BIGINT NOT NULL,
	base         {word}   NOT NULL,
	first_failed BIGINT NOT NULL,
	last_failed  BIGINT NOT NULL,
	retry_after  BIGINT NOT NULL,
	claim_until  BIGINT NOT NULL,
	claim_seq    BIGINT NOT NULL,
	claimed_by   {bytes}  NOT NULL,
	replays      BIGINT NOT NULL,
	est_tokens   BIGINT NOT NULL,
	payload_size BIGINT NOT NULL,
	payload      {key64}  NOT NULL,
	rec          {bytes}  NOT NULL{indexes}
){engine}`

	payloadTable = `CREATE TABLE IF NOT EXISTS {payloads} (
	id     {key64}  NOT NULL,
	part   BIGINT NOT NULL,
	letter {key64}  NOT NULL,
	born   BIGINT NOT NULL,
	data   {bytes}  NOT NULL,
	PRIMARY KEY (id, part)
){engine}`

	claimTable = `CREATE TABLE IF NOT EXISTS {claims} (
	id BIGINT NOT NULL PRIMARY KEY,
	n  BIGINT NOT NULL
){engine}`

	mysqlIndexes = `,
	INDEX {oldest} (base, last_failed, id),
	INDEX {cheapest} (base, est_tokens, payload_size, last_failed, id),
	INDEX {claimed} (claim_seq)` // by which it finds what it has claimed

	oldestIndex   = `CREATE INDEX IF NOT EXISTS {in}{oldest} ON {on} (base, last_failed, id)`
	cheapestIndex = `CREATE INDEX IF NOT EXISTS {in}{cheapest} ON {on} (base, est_tokens, payload_size, last_failed, id)`
)

// defaultTable is the name of the letters' table unless told otherwise.
const defaultTable = "deadletter"

// tables are the names of a store's tables.
type tables struct{ base, letters, payloads, claims string }

func tablesOf(name string) tables {
	if name == "" {
		name = defaultTable
	}
	base := name[strings.IndexByte(name, '.')+1:]
	return tables{base: base, letters: name, payloads: name + "_payload", claims: name + "_claim"}
}

// PostgreSQL cuts names above 63 bytes, silently.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,49}$`)

func checkTable(name string) error {
	if name != "" && !tableName.MatchString(name) {
		return fmt.Errorf("deadletter/sqlstore: Table %q is no name of at most 50 letters, digits and underscores, with or without a schema and a dot before it", name)
	}
	return nil
}

func (d Dialect) check() error {
	if d < PostgreSQL || d > SQLite {
		return fmt.Errorf("deadletter/sqlstore: Dialect %d is not PostgreSQL, MySQL or SQLite", d)
	}
	return nil
}

// placeholder is the n-th parameter of a statement, from 1.
func (d Dialect) placeholder(n int) string {
	if d == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// contains is true when the bytes of a column hold those of a parameter.
func (d Dialect) contains(column, parameter string) string {
	switch d {
	case PostgreSQL:
		return "position(" + parameter + "::bytea IN " + column + ") > 0"
	case MySQL:
		return "LOCATE(" + parameter + ", " + column + ") > 0"
	default:
		return "instr(" + column + ", " + parameter + ") > 0"
	}
}

// clock asks the server for the time in microseconds since 1970.
func (d Dialect) clock() string {
	if d == PostgreSQL {
		return "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)"
	}
	return "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
}
