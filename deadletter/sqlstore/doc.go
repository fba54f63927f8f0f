// Package sqlstore keeps dead letters in a SQL database: PostgreSQL, MySQL,
// MariaDB or SQLite. It is a [deadletter.Store] and knows no driver: it takes a
// *sql.DB of the caller's.
//
// # When to use it
//
// When letters are put or replayed on several hosts, since a journal is for one.
// On one host a journal needs nothing else and keeps up with more.
//
//	db, err := sql.Open("pgx", dsn) // any driver of database/sql
//	store, err := sqlstore.New(sqlstore.Config{DB: db, Dialect: sqlstore.PostgreSQL})
//	letters, err := deadletter.New(deadletter.Config{Name: "nightly", Store: store})
//
// # The tables
//
// There are three: the letters, their payloads, which a List never reads, and
// the number of the last claim. [Dialect.Schema] returns the statements that
// create them; put them into a migration, or execute them at the start:
//
//	schema, err := sqlstore.PostgreSQL.Schema("")
//	for _, statement := range schema {
//		if _, err := db.Exec(statement); err != nil { ... }
//	}
//
// They create what is missing and change nothing. New does not talk to the
// database; without the tables the first call says so. The store needs to
// select, insert, update and delete, and nothing else.
//
// All texts are kept as bytes, since they come from what failed: they compare
// exactly, whatever the collation, and may hold a NUL, which PostgreSQL's text
// refuses. Invalid UTF-8 becomes U+FFFD, as in every store. To read them in psql:
//
//	SET bytea_output = 'escape';
//	SELECT id, queue, base, status, convert_from(rec, 'UTF8') FROM deadletter;
//
// The column base is the state, or the one that a claim ends in: the letter is
// claimed while claim_until, in microseconds since 1970, is ahead. A zero time
// is -62135596800000000. Of what a claim changes (state, replays and the claim
// itself) the columns are right, of everything else rec, which is the record as
// JSON.
//
// # What holds
//
//	what happens                       what the store does
//	several claim at once              each letter goes to one: FOR UPDATE SKIP LOCKED; SQLite has one writer
//	a claimer dies                     its lease ends, another gets the letter
//	it comes back late                 ErrClaimLost, by a number that grows with every claim
//	a client stops between statements  it holds no lock: no statement needs another in its transaction
//	a deadlock, a lost serialization   tried again: 40P01, 40001, 1213, 1020 and SQLite's busy, for 10 s at most
//	too many connections               the same: 53300, 1040, 1203; better is to bound the pool by SetMaxOpenConns
//	a reply is lost                    the letter is read again; it tells whether the change was done
//	a call ends before it knows        the error says "perhaps done"
//	the server hangs                   the call ends soon after its context, if the driver heeds contexts
//	a large payload                    stored in rows of 256 KiB, far below MySQL's max_allowed_packet
//	a payload was damaged              ErrCorrupt: its hash is checked. A claim quarantines the letter
//	a client dies in a Put             no letter, and a payload that Purge removes a day later
//
// A Put that has begun goes on when its context is cancelled, but ends at its
// deadline, or after 30 s without one. Put again what was perhaps done: it is one
// letter, at worst with one failure too many.
//
// Leases are timed by the clocks of the hosts: keep those within a small part of
// a lease, or set ServerTime.
//
// # Settings
//
//	PostgreSQL  any isolation; behind a pooler as the driver says
//	MySQL       any sql_mode and isolation. READ COMMITTED locks least
//	SQLite      set busy_timeout and journal_mode=WAL in the DSN, as the driver says
//
// With SQLite all changes wait for each other, and a process that is stopped in
// the middle of one makes the others wait until their context ends.
//
// # Limits
//
// Payloads up to MaxPayload and records as every store's, else
// deadletter.ErrTooLarge; names of queues up to 256 bytes, of claimers up to 1
// KiB; 30,000 ids in a filter. List reads all that it yields into memory first,
// some KB a letter, and Stats the columns of all letters that match.
//
// # What it does not do
//
// It does not migrate, encrypt, or delete what is old by itself: call Purge. It
// does not open or close the database, nor scrub what it is given: the
// [deadletter.Queue] does. The command deadletter is for journals; letters in SQL
// are looked at with SQL, package inspect or deadletter.Replay.
package sqlstore
