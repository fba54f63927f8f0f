package redact

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// minSent is the shortest credential that is looked for: a shorter one would be
// found in any text.
const minSent = 8

// Sent returns s without the credentials that req carries. It is SentBy for one
// text. req may be nil.
func Sent(s string, req *http.Request) string {
	if s == "" || req == nil {
		return s
	}
	return SentBy(req)(s)
}

// SentBy returns a function that takes the credentials that req carries out of a
// text, in any spelling of case and as JSON or a URL may escape them. Upstreams
// echo them, and a key of no known shape can be told from a word only by whoever
// sent it. The function does not hold on to req, and returns the text itself
// when there is nothing to hide.
func SentBy(req *http.Request) func(s string) string {
	found := credentials(req)
	return func(s string) string {
		for _, secret := range found {
			s = replace(s, secret)
		}
		return s
	}
}

// credentials returns what must not be kept of req, longest first: the values of
// headers, cookies and parameters that are secret by their name or look like a
// key, passwords, and users that look like a key.
func credentials(req *http.Request) []string {
	var found []string
	add := func(how secrecy, value string) {
		if len(value) >= minSent && value != mark && (how == strong || random(value)) && !slices.Contains(found, value) {
			found = append(found, value)
		}
	}
	pair := func(name, value string) {
		if rank(name) > parameter {
			add(strong, value)
		}
		add(open, value) // code=completed is a word, and so is state=
	}
	for name, values := range req.Header {
		if slices.Contains(kept[:], http.CanonicalHeaderKey(name)) {
			continue
		}
		for _, v := range values {
			add(rank(name), v)
			// Behind its scheme, or as one of several cookies.
			for _, part := range strings.FieldsFunc(v, func(c rune) bool { return strings.ContainsRune(" ;,\"", c) }) {
				name, value, _ := strings.Cut(part, "=")
				add(open, name)
				pair(name, strings.Trim(value, "="))
			}
			if scheme, token, ok := strings.Cut(v, " "); ok && len(scheme) < minSent {
				add(rank(name), strings.TrimSpace(token))
			}
		}
	}
	user, password, _ := req.BasicAuth()
	add(open, user)
	add(strong, password)
	if u := req.URL; u != nil {
		add(open, u.User.Username())
		password, _ := u.User.Password()
		add(strong, password)
		for name, values := range u.Query() {
			for _, v := range values {
				pair(name, v)
			}
		}
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return found
}

// replace puts the mark in the place of every secret in s, however it is spelled.
func replace(s, secret string) string {
	var out strings.Builder
	done := 0 // how much of s is in out
	first := lower(secret[0])
	for i := 0; i < len(s); {
		n := 0
		if c := s[i]; lower(c) == first || c == '\\' || c == '%' || c == '+' {
			// A secret may have in it what begins an escape, escaped or as it is.
			if n = spelled(s[i:], secret, true); n == 0 {
				n = spelled(s[i:], secret, false)
			}
		}
		if n == 0 {
			i++
			continue
		}
		out.WriteString(s[done:i] + mark)
		i += n
		done = i
	}
	if done == 0 {
		return s
	}
	return out.String() + s[done:]
}

// spelled returns how many bytes of s, from its first, spell the secret; 0 when
// they do not. What can be read as an escape or as it is, is read as an escape if
// escapes says so.
func spelled(s, secret string, escapes bool) int {
	n := 0
	for secret != "" {
		if n == len(s) {
			return 0
		}
		c := s[n]
		plain := lower(c) == lower(secret[0]) || c == '+' && secret[0] == ' '
		if !plain || escapes {
			if char, size := escaped(s[n:]); size > 0 && begins(secret, char) {
				n, secret = n+size, secret[len(char):]
				continue
			}
		}
		if !plain {
			return 0
		}
		n, secret = n+1, secret[1:]
	}
	return n
}

// begins reports whether s begins with char in either case.
func begins(s, char string) bool {
	if len(char) > len(s) {
		return false
	}
	for i := range len(char) {
		if lower(char[i]) != lower(s[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// maxSlashes is how many backslashes are looked behind: those of JSON in JSON in
// JSON.
const maxSlashes = 7

// escaped returns the character that s begins with in the escapes of JSON, in
// those of JSON in JSON, or in those of a URL, and the length of the escape; 0
// when there is none.
func escaped(s string) (char string, size int) {
	n := 0
	for n < maxSlashes && n < len(s) && s[n] == '\\' {
		n++
	}
	switch {
	case n > 0 && len(s) > n+4 && s[n] == 'u':
		if r, err := strconv.ParseUint(s[n+1:n+5], 16, 16); err == nil {
			return string(rune(r)), n + 5
		}
	case n > 0 && len(s) > n:
		return s[n : n+1], n + 1
	case len(s) > 2 && s[0] == '%':
		if b, err := strconv.ParseUint(s[1:3], 16, 8); err == nil {
			return string([]byte{byte(b)}), 3
		}
	}
	return "", 0
}
