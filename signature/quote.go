package signature

// quoted handles the quote at i. n is 1 for a plain quote and 2 for one behind
// a backslash, as in JSON within JSON.
//
// A quoted token without blanks is a value and folds, quotes included. Kept
// are the keys of JSON, short codes behind type, code, status and the like,
// names of models, and everything with blanks in it, which is prose.
func (z *scanner) quoted(i, n int) {
	s := z.s[:z.end]
	q := s[i]
	from := i - n + 1
	if i == z.quote {
		z.quote = -1
		if d := z.dst; len(d) >= z.base+1+n && d[len(d)-1] == mark && string(d[len(d)-1-n:len(d)-1]) == s[from:i+1] {
			// Nothing but a mark between the quotes: a quoted value after all.
			z.dst = d[:len(d)-1-n]
			z.i = i + 1
			z.fold(kindNone)
			return
		}
		z.keepQuote(i, n)
		return
	}
	if p := z.before(from); from > 0 && !opensQuote(p) && (p < 0x80 || q == '\'') || i+1 >= len(s) {
		z.keepQuote(i, n) // an apostrophe, or a quote that closes
		return
	}
	j, blank := i+1, false
	for ; j < len(s) && j-i < maxQuote; j++ {
		c := s[j]
		if c == q && (n == 1 || s[j-1] == '\\') {
			break
		}
		if n == 1 && c == '\\' && j+1 < len(s) && s[j+1] == q {
			j++
			blank = true
			continue
		}
		blank = blank || class[c]&cSpace != 0
	}
	if j >= len(s) || j-i >= maxQuote {
		z.keepQuote(i, n)
		return
	}
	inner := s[i+1 : j-n+1]
	if blank || inner == "" || z.quote > i {
		if z.quote < i {
			if blank && (class[s[i+1]]&cSpace != 0 || q == '\'' && !closes(z.at(j+1))) {
				z.keepQuote(i, n)
				return
			}
			z.quote = j
		}
		z.keepQuote(i, n)
		return
	}
	if z.isKey(from, j) || z.keepQuoted(inner) {
		z.quote = j
		z.keepQuote(i, n)
		return
	}
	if z.r.hooked && z.r.keeps(inner) {
		z.quote = j
		z.keepQuote(i, n)
		return
	}
	z.i = j + 1
	z.fold(kindQuoted)
}

// opensQuote reports whether a quote behind c opens: it stands at the beginning of a token.
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

// closes reports whether c may stand behind a closing quote.
func closes(c byte) bool { return !isAlnum(c) }

// keepQuote appends the quote at i with its backslash.
func (z *scanner) keepQuote(i, n int) {
	z.dst = append(z.dst, z.s[i-n+1:i+1]...)
	z.i = i + 1
}

// isKey reports whether the string that ends at j is the key of a JSON object
// or a Python dictionary: a colon follows and a value behind it, and an object
// or a comma goes before.
func (z *scanner) isKey(i, j int) bool {
	k := j + 1
	if z.at(k) != ':' {
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
	switch z.at(k + 1) {
	case '"', '{', '[', '\\':
		return true
	}
	return false
}

// keepQuoted reports whether a quoted token tells failures apart.
func (z *scanner) keepQuoted(t string) bool {
	if t == string(mark) {
		return false
	}
	for k := 0; k+2 < len(t); k++ {
		if t[k] == ':' && t[k+1] == '/' && t[k+2] == '/' && k > 0 && isAlnum(t[k-1]) {
			return true // an URL, which keeps its host
		}
	}
	if isAlnum(t[0]) && keptName(t) == len(t) {
		return true
	}
	c := z.look(len(z.dst))
	if c.sep == 0 {
		return false
	}
	if isCodeWord(c.word) || codeKey(c.word) {
		return isCode(t)
	}
	if string(c.word) == "model" {
		return isName(t)
	}
	return false
}

// codeKey reports whether the value behind w is a name out of a fixed set.
func codeKey(w []byte) bool {
	switch string(w) {
	case "type", "errortype", "exceptiontype", "status", "reason", "error", "kind", "domain", "exception", "errorname", "state",
		"message", "msg", "detail", "description", "class", "category", "severity", "level", "finishreason", "stopreason", "stop", "finish", "title", "errorclass", "errcode":
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
	digits := 0
	for i := range len(t) {
		c := t[i]
		switch {
		case isDigit(c):
			digits++
		case class[c]&cLetter != 0, c == '_', c == '-', c == '.', c == ' ', c == '/', c == ':', c == mark:
		default:
			return false
		}
	}
	return digits <= 6 && !isUUID(t) && (digits == 0 || digits*2 <= len(t) || digits == len(t))
}

// isName reports whether t may be the name of a model: not an id.
func isName(t string) bool {
	if len(t) > 64 || isUUID(t) {
		return false
	}
	for i := range len(t) {
		if c := t[i]; !isAlnum(c) && c != '-' && c != '.' && c != '_' && c != ':' && c != '/' {
			return false
		}
	}
	return class[t[0]]&cLetter != 0
}
