package budget_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones, also where the machine has none

	"github.com/nightfuse/nightfuse/budget"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func utc(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

// The hard days: no midnight in Santiago, Cairo, Beirut and Havana, an hour
// twice, days of 23 and 25 hours, and a date that never was in Apia.
func TestDailyMatrix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone, at, key, end string
	}{
		{"UTC", "2026-03-29T12:00:00Z", "2026-03-29", "2026-03-30T00:00:00Z"},
		{"UTC", "2026-12-31T23:59:59Z", "2026-12-31", "2027-01-01T00:00:00Z"},
		{"Asia/Tokyo", "2026-06-01T14:59:59Z", "2026-06-01", "2026-06-01T15:00:00Z"}, // BerriAI/litellm#34896
		{"Asia/Tokyo", "2026-06-01T15:00:00Z", "2026-06-02", "2026-06-02T15:00:00Z"},
		{"America/Los_Angeles", "2026-03-08T09:00:00Z", "2026-03-08", "2026-03-09T07:00:00Z"}, // 23 h
		{"America/Los_Angeles", "2026-11-01T08:30:00Z", "2026-11-01", "2026-11-02T08:00:00Z"}, // 25 h
		{"America/Santiago", "2026-09-05T12:00:00Z", "2026-09-05", "2026-09-06T04:00:00Z"},    // 24:00 becomes 01:00
		{"America/Santiago", "2026-09-06T04:00:00Z", "2026-09-06", "2026-09-07T03:00:00Z"},
		{"America/Santiago", "2026-04-05T02:30:00Z", "2026-04-04", "2026-04-05T04:00:00Z"}, // 24:00 becomes 23:00
		{"Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23", "2026-04-23T22:00:00Z"},     // 00:00 becomes 01:00
		{"Africa/Cairo", "2026-04-24T12:00:00Z", "2026-04-24", "2026-04-24T21:00:00Z"},
		{"Africa/Cairo", "2026-10-29T20:30:00Z", "2026-10-29", "2026-10-29T22:00:00Z"}, // 24:00 becomes 23:00
		{"Asia/Beirut", "2026-03-28T12:00:00Z", "2026-03-28", "2026-03-28T22:00:00Z"},  // 00:00 becomes 01:00
		{"Asia/Beirut", "2026-10-24T20:30:00Z", "2026-10-24", "2026-10-24T22:00:00Z"},  // 24:00 becomes 23:00
		{"America/Havana", "2026-03-07T12:00:00Z", "2026-03-07", "2026-03-08T05:00:00Z"},
		{"America/Havana", "2026-11-01T05:30:00Z", "2026-11-01", "2026-11-02T05:00:00Z"}, // 01:00 becomes 00:00
		{"Pacific/Apia", "2011-12-30T00:00:00Z", "2011-12-29", "2011-12-30T10:00:00Z"},   // no 30 December
		{"Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-31T10:00:00Z"},
		{"America/St_Johns", "2006-10-29T02:30:30Z", "2006-10-29", "2006-10-29T02:31:00Z"}, // 00:01 becomes 23:01 of the day before
		{"America/St_Johns", "2006-10-29T02:31:00Z", "2006-10-28", "2006-10-29T03:30:00Z"},
		{"UTC", "1969-12-31T23:00:00Z", "1969-12-31", "1970-01-01T00:00:00Z"},
	} {
		w := budget.Daily(zone(t, c.zone))
		at := utc(c.at)
		equal(t, c.zone+" key at "+c.at, w.Key(at), c.key)
		equal(t, c.zone+" end at "+c.at, w.End(at).UTC(), utc(c.end))
	}
}

// Whatever the zone does, End is the first second with another key.
func TestEndIsTheFirstInstantOfAnotherKey(t *testing.T) {
	t.Parallel()
	windows := map[string]func(*time.Location) budget.Window{
		"daily": budget.Daily, "hourly": budget.Hourly, "monthly": budget.Monthly, "minutely": budget.Minutely,
	}
	for _, name := range []string{"America/Santiago", "Africa/Cairo", "Asia/Beirut", "America/Havana", "America/Los_Angeles", "Asia/Tokyo", "UTC", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		loc := zone(t, name)
		for kind, window := range windows {
			w := window(loc)
			step := 37 * time.Minute
			if kind == "minutely" {
				step = 11 * time.Hour
			}
			for at := utc("2026-01-01T00:00:00Z"); at.Year() == 2026; {
				key, end := w.Key(at), w.End(at)
				if !end.After(at) || w.Key(end) == key || w.Key(end.Add(-time.Second)) != key || w.Key(end.Add(-time.Nanosecond)) != key {
					t.Fatalf("%s %s: at %v key %s, end %v with keys %s before and %s at it", name, kind, at, key, end, w.Key(end.Add(-1)), w.Key(end))
				}
				if kind == "minutely" {
					at = at.Add(step)
					continue
				}
				// No other key in between.
				for mid := at; mid.Before(end); mid = mid.Add(step) {
					if w.Key(mid) != key {
						t.Fatalf("%s %s: another key at %v, before the end %v", name, kind, mid, end)
					}
				}
				at = end
			}
		}
	}
}

// An hour that the clock repeats is two windows.
func TestRepeatedHour(t *testing.T) {
	t.Parallel()
	la := zone(t, "America/Los_Angeles")
	first, second := utc("2026-11-01T08:30:00Z"), utc("2026-11-01T09:30:00Z")
	for name, w := range map[string]budget.Window{"hourly": budget.Hourly(la), "minutely": budget.Minutely(la)} {
		if w.Key(first) == w.Key(second) {
			t.Errorf("%s: 01:30 is the same window twice: %s", name, w.Key(first))
		}
	}
}

// A reset that comes at the wrong midnight leaves the job refused for hours,
// or pays twice.
func TestResetAtLocalMidnight(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Asia/Shanghai", "America/Los_Angeles", "UTC"} {
		loc := zone(t, name)
		clk := mockAt(time.Date(2026, 7, 1, 21, 30, 0, 0, loc))
		b := mustNew(t, budget.Config{Limit: 100, Headroom: -1, Window: budget.Daily(loc), Clock: clk})
		mustReserve(t, b, "", 100)
		clk.Set(time.Date(2026, 7, 1, 23, 59, 59, 0, loc))
		e := mustRefuse(t, b, "", 1, budget.ErrExhausted)
		midnight := time.Date(2026, 7, 2, 0, 0, 0, 0, loc)
		if !e.Until.Equal(midnight) {
			t.Errorf("%s: until %v, want %v", name, e.Until, midnight)
		}
		clk.Set(midnight)
		mustReserve(t, b, "", 100)
		mustRefuse(t, b, "", 1, budget.ErrExhausted)
	}
	if _, err := time.LoadLocation("Mars/Olympus"); err == nil {
		t.Fatal("there is a zone of that name")
	}
	loc, _ := time.LoadLocation("Mars/Olympus")
	if _, err := budget.New(budget.Config{Limit: 100, Window: budget.Daily(loc)}); err == nil {
		t.Error("a zone that failed to load was taken for UTC")
	}
}
