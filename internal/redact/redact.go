// Package redact takes secrets out of what is kept or shown: URLs, headers and
// error texts. It is the one list of what counts as a secret.
//
// It would rather hide a word too many than keep a key, but it leaves status
// codes, provider codes and ids alone, since failures are told apart by them.
package redact

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// mark stands where a secret was.
const mark = "REDACTED"

// URL returns u without user information, with the values of secret query
// parameters replaced, in the fragment as well. Where that was all there was
// before the path, an empty one stays. u is not modified. It returns "" for nil.
func URL(u *url.URL) string {
	if u == nil {
		return ""
	}
	c := *u
	c.User = nil
	if u.User != nil && c.Scheme == "" && c.Host == "" {
		c.User = new(url.Userinfo) // else a path's // would begin a host
	}
	c.RawQuery = query(valid(c.RawQuery))
	if c.Fragment != "" {
		c.RawFragment = query(c.EscapedFragment())
		if plain, err := url.PathUnescape(c.RawFragment); err == nil {
			c.Fragment = plain
		}
	}
	return Text(c.String())
}

// valid escapes what url.Parse lets stand in a query and no URL has: it would end
// a value, and be escaped by whoever reads the result as a path.
func valid(raw string) string {
	const bad = " \"<>\\^`{|}"
	var out strings.Builder
	for i := range len(raw) {
		if c := raw[i]; c < ' ' || c >= 0x7f || strings.IndexByte(bad, c) >= 0 {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// query replaces the values of secret parameters and leaves order and spelling
// of the rest.
func query(raw string) string {
	if raw == "" {
		return raw
	}
	pairs := strings.Split(raw, "&")
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || value == "" {
			continue
		}
		plain, err := url.QueryUnescape(name)
		if err != nil {
			plain = name
		}
		if rank(plain) != open {
			pairs[i] = name + "=" + mark
		}
	}
	return strings.Join(pairs, "&")
}

// kept are the headers that may be kept.
var kept = [...]string{
	"Accept", "Anthropic-Beta", "Anthropic-Version", "Content-Encoding", "Content-Type", "Idempotency-Key", "Openai-Beta",
}

// Header returns the headers that may be kept: an allowlist, since a list of
// secret ones cannot keep up. The values are copies. It returns nil when there
// are none.
func Header(h http.Header) http.Header {
	var out http.Header
	for _, name := range slices.Sorted(maps.Keys(h)) {
		canonical := http.CanonicalHeaderKey(name)
		for _, k := range kept {
			if canonical != k {
				continue
			}
			if out == nil {
				out = make(http.Header)
			}
			for _, v := range h[name] {
				out[k] = append(out[k], Text(v))
			}
		}
	}
	return out
}

// Err returns err's text, scrubbed, at most limit bytes of valid UTF-8. The
// URL in a *url.Error is left out. It returns "" for nil.
func Err(err error, limit int) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	for _, u := range urls(err, nil, 64) {
		text = strings.ReplaceAll(text, " "+strconv.Quote(u), "")
	}
	// Far behind the limit nothing is shown, and some errors carry whole pages.
	text = cut(text, 4*max(limit, 0)+64<<10)
	return cut(Text(strings.ToValidUTF8(text, "\ufffd")), limit)
}

// urls collects the URLs of the *url.Errors in err's tree.
func urls(err error, to []string, depth int) []string {
	for ; err != nil && depth > 0; depth-- {
		var ue *url.Error
		if !errors.As(err, &ue) {
			return to
		}
		if e, ok := err.(*url.Error); ok && e.URL != "" {
			to = append(to, e.URL)
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				to = urls(e, to, depth-1)
			}
			return to
		default:
			return to
		}
	}
	return to
}

// cut returns the first n bytes of s, or fewer to keep characters whole.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n = max(n, 0)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
