package signature

import (
	"math"
	"strings"
)

// span is a quotation being read.
type span struct {
	at   int    // where its opening quote is in the template
	end  int    // where its closing quote is in the message
	mark string // the closing quote
	keep bool   // what is quoted stays
}

// nothing is the position of a closing quote when none is awaited.
const nothing = math.MaxInt

// quoted handles the quote at i. n is 1 for a plain quote and 2 for one behind
// a backslash, as in JSON within JSON.
//
// A quoted token without blanks is a value and folds, quotes included; that is
// decided when the quotation closes, on what is left of it then. Kept are the
// keys of JSON, short codes behind type, code, status and the like, names of
// models, and everything with blanks in it, which is prose.
func (z *scanner) quoted(i, n int) {
	q := z.s[i]
	from := i - n + 1
	if d := z.dst; len(d) > z.base && !opensQuote(d[len(d)-1]) && (d[len(d)-1] < 0x80 || q == '\'') && !z.opened() {
		z.keepQuote(from, n) // an apostrophe, or a quote that closes
		return
	}
	if n == 1 && z.at(i+1) == q {
		z.i = i + 2 // an empty value is a value
		z.fold(kindQuoted)
		return
	}
	if z.blanks(i+1) > i+1 || i+1 >= z.end {
		z.keepQuote(from, n)
		return
	}
	j := z.closing(i+1, q, n)
	if j < 0 {
		z.keepQuote(from, n)
		return
	}
	inner := z.s[i+1 : j]
	if inner != "" && z.keepQuoted(inner) {
		z.keepQuote(from, n)
		z.copy(i+1, j, cUpper)
		z.keepQuote(j, n)
		return
	}
	z.open(from, n, j, z.s[j:j+n], z.isKey(j+n))
}

// open begins a quotation of n bytes at from that closes at j.
func (z *scanner) open(from, n, j int, mark string, keep bool) {
	if z.depth < len(z.spans) {
		z.spans[z.depth] = span{at: len(z.dst), end: j, mark: mark, keep: keep}
		z.depth++
		z.close = j
	}
	z.keepQuote(from, n)
}

// closing gives the position of the quote q that closes what begins at i,
// backslash included when n is 2, or -1. It never looks beyond the quotation
// it is in, nor a second time for a quote that is not there.
func (z *scanner) closing(i int, q byte, n int) int {
	idx := n - 1
	switch q {
	case '\'':
		idx += 2
	case '`':
		idx += 4
	}
	limit := min(z.end, z.close)
	if z.unclosed[idx] > i {
		return -1
	}
	if n == 1 && q != '\'' { // most often nothing stands in the way
		if k := strings.IndexByte(z.s[i:limit], q); k < 0 {
			z.unclosed[idx] = limit
			return -1
		} else if strings.IndexByte(z.s[i:i+k], '\\') < 0 {
			return i + k
		}
	}
	for j := i; j < limit; j++ {
		c := z.s[j]
		if c == '\\' && j+1 < limit {
			if n == 2 && z.s[j+1] == q {
				return j
			}
			if n == 1 {
				j++
			}
			continue
		}
		if c == q && n == 1 && (q != '\'' || j+1 >= z.end || !isAlnum(z.s[j+1]) && z.s[j+1] != mark && z.foreign(j+1) == 0) {
			return j
		}
	}
	z.unclosed[idx] = limit
	return -1
}

// closeQuote ends the innermost quotation.
func (z *scanner) closeQuote() {
	z.depth--
	sp := z.spans[z.depth]
	z.close = nothing
	if z.depth > 0 {
		z.close = z.spans[z.depth-1].end
	}
	if z.i > sp.end {
		return // swallowed by something greater, such as a secret
	}
	n := len(sp.mark)
	from := sp.at + n
	folded := len(z.dst) == from+1 && z.dst[from] == mark
	if folded || !sp.keep && len(z.dst) > from && isValue(z.dst[from:]) {
		k := kindQuoted
		if folded {
			k = kindNone
		}
		z.dst = z.dst[:sp.at]
		z.i += n
		z.fold(k)
		return
	}
	z.keepQuote(z.i, n)
}

