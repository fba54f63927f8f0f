package redact

import "strings"

// Text scrubs s: bearer tokens, known key shapes, URLs with secret parameters
// and key=value pairs whose name says secret. Scrubbing twice changes nothing.
// It returns s itself when there is nothing to hide.
func Text(s string) string {
	// A replacement can bring two things side by side that were apart.
	for range 4 {
		t := scrub(s)
		if t == s {
			return s
		}
		s = t
	}
	return s
}

// shapes are the prefixes of keys, with how much must follow for a key.
var shapes = [...]struct {
	prefix string
	rest   int
}{
	{"sk-", 8},
	{"sk_", 10},
	{"rk_", 10},
	{"pk_", 10},
	{"AIza", 10},
	{"ya29.", 10},
	{"AKIA", 12},
	{"ASIA", 12},
	{"ghp_", 10},
	{"gho_", 10},
	{"ghu_", 10},
	{"ghs_", 10},
	{"ghr_", 10},
	{"github_pat_", 10},
	{"glpat-", 10},
	{"xai-", 10},
	{"gsk_", 10},
	{"hf_", 16},
	{"r8_", 16},
	{"pplx-", 16},
	{"nvapi-", 10},
	{"xoxb-", 10},
	{"xoxp-", 10},
	{"eyJ", 20},
}

// plain are words that follow Bearer and Basic in prose.
var plain = map[string]bool{
	"token": true, "tokens": true, "auth": true, "authentication": true, "authorization": true, "header": true, "headers": true,
	"scheme": true, "format": true, "credentials": true, "credential": true, "realm": true, "error": true, "access": true,
	"authenticated": true, "support": true, "missing": true, "invalid": true, "required": true,
}

// scrub is one pass of Text.
func scrub(s string) string {
	var out []byte
	done := 0 // how much of s is in out
	for i := 0; i < len(s); {
		from, to, as := secret(s, i)
		if to <= from {
			i++
			continue
		}
		if s[from:to] != as {
			out = append(out, s[done:from]...)
			out = append(out, as...)
			done = to
		}
		i = to
	}
	if done == 0 && out == nil {
		return s
	}
	return string(append(out, s[done:]...))
}

// secret looks for a secret that is introduced at i, and returns where it
// stands and what to put there; an empty place when there is none.
func secret(s string, i int) (from, to int, as string) {
	c := s[i]
	start := i == 0 || !wordByte(s[i-1])
	switch {
	case c == ':' && strings.HasPrefix(s[i:], "://"):
		return userInfo(s, i+3)
	case c == '=' || c == ':':
		return pair(s, i)
	case !start:
		return 0, 0, ""
	case c == 'B' || c == 'b':
		return scheme(s, i)
	}
	for _, shape := range shapes {
		if c != shape.prefix[0] || !strings.HasPrefix(s[i:], shape.prefix) {
			continue
		}
		end := i + len(shape.prefix)
		for end < len(s) && keyByte(s[end]) {
			end++
		}
		if end-i-len(shape.prefix) >= shape.rest {
			return i, end, mark
		}
	}
	return 0, 0, ""
}

func wordByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

// keyByte is what keys are made of. Providers echo them with stars.
func keyByte(c byte) bool { return wordByte(c) || c == '-' || c == '*' || c == '.' }

// userInfo finds user:password@ behind ://.
func userInfo(s string, i int) (from, to int, as string) {
	at := -1
	for j := i; j < len(s) && !strings.ContainsRune("/?#\"'<>\\ \t\r\n", rune(s[j])); j++ {
		if s[j] == '@' {
			at = j
		}
	}
	if at < 0 {
		return 0, 0, ""
	}
	return i, at + 1, ""
}

// scheme finds the token behind Bearer or Basic.
func scheme(s string, i int) (from, to int, as string) {
	for _, name := range [...]string{"bearer", "basic"} {
		if len(s) <= i+len(name) || !strings.EqualFold(s[i:i+len(name)], name) {
			continue
		}
		from = i + len(name)
		for from < len(s) && s[from] == ' ' {
			from++
		}
		if from == i+len(name) {
			return 0, 0, ""
		}
		to = from
		for to < len(s) && (keyByte(s[to]) || strings.IndexByte("+/=~", s[to]) >= 0) {
			to++
		}
		word := strings.TrimRight(s[from:to], "=.")
		if len(word) < 4 || plain[strings.ToLower(word)] || word == mark || strings.HasPrefix(word, "realm=") {
			return 0, 0, ""
		}
		return from, to, mark
	}
	return 0, 0, ""
}

