package modelapi

import (
	"math"
	"net/http"
	"strings"
	"time"
)

const forever = time.Duration(math.MaxInt64)

// ParseHint returns how long the headers ask to wait: retry-after-ms,
// x-ms-retry-after-ms, Retry-After in seconds, fractions or one of the three
// date forms against now, then the reset of the rate-limit axis that stands at
// zero, the latest where there are several. Garbage and negative values are
// absent; what overflows saturates. A date in the past is 0, true. Where a
// header is there twice the longer wait stands, since a hint must not be
// undercut.
func ParseHint(h http.Header, now time.Time) (time.Duration, bool) {
	if d, ok := askedWait(h, now); ok {
		return d, true
	}
	return resetWait(h, now)
}

// askedWait is what the headers ask for in so many words.
func askedWait(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		for _, v := range h[name] {
			if d, is := decimal(strings.TrimSpace(v), time.Millisecond); is {
				wait, ok = max(wait, d), true
			}
		}
		if ok {
			return wait, true
		}
	}
	for _, v := range h["Retry-After"] {
		v = strings.TrimSpace(v)
		d, is := decimal(v, time.Second)
		if !is {
			var t time.Time
			if t, is = httpDate(v); is {
				d = max(0, t.Sub(now))
			}
		}
		if is {
			wait, ok = max(wait, d), true
		}
	}
	return wait, ok
}

// httpDate reads one of the three date forms of RFC 9110, section 5.6.7.
func httpDate(v string) (time.Time, bool) {
	t, err := http.ParseTime(v)
	return t, err == nil
}

// resetWait is the time to the latest reset among the rate-limit axes that
// stand at zero. The soonest would be an axis that is not the trouble.
func resetWait(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for name, values := range h {
		if len(values) == 0 || strings.TrimSpace(values[0]) != "0" {
			continue
		}
		reset, is := resetName(name)
		if !is {
			continue
		}
		if d, is := parseReset(strings.TrimSpace(h.Get(reset)), now); is {
			wait, ok = max(wait, d), true
		}
	}
	return wait, ok
}

// resetName returns the header that says when the axis that name tells the
// rest of is full again.
func resetName(name string) (string, bool) {
	lower := strings.ToLower(name)
	if !strings.Contains(lower, "ratelimit") {
		return "", false
	}
	i := strings.LastIndex(lower, "remaining")
	if i < 0 {
		return "", false
	}
	return lower[:i] + "reset" + lower[i+len("remaining"):], true
}

// parseReset reads the forms of a reset seen in practice: seconds, Unix seconds
// or milliseconds, a Go duration, RFC 3339, an HTTP date.
func parseReset(v string, now time.Time) (time.Duration, bool) {
	if d, ok := decimal(v, time.Second); ok {
		if d/time.Second <= 1e9 {
			return d, true
		}
		n, _ := decimal(v, 1)
		t := time.Unix(int64(n), 0)
		if n > 1e12 {
			t = time.UnixMilli(int64(n))
		}
		return max(0, t.Sub(now)), true
	}
	if d, err := time.ParseDuration(v); err == nil {
		return d, d >= 0
	}
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		return max(0, t.Sub(now)), true
	}
	if t, ok := httpDate(v); ok {
		return max(0, t.Sub(now)), true
	}
	return 0, false
}

// decimal reads digits with at most one decimal point as that many units. A
// part of a nanosecond counts as a whole one, and what is too large as forever.
// Signs, exponents and everything else are no number.
func decimal(v string, unit time.Duration) (time.Duration, bool) {
	whole, frac, _ := strings.Cut(v, ".")
	if whole == "" && frac == "" || !digits(whole) || !digits(frac) {
		return 0, false
	}
	var n time.Duration
	for _, c := range whole {
		d := time.Duration(c - '0')
		if n > (forever-d*unit)/10 {
			return forever, true
		}
		n = n*10 + d*unit
	}
	rest := false
	for _, c := range frac {
		d := time.Duration(c - '0')
		unit /= 10
		rest = rest || unit == 0 && d > 0
		if n > forever-d*unit {
			return forever, true
		}
		n += d * unit
	}
	if rest && n < forever {
		n++
	}
	return n, true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
