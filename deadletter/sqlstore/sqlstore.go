package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/nils"
)

// Config says where a [Store] keeps its letters. DB and Dialect are required.
type Config struct {
	DB      *sql.DB // stays the caller's, who closes it
	Dialect Dialect
	Table   string // of the letters, perhaps "schema.table"; the others' names begin with it. "" = deadletter

	MaxPayload int64            // largest payload in bytes; 0 = deadletter.DefaultMaxPayload, at most 256 MiB
	Clock      deadletter.Clock // nil = real time
	ServerTime bool             // asks the server for the time, at one round trip a call; not with a Clock, nor with SQLite, which has none
	Logger     *slog.Logger     // nil = silent; hears of damage and of what could not be cleaned up
}

// maxMaxPayload is the largest payload a store can be told to keep, as in
// package deadletter.
const maxMaxPayload = 256 << 20

// Store is a [deadletter.Store] in the tables of a SQL database, for several
// processes on several hosts. Its methods are safe for concurrent use. The zero
// value is not usable; see [New].
type Store struct {
	db     *sql.DB
	d      Dialect
	t      tables
	max    int64
	now    func() time.Time
	server bool // asks the server for the time
	log    *slog.Logger
}

var _ deadletter.Store = (*Store)(nil)

// New returns a store over the tables that [Dialect.Schema] creates. It does not
// talk to the database: a missing table is the error of the first call. The
// error names every field that is missing or out of range.
func New(c Config) (*Store, error) {
	var errs []error
	if c.DB == nil {
		errs = append(errs, errors.New("deadletter/sqlstore: DB is missing"))
	}
	errs = append(errs, c.Dialect.check(), checkTable(c.Table))
	if c.MaxPayload < 0 || c.MaxPayload > maxMaxPayload {
		errs = append(errs, fmt.Errorf("deadletter/sqlstore: MaxPayload %d is not between 0 and %d", c.MaxPayload, maxMaxPayload))
	}
	errs = append(errs, nils.Field("deadletter/sqlstore: Clock", c.Clock))
	if c.ServerTime && c.Clock != nil {
		errs = append(errs, errors.New("deadletter/sqlstore: both Clock and ServerTime are set"))
	}
	if c.ServerTime && c.Dialect == SQLite {
		errs = append(errs, errors.New("deadletter/sqlstore: ServerTime with SQLite, which has no server"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s := &Store{db: c.DB, d: c.Dialect, t: tablesOf(c.Table), max: c.MaxPayload, now: time.Now, server: c.ServerTime, log: c.Logger}
	if s.max == 0 {
		s.max = deadletter.DefaultMaxPayload
	}
	if c.Clock != nil {
		s.now = c.Clock.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// begin returns the time of a call, which it does not begin when nobody waits.
func (s *Store) begin(ctx context.Context) (time.Time, error) {
	if ctx.Err() != nil {
		return time.Time{}, fmt.Errorf("deadletter/sqlstore: %w", context.Cause(ctx))
	}
	if !s.server {
		return s.now(), nil
	}
	var us int64
	err := s.try(ctx, func() error { return s.db.QueryRowContext(ctx, s.d.clock()).Scan(&us) })
	if err != nil {
		return time.Time{}, s.fail(ctx, "ask for the time", err)
	}
	return timeOf(us), nil
}

// micros returns t as the database keeps it; parts of a microsecond are cut off.
// A time that does not fit is the first or last that does.
func micros(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < math.MinInt64/1_000_000:
		return math.MinInt64
	case s >= math.MaxInt64/1_000_000:
		return math.MaxInt64
	}
	return t.UnixMicro()
}

// zeroMicros is the zero time.
var zeroMicros = time.Time{}.UnixMicro()

func timeOf(us int64) time.Time { return time.UnixMicro(us).UTC() }
