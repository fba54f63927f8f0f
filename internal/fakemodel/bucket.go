package fakemodel

import "time"

// A bucket holds tokens and is refilled at rate tokens a minute. It counts in
// units of a token divided by the nanoseconds of a minute, in which a rate is
// a whole number of units per nanosecond: nothing is ever rounded.
type bucket struct {
	rate  int64 // tokens a minute; 0 = no limit
	size  int64 // units
	level int64 // units, 0 to size
	at    time.Time
}

const unitsPerToken = int64(time.Minute)

func newBucket(rate, size int, now time.Time) bucket {
	full := int64(size) * unitsPerToken
	return bucket{rate: int64(rate), size: full, level: full, at: now}
}

// advance refills b up to now. A clock that went back refills nothing.
func (b *bucket) advance(now time.Time) {
	if b.rate == 0 {
		return
	}
	elapsed := int64(now.Sub(b.at))
	if elapsed <= 0 {
		return
	}
	b.at = now
	if missing := b.size - b.level; elapsed > missing/b.rate {
		b.level = b.size
		return
	}
	b.level += elapsed * b.rate
}

// wait is the time until n tokens are there, 0 if they are now. Call advance
// before.
func (b *bucket) wait(n int64) time.Duration {
	if b.rate == 0 {
		return 0
	}
	return ceilDiv(n*unitsPerToken-b.level, b.rate)
}

// fits says whether a full bucket would have n tokens.
func (b *bucket) fits(n int64) bool {
	return b.rate == 0 || n <= b.size/unitsPerToken
}

// take removes n tokens, or what is there.
func (b *bucket) take(n int64) {
	if b.rate != 0 {
		b.level = max(0, b.level-n*unitsPerToken)
	}
}

// left is the number of whole tokens.
func (b *bucket) left() int64 { return b.level / unitsPerToken }

// reset is the time until b is full.
func (b *bucket) reset() time.Duration { return ceilDiv(b.size-b.level, b.rate) }

func ceilDiv(units, rate int64) time.Duration {
	if units <= 0 {
		return 0
	}
	return time.Duration((units-1)/rate + 1)
}

// A window lets limit calls pass in every length of time, counted from its
// start.
type window struct {
	limit  int64 // 0 = no limit
	length time.Duration
	start  time.Time
	used   int64
}

func (w *window) advance(now time.Time) {
	if gone := now.Sub(w.start) / w.length; gone > 0 {
		w.start = w.start.Add(gone * w.length)
		w.used = 0
	}
}

// wait is the time until a call may pass, 0 if it may now. Call advance
// before.
func (w *window) wait(now time.Time) time.Duration {
	if w.limit == 0 || w.used < w.limit {
		return 0
	}
	return w.start.Add(w.length).Sub(now)
}

func (w *window) take() {
	if w.used < w.limit {
		w.used++
	}
}

// A quota is what a UTC day may use.
type quota struct {
	limit int64 // 0 = none
	day   string
	used  int64
}

func (q *quota) advance(now time.Time) {
	if day := now.UTC().Format(time.DateOnly); day != q.day {
		q.day, q.used = day, 0
	}
}

func (q *quota) usedUp() bool { return q.limit != 0 && q.used >= q.limit }
