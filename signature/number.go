package signature

import "bytes"

// number handles a run of digits: a code that tells failures apart is kept, an
// amount is folded.
func (z *scanner) number(i, j int) {
	if z.keepNumber(i, j) {
		z.copy(i, j, 0)
		return
	}
	if z.versionNumber(i, j) {
		e := j
		for z.at(e) == '.' && isDigit(z.at(e+1)) {
			e += 2
		}
		z.copy(i, e, 0)
		return
	}
	if j-i >= 6 {
		z.wild = j
	}
	z.i = j
	z.fold(kindNumber)
}

// context is what stands before a value: the last word of the template and the
// separators between it and the value.
type context struct {
	word  []byte // letters only, may be empty
	at    int    // where the word begins in the template
	space bool
	colon bool
	equal bool
	paren bool
	quote bool
	sep   int // number of separators
}

// look reads the context before position n of the template.
func (z *scanner) look(n int) (c context) {
	d := z.dst
	e := n
	for e > z.base && n-e < 5 {
		switch d[e-1] {
		case ' ':
			c.space = true
		case ':':
			c.colon = true
		case '=', '>':
			p := byte(0)
			if e-2 >= z.base {
				p = z.dst[e-2]
			}
			if d[e-1] == '>' && p != '-' && p != '=' || p == '<' || p == '!' || p == '>' {
				break // a comparison, or the end of a tag
			}
			c.equal = true
		case '(', '[':
			c.paren = true
		case '"', '\'', '`', '\\':
			c.quote = true
		default:
			goto word
		}
		e--
	}
word:
	c.sep = n - e
	a := e
	for a > z.base && class[d[a-1]]&cLetter != 0 && e-a < 24 {
		a--
	}
	c.word, c.at = d[a:e], a
	return c
}

// keepNumber decides about the number s[i:j]. The value alone never decides:
// "200 rows" is an amount, "upstream 503" is a status.
func (z *scanner) keepNumber(i, j int) bool {
	n := j - i
	if n > 7 {
		return false
	}
	if z.sqlState(i, j) {
		return true
	}
	// A part of something longer: 503ms never comes here, 503.25, 1,503, 10:503 do.
	next := z.at(j)
	switch next {
	case '.', ',', ':', '/':
		if isDigit(z.at(j + 1)) {
			return false
		}
	case '%', '_', '+':
		return false
	case '-':
		if isAlnum(z.at(j + 1)) {
			return false
		}
	}
	d := len(z.dst)
	if d > z.base && z.dst[d-1] == '-' && (d-1 == z.base || opens(z.dst[d-2])) {
		d-- // a signed code: -32601
	}
	if d == z.base {
		return d == len(z.dst) && statusNumber(z.s[i:j]) > 0 && z.firstStatus(i, j)
	}
	if (z.dst[d-1] == '_' || z.dst[d-1] == '-') && d == len(z.dst) && statusNumber(z.s[i:j]) > 0 {
		w := z.look(d - 1).word
		return string(w) == "http" || string(w) == "status" // HTTP_503
	}
	c := z.look(d)
	if c.sep == 0 && len(c.word) > 0 || c.sep == 0 && z.dst[d-1] != '/' {
		return false
	}
	if isCodeWord(c.word) {
		return !isCounted(z.nextWord(j))
	}
	if c.paren && c.colon && next == ')' && n <= 3 && len(c.word) > 0 && z.beginsClause(c.at) {
		return true // the program's number for it: "curl: (6) Could not resolve host"
	}
	if c.paren && z.dst[d-1] == '(' && next == ',' && n >= 3 && n <= 5 && z.proseFollows(j+1) {
		return true // a code and its text, as Python prints them
	}
	status := statusNumber(z.s[i:j])
	switch string(c.word) {
	case "status":
		return n <= 3
	case "signal":
		return n <= 2
	case "error", "errors", "err":
		if c.paren && !c.space {
			return n <= 5
		}
		if n == 4 || n == 5 {
			return next == ':' || z.at(z.blanks(j)) == '(' || next == ')'
		}
		if next == ')' {
			return true
		}
	case "exited", "exit":
		return n <= 3
	case "with":
		if p := z.look(c.at); string(p.word) == "exited" {
			return n <= 3
		}
	case "close":
		return n == 4 && z.at(z.blanks(j)) == '('
	}
	if status == 0 || d != len(z.dst) {
		return false
	}
	return z.keepStatus(c, status, j)
}

