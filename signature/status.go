package signature

import "bytes"

// keepStatus decides about a number that may be an HTTP status.
func (z *scanner) keepStatus(c context, status, j int) bool {
	if z.reasonFollows(j, status) {
		return true
	}
	if len(c.word) == 0 && z.httpVersion(c) || string(c.word) == "http" {
		return !isCounted(z.nextWord(j))
	}
	if len(c.word) == 0 && c.space && z.requestLine() {
		return !isCounted(z.nextWord(j))
	}
	strength := 0
	w := c
	for range 3 {
		if strength = statusWord(w.word); strength != 0 {
			break
		}
		if callFault(w.word) {
			strength = 2
			break
		}
		if !isFiller(w.word) {
			break
		}
		w = z.look(w.at)
	}
	if c.equal && c.word == nil {
		strength = 1
	}
	switch {
	case strength == 1, strength == 2 && c.colon:
		return z.endsClause(j) && !z.compares(w)
	case c.paren && z.at(j) == ')' || c.paren && z.at(j) == ']' && strength == 2:
		// Alone in parentheses, unless it counts the noun before it.
		return status >= 400 && len(c.word) > 0 && !isCounted(string(c.word)) && (c.space || faultName(c.word)) || strength != 0
	case c.equal && c.space: // "GET / -> 503"
		return z.endsClause(j)
	case c.colon && c.space && status >= 400 && (len(c.word) == 0 || c.quote):
		// Behind an URL, a quoted name or a folded item.
		return z.endsClause(j)
	}
	return false
}

// requestLine reports whether the template ends in a method and what it asked
// for, as access logs have it: "GET /v1/items 503".
func (z *scanner) requestLine() bool {
	d := z.dst[z.base:]
	n := len(d) - 1
	for n > 0 && d[n-1] != ' ' {
		n--
	}
	if n < 4 || !(len(d)-n == 2 && d[n] == mark || bytes.Contains(d[n:], []byte("://"))) {
		return false
	}
	n--
	a := n
	for a > 0 && class[d[a-1]]&cLetter != 0 {
		a--
	}
	switch string(d[a:n]) {
	case "get", "post", "put", "patch", "delete", "head", "options", "connect":
		return true
	}
	return false
}

// faultName reports whether w is the name of a kind of error, which may have
// a status for its argument: ApiException(503).
func faultName(w []byte) bool {
	for _, p := range [...]string{"error", "exception", "status", "code", "response", "http", "fault", "err"} {
		if bytes.HasSuffix(w, []byte(p)) {
			return true
		}
	}
	return false
}

// callFault reports whether w is the name of an error that calls end in, as
// ClientResponseError is and KeyError is not.
func callFault(w []byte) bool {
	if !bytes.HasSuffix(w, []byte("error")) && !bytes.HasSuffix(w, []byte("exception")) {
		return false
	}
	for _, p := range [...]string{"http", "response", "status", "client", "server", "api", "request", "gateway"} {
		if bytes.Contains(w, []byte(p)) {
			return true
		}
	}
	return false
}

// compares reports whether the word w stands in a comparison of amounts:
// "limit 8, got 404", "expected 3 columns, got 500". A bare "expected 200, got 503" is none.
func (z *scanner) compares(w context) bool {
	if string(w.word) != "got" && string(w.word) != "received" {
		return false
	}
	d := z.dst[z.base:w.at]
	n := len(d)
	for n > 0 && (d[n-1] == ' ' || d[n-1] == ',' || d[n-1] == ';' || d[n-1] == '(') {
		n--
	}
	noun := n
	for n > 0 && class[d[n-1]]&cLetter != 0 {
		n--
	}
	counted := n < noun
	if counted {
		if n == 0 || d[n-1] != ' ' {
			return false
		}
		n--
	}
	if n == 0 || d[n-1] != mark {
		return false
	}
	if counted {
		return true
	}
	n--
	for n > 0 && (d[n-1] == ' ' || d[n-1] == ':' || d[n-1] == '=') {
		n--
	}
	a := n
	for a > 0 && class[d[a-1]]&cLetter != 0 {
		a--
	}
	switch string(d[a:n]) {
	case "expected", "want", "wanted", "expecting":
		return false
	}
	return true
}

// firstStatus decides about a number the message starts with.
func (z *scanner) firstStatus(i, j int) bool {
	if z.reasonFollows(j, statusNumber(z.s[i:j])) {
		return true
	}
	k := z.blanks(j)
	switch c := z.at(j); {
	case k >= z.end:
		return !z.cut
	case c == ':', k > j && z.at(k) == '-':
		return true
	}
	return k > j && !isCounted(z.nextWord(j))
}

// httpVersion reports whether the context is a protocol version, as in an
// access log: "HTTP/1.1" 503.
func (z *scanner) httpVersion(c context) bool {
	d := z.dst[z.base:c.at]
	if len(d) == 0 || !isDigit(d[len(d)-1]) {
		return false
	}
	for _, p := range [...]string{"http/1.1", "http/1.0", "http/2", "http/2.0", "http/3", "http/3.0"} {
		if len(d) >= len(p) && string(d[len(d)-len(p):]) == p {
			return true
		}
	}
	return false
}

func isFiller(w []byte) bool {
	switch string(w) {
	case "with", "a", "an", "the", "was", "is", "of", "code", "as", "be", "by", "to", "after":
		return true
	}
	return false
}

// statusWord rates a word before a possible status: 1 if it announces one,
// 2 if it does so only in front of a colon or brackets, because it is numbered itself otherwise.
func statusWord(w []byte) int {
	switch string(w) {
	case "status", "http", "upstream", "last", "got", "returned", "returns", "return", "responded", "replied", "answered", "received",
		"saw", "gave", "says", "said", "reported", "reports", "failed", "rejected", "refused", "error", "err", "errored", "response", "httperror":
		return 1
	case "server", "backend", "gateway", "proxy", "api", "request", "reply", "answer", "failure", "result", "fetch", "download", "upload", "call",
		"message", "unexpected", "bad", "reason", "origin", "cause", "outcome", "unavailable", "exception", "clienterror", "servererror":
		return 2
	}
	return 0
}

// statusNumber reads an HTTP status, or gives 0.
func statusNumber(s string) int {
	if len(s) != 3 || s[0] < '1' || s[0] > '5' || !isDigit(s[1]) || !isDigit(s[2]) {
		return 0
	}
	return int(s[0]-'0')*100 + int(s[1]-'0')*10 + int(s[2]-'0')
}
