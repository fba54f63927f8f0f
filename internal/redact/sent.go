package redact

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

// minSent is the shortest credential that is looked for: a shorter one would be
// found in any text.
const minSent = 8

// Sent returns s without the credentials that req carries, in any spelling of
// case. Upstreams echo them, and a key of no known shape can be told from a word
// only by whoever sent it. req may be nil.
func Sent(s string, req *http.Request) string {
	if s == "" || req == nil {
		return s
	}
	for _, secret := range credentials(req) {
		s = replaceFold(s, secret)
	}
	return s
}

// credentials returns what must not be kept of req, longest first: the values of
// headers and parameters that are secret by their name or look like a key, and
// passwords.
func credentials(req *http.Request) []string {
	var found []string
	add := func(how secrecy, value string) {
		if len(value) >= minSent && value != mark && (how == strong || random(value)) {
			found = append(found, value)
		}
	}
	for name, values := range req.Header {
		if slices.Contains(kept[:], http.CanonicalHeaderKey(name)) {
			continue
		}
		for _, v := range values {
			add(rank(name), v)
			// Behind its scheme, or as one of several cookies.
			for _, part := range strings.FieldsFunc(v, func(c rune) bool { return strings.ContainsRune(" ;,=\"", c) }) {
				add(open, part)
			}
			if scheme, token, ok := strings.Cut(v, " "); ok && len(scheme) < minSent {
				add(rank(name), strings.TrimSpace(token))
			}
		}
	}
	if _, password, ok := req.BasicAuth(); ok {
		add(strong, password)
	}
	if u := req.URL; u != nil {
		if password, ok := u.User.Password(); ok {
			add(strong, password)
		}
		for name, values := range u.Query() {
			for _, v := range values {
				if how := rank(name); how != open {
					add(strong, v)
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return found
}

// replaceFold puts the mark in the place of every old in s, whatever its case.
func replaceFold(s, old string) string {
	var out strings.Builder
	for {
		i := 0
		for i+len(old) <= len(s) && !strings.EqualFold(s[i:i+len(old)], old) {
			i++
		}
		if i+len(old) > len(s) {
			break
		}
		out.WriteString(s[:i] + mark)
		s = s[i+len(old):]
	}
	if out.Len() == 0 {
		return s
	}
	return out.String() + s
}
