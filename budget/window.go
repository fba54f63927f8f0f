package budget

import (
	"errors"
	"strings"
	"time"
)

// A Window cuts time into the stretches that a limit is for. Implementations
// must be safe for concurrent use and answer the same question always the
// same.
type Window interface {
	// Key names the window that t is in. It is part of the store's key: a few
	// bytes of printable ASCII without spaces.
	Key(t time.Time) string
	// End returns the first instant after t whose Key is another.
	End(t time.Time) time.Time
}

// Daily is the calendar day in loc. Its key is the local date, not the instant
// of midnight, which does not exist on every day: in Santiago, Cairo, Beirut
// and Havana some days begin at 01:00. A day has 23 to 25 hours.
//
// Name the zone in which the provider resets, since a job that counts UTC days
// against a Pacific reset is wrong for hours. A nil loc, such as a failed
// time.LoadLocation leaves, is reported by [New].
func Daily(loc *time.Location) Window { return window{loc, "2006-01-02", day} }

// Monthly is the calendar month in loc. See [Daily] for loc.
func Monthly(loc *time.Location) Window { return window{loc, "2006-01", month} }

// Hourly is the hour of the clock in loc. The key carries the offset from UTC,
// so that the hour a clock repeats in autumn is two windows. See [Daily] for
// loc.
func Hourly(loc *time.Location) Window { return window{loc, "2006-01-02T15-0700", hour} }

// Minutely is the minute of the clock in loc. For pacing many workers within
// the minute use a [Pacer]: a window that is used up lets nobody go before it
// ends, and then all at once. See [Daily] for loc.
func Minutely(loc *time.Location) Window { return window{loc, "2006-01-02T15:04-0700", minute} }

// The lengths in seconds of windows that have one in local time.
const (
	month  = 0
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

type window struct {
	loc    *time.Location
	layout string
	length int64 // local seconds; month = by the calendar
}

func (w window) Key(t time.Time) string { return t.In(w.loc).Format(w.layout) }

// End walks from one change of the zone's offset to the next. Between two of
// them local time is arithmetic; at one it may jump over the boundary, or back
// before it.
func (w window) End(t time.Time) time.Time {
	t = t.In(w.loc)
	key := w.Key(t)
	for {
		next := w.boundary(t)
		_, change := t.ZoneBounds()
		if change.IsZero() || next.Before(change) {
			return next
		}
		if w.Key(change) != key {
			return change.In(w.loc)
		}
		t = change.In(w.loc)
	}
}

// boundary returns the next multiple of the window's length in local time, as
// if the offset at t held for ever.
func (w window) boundary(t time.Time) time.Time {
	_, offset := t.Zone()
	if w.length == month {
		y, m, _ := t.Date()
		first := time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
		return time.Unix(first.Unix()-int64(offset), 0).In(w.loc)
	}
	local := t.Unix() + int64(offset)
	into := local % w.length
	if into < 0 { // before 1970
		into += w.length
	}
	return time.Unix(t.Unix()-into+w.length, 0).In(w.loc)
}

func checkWindow(w Window, now time.Time) error {
	if w, ok := w.(window); ok && w.loc == nil {
		return errors.New("Window: the location is nil (did time.LoadLocation fail?)")
	}
	if !keyText(w.Key(now)) {
		return errors.New("Window: Key must be 1 to 64 bytes of printable ASCII without spaces")
	}
	if !w.End(now).After(now) {
		return errors.New("Window: End must be later than the time it is asked for")
	}
	return nil
}

func keyText(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '|' {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// span is one window as a budget uses it: everything that is the same for all
// reservations in it.
type span struct {
	key       string    // the window's
	from, end time.Time // key is valid in [from, end)
	keep      time.Duration
	keys      []string   // the store's keys: the pool's, then each owner's
	cells     []*counter // a Memory's counters of these, as far as they are known
}

// The bounds on how long a counter is kept after its window has ended, for
// calls that settle late and for people who look afterwards.
const (
	minKeep = time.Hour
	maxKeep = 48 * time.Hour
)

// newSpan returns the span of the window around now.
func (b *Budget) newSpan(now time.Time) *span {
	now = now.Round(0)
	end := b.window.End(now).Round(0)
	s := &span{
		key: b.window.Key(now), from: now, end: end,
		keep: min(max(2*b.window.End(end).Sub(end), minKeep), maxKeep),
	}
	pool := escape(b.name) + "|" + s.key
	s.keys = append(s.keys, pool)
	for _, o := range b.owners {
		s.keys = append(s.keys, pool+"|"+escape(o.Name))
	}
	s.cells = make([]*counter, len(s.keys))
	return s
}

// span returns the span that now is in. A clock that was set back finds the
// earlier window again, with its counters.
func (b *Budget) span(now time.Time) *span {
	s := b.current.Load()
	if s == nil || now.Before(s.from) || !now.Before(s.end) {
		s = b.newSpan(now)
		b.current.Store(s)
	}
	return s
}

// expire is how long a counter created now is to be kept.
func (s *span) expire(now time.Time) time.Duration { return s.end.Sub(now) + s.keep }

// cutKey returns the budget's name and the window in a store's key, as newSpan
// puts them together.
func cutKey(key string) (name, window string) {
	name, rest, _ := strings.Cut(key, "|")
	window, _, _ = strings.Cut(rest, "|")
	return name, window
}