// pair finds the value behind name= or name:, as it stands in a query, in JSON,
// in a header or in prose.
func pair(s string, i int) (from, to int, as string) {
	end := i
	for s[i] == '=' && end > 0 && i-end < 4 && s[end-1] == ' ' {
		end--
	}
	if end > 0 && (s[end-1] == '"' || s[end-1] == '\'') {
		end--
		if end > 0 && s[end-1] == '\\' {
			end--
		}
	}
	begin := end
	for begin > 0 && (wordByte(s[begin-1]) || s[begin-1] == '-' || s[begin-1] == '.') && end-begin <= 64 {
		begin--
	}
	how := rank(s[begin:end])
	if how == open {
		return 0, 0, ""
	}
	from = i + 1
	for from < len(s) && s[from] == ' ' {
		from++
	}
	if from < len(s) && s[from] == '\\' {
		from++
	}
	var quote byte
	if from < len(s) && (s[from] == '"' || s[from] == '\'') {
		quote = s[from]
		from++
	}
	to = from
	for to < len(s) && !endsValue(s[to], quote) {
		to++
	}
	value := s[from:to]
	if w := strings.ToLower(value); quote == 0 && (w == "bearer" || w == "basic") {
		return 0, 0, "" // the scheme's own rule takes what follows
	}
	inQuery := s[i] == '=' && begin > 0 && (s[begin-1] == '?' || s[begin-1] == '&')
	switch {
	case value == "" || value == mark || value == "null":
		return 0, 0, ""
	case inQuery:
	case how == parameter && s[i] == ':', how != strong && !random(value), s[i] == ':' && quote == 0 && len(value) < 6:
		return 0, 0, ""
	case s[i] == ':' && quote == 0 && isWord(value) && complains(s, begin, end):
		return 0, 0, ""
	}
	return from, to, mark
}

// complaints are words that make of a secret's name an error code, or a
// sentence about the secret: what follows is then prose.
var complaints = [...]string{
	"invalid", "incorrect", "missing", "expired", "wrong", "bad", "unknown", "unrecognized", "revoked", "malformed",
	"unsupported", "empty", "no", "disabled", "inactive", "mismatched",
}

// complains reports whether the name at s[begin:end] begins with a complaint
// (invalid_api_key, InvalidSignature) or stands behind one (invalid signature).
func complains(s string, begin, end int) bool {
	before := strings.TrimSuffix(s[:begin], " ")
	for _, w := range complaints {
		if n := begin + len(w); n < end && strings.EqualFold(s[begin:n], w) && (!wordByte(s[n]) || s[n] == '_' || 'A' <= s[n] && s[n] <= 'Z') {
			return true
		}
		if n := len(before) - len(w); n >= 0 && len(before) == begin-1 && strings.EqualFold(before[n:], w) && (n == 0 || !wordByte(before[n-1])) {
			return true
		}
	}
	return false
}

// isWord reports whether v is a word of letters, with what ends a sentence.
func isWord(v string) bool {
	v = strings.TrimRight(v, ".:!?")
	for i := range len(v) {
		if c := v[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return v != ""
}

func endsValue(c, quote byte) bool {
	if quote != 0 {
		return c == quote || c == '\\' || c == '\n'
	}
	switch c {
	case ' ', '\t', '\r', '\n', '"', '\'', '\\', '&', ',', ';', ')', ']', '}', '<', '>', '#':
		return true
	}
	return false
}

// random reports whether a value looks like a key rather than a word or a
// number.
func random(v string) bool {
	if len(v) < 16 {
		return false
	}
	letters, digits := false, false
	for i := range len(v) {
		c := v[i]
		digits = digits || '0' <= c && c <= '9'
		letters = letters || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	return letters && digits
}