// endsClause reports whether what follows a number leaves it standing alone,
// so that it cannot be an amount of something.
func (z *scanner) endsClause(j int) bool {
	w := z.nextWord(j)
	if w == "" {
		return true
	}
	switch lw := lowerWord(w); string(lw.b[:lw.n]) {
	case "from", "for", "on", "after", "while", "when", "with", "at", "by", "but", "and", "to", "because", "since", "instead",
		"error", "response", "status", "again", "reply", "body", "via", "is", "was", "in", "during", "code", "try", "retry", "retrying":
		return true
	}
	return false
}

// nextWord gives the word behind position j when only blanks, or nothing, are
// between them, else "".
func (z *scanner) nextWord(j int) string {
	j = z.blanks(j)
	e := j
	for e < z.end && class[z.s[e]]&cLetter != 0 && e-j < 20 {
		e++
	}
	if e < z.end && (class[z.s[e]]&cDigit != 0 || z.s[e] == mark) {
		return ""
	}
	return z.s[j:e]
}

// isCounted reports whether w is a noun that numbers count: a plural or a unit.
func isCounted(w string) bool {
	n := len(w)
	if n == 0 {
		return false
	}
	if isUnit(w) {
		return true
	}
	lw := lowerWord(w)
	switch string(lw.b[:lw.n]) {
	case "of", "out", "row", "token", "item", "byte", "line", "page", "try", "entry", "file", "record", "message", "chunk", "char", "percent",
		"attempt", "call", "event", "job", "node", "worker", "document", "k", "m", "b", "x", "more", "less", "other", "people", "children":
		return true
	case "this", "status", "address", "was", "is", "has", "does", "its", "as", "always":
		return false
	}
	if n < 4 || lower[w[n-1]] != 's' {
		return false
	}
	switch lower[w[n-2]] {
	case 's', 'u', 'i':
		return false
	}
	return true
}

// proseFollows reports whether a quoted text of several words follows.
func (z *scanner) proseFollows(j int) bool {
	k := z.blanks(j)
	if q := z.at(k); q != '"' && q != '\'' {
		return false
	}
	e := k + 1
	for class[z.at(e)]&cLetter != 0 {
		e++
	}
	next := z.blanks(e)
	return e-k > 3 && next > e && class[z.at(next)]&cLetter != 0
}

// beginsClause reports whether the word at a is the first of the template or
// stands behind a colon.
func (z *scanner) beginsClause(a int) bool {
	d := z.dst[z.base:a]
	n := len(d)
	return n == 0 || n >= 2 && d[n-1] == ' ' && d[n-2] == ':'
}

// isCodeWord reports whether the number behind w is a code.
func isCodeWord(w []byte) bool {
	switch string(w) {
	case "code", "statuscode", "errorcode", "errcode", "exitcode", "responsecode", "httpcode", "returncode", "retcode", "resultcode",
		"subcode", "httpstatus", "responsestatus", "httpstatuscode", "sqlcode", "rc", "errno", "winerror", "sqlstate", "hresult", "ntstatus",
		"faultcode", "reasoncode", "closecode", "grpcstatus", "apistatus", "statuscodes":
		return true
	}
	return false
}

// sqlState reports whether s[i:j] is an SQLSTATE as lib/pq writes it, alone in
// parentheses.
func (z *scanner) sqlState(i, j int) bool {
	const driver = "pq: "
	d := z.dst[z.base:]
	if j-i != 5 || z.at(j) != ')' || len(d) == 0 || d[len(d)-1] != '(' {
		return false
	}
	k := bytes.Index(d, []byte(driver))
	return k == 0 || k > 0 && d[k-1] == ' '
}

// codeValue keeps a code of letters and digits: SQLSTATE 42P01, 0x80070005.
func (z *scanner) codeValue(i, j int) bool {
	if z.sqlState(i, j) {
		return true
	}
	if j-i > 10 || isAlnum(z.at(j)) || z.at(j) == '-' && isAlnum(z.at(j+1)) {
		return false
	}
	c := z.look(len(z.dst))
	return c.sep > 0 && isCodeWord(c.word) && !(isDigit(z.s[i]) && isUnit(lettersOf(z.s[i:j])))
}

func lettersOf(s string) string {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return s[i:]
		}
	}
	return ""
}

// versionNumber keeps the version of a protocol: TLS 1.3.
func (z *scanner) versionNumber(i, j int) bool {
	if j-i != 1 || isAlnum(z.at(j)) {
		return false
	}
	d := z.dst[z.base:]
	n := len(d)
	if n > 0 && d[n-1] == 'v' {
		n--
	}
	if n > 0 && (d[n-1] == ' ' || d[n-1] == '/' || d[n-1] == '-') {
		n--
	}
	if n < 3 || d[n-1] != 's' && d[n-1] != 'l' {
		return false
	}
	p := d[n-3 : n]
	return (string(p) == "tls" || string(p) == "ssl") && (n == 3 || !isAlnum(d[n-4]))
}