// isValue reports whether what was quoted is one token that is no text of its
// own and no URL, whose host says something.
func isValue(t []byte) bool {
	if len(t) == 1 {
		return true // a character
	}
	for i, c := range t {
		switch c {
		case ' ', '"', '`', '{', '}':
			return false
		case ':':
			if i+2 < len(t) && t[i+1] == '/' && t[i+2] == '/' && i > 0 {
				return false
			}
		}
	}
	return true
}

// opensQuote reports whether a quote behind c opens: it stands at the
// beginning of a token.
func opensQuote(c byte) bool {
	if class[c]&cSpace != 0 {
		return true
	}
	switch c {
	case '(', '[', '{', '<', '>', '=', ':', ',', ';', '|', '/', '-', '+', '@', '\\', '&', '*', '~', '$':
		return true
	}
	return false
}

// opened reports whether a quotation was opened right before.
func (z *scanner) opened() bool {
	if z.depth == 0 {
		return false
	}
	sp := &z.spans[z.depth-1]
	return len(z.dst) == sp.at+len(sp.mark)
}

// keepQuote appends the n bytes of the quote at i.
func (z *scanner) keepQuote(i, n int) {
	z.dst = append(z.dst, z.s[i:i+n]...)
	z.i = i + n
}

// isKey reports whether the string that ends before k is the key of a JSON
// object or a Python dictionary: a colon follows, with the value right behind it
// or with an object's beginning or a comma before the key.
func (z *scanner) isKey(k int) bool {
	if z.at(k) != ':' || z.at(k+1) == ':' {
		return false
	}
	d := z.dst
	n := len(d)
	for n > z.base && d[n-1] == ' ' {
		n--
	}
	if n > z.base && (d[n-1] == '{' || d[n-1] == ',') {
		return true
	}
	return k+1 < z.end && z.blanks(k+1) == k+1
}

// keepQuoted reports whether a quoted token tells failures apart.
func (z *scanner) keepQuoted(t string) bool {
	if t == string(mark) {
		return false
	}
	if isAlnum(t[0]) && keptName(t) == len(t) {
		return true
	}
	if z.r.hooked && z.r.keeps(t) && isCode(t) {
		return true
	}
	c := z.look(len(z.dst))
	if c.sep == 0 {
		return false
	}
	if isCodeWord(c.word) || codeKey(c.word) {
		return isCode(t)
	}
	return string(c.word) == "model" && isName(t)
}

// codeKey reports whether the value behind w is a name out of a fixed set.
func codeKey(w []byte) bool {
	switch string(w) {
	case "type", "errortype", "exceptiontype", "status", "reason", "error", "kind", "domain", "exception", "errorname", "state",
		"message", "msg", "detail", "description", "class", "category", "severity", "level", "finishreason", "stopreason", "stop",
		"finish", "title", "errorclass":
		return true
	}
	return false
}

// isCode reports whether t looks like a code: letters and separators, few
// digits, short.
func isCode(t string) bool {
	if len(t) > 56 {
		return false
	}
	digits, run, b := 0, 0, uint8(0)
	for i := range len(t) {
		c := t[i]
		switch {
		case isDigit(c):
			digits++
		case class[c]&cLetter != 0:
			run++
			b |= class[c]
			continue
		case c == '_', c == '-', c == '.', c == '/':
		default:
			return false
		}
		if run >= 8 && randomLetters(t[i-run:i], b, false) {
			return false
		}
		run, b = 0, 0
	}
	if run >= 8 && randomLetters(t[len(t)-run:], b, false) {
		return false
	}
	return digits <= 6 && (digits == 0 || digits*2 <= len(t) || digits == len(t)) && randomFrom(t) < 0 && secretToken(t, len(t)) == 0
}

// isName reports whether t may be the name of a model: not an id.
func isName(t string) bool {
	if len(t) > 64 || isUUID(t) || class[t[0]]&cLetter == 0 || randomFrom(t) >= 0 || secretToken(t, len(t)) > 0 {
		return false
	}
	for i := range len(t) {
		if c := t[i]; !isAlnum(c) && c != '-' && c != '.' && c != '_' && c != ':' && c != '/' {
			return false
		}
	}
	return true
}
