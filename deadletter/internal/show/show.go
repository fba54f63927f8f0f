// Package show turns what letters hold into text that a terminal or a page only
// shows: nothing in it moves the cursor, turns its direction or is invisible.
package show

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Printable returns s as one line that is only shown: what would move the
// cursor, change colours, hide text or turn its direction is escaped, and so is
// what is no UTF-8.
func Printable(s string) string { return escaped(s, false) }

// Lines is Printable but keeps line feeds and tabs.
func Lines(s string) string { return escaped(s, true) }

func escaped(s string, lines bool) string {
	plain := true
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r), lines && (r == '\n' || r == '\t'):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		i += n
	}
	return b.String()
}

// Short is the beginning of s as one line of at most n characters.
func Short(s string, n int) string {
	if len(s) > 8*n {
		s = s[:8*n] // a line of many megabytes is only cut; half a character at the end is cut again
	}
	r := []rune(Printable(s))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}

// OrDash stands for what is not there, so that columns can be cut.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// When is a time of day, in UTC.
func When(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// Status is an HTTP status; 0 is no answer.
func Status(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// Size is a number of bytes for people.
func Size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f := float64(n)
	for _, unit := range []string{"kB", "MB", "GB"} {
		f /= 1000
		if f < 999.5 {
			return fmt.Sprintf("%.3g %s", f, unit)
		}
	}
	return fmt.Sprintf("%.0f TB", f/1000)
}

// Count is a number and its noun.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
