package signature

// secretToken gives the length of the credential t starts with, or 0. It
// knows the prefixes that issuers give their keys. n is the length of the
// compound that t starts with.
func secretToken(t string, n int) int {
	if len(t) < 4 {
		return 0
	}
	for _, p := range byLetter(&credentials, t[0]) {
		if len(t) <= len(p) || !hasPrefixFold(t, p) {
			continue
		}
		k, b := len(p), uint8(0)
		for k < len(t) && (isAlnum(t[k]) || class[t[k]]&cHigh == 0 && secretByte(t[k])) {
			b |= class[t[k]]
			k++
		}
		for k > len(p) && (t[k-1] == '.' || t[k-1] == ':') {
			k--
		}
		n := k - len(p)
		switch p {
		case "akia", "asia", "aiza", "eaac", "sg.", "hf_", "r8_": // words may begin like that
			if n >= 14 && b&cDigit != 0 {
				return k
			}
		default:
			if n >= 6 {
				return k
			}
		}
	}
	if n < 36 {
		return 0
	}
	return base64Run(t)
}

// credentials gives the prefixes by first letter, in lower case.
var credentials = [128][]string{
	'a': {"akia", "asia", "aiza"},
	'd': {"dop_v1_"},
	'e': {"eyj", "eaac"},
	'g': {"ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_", "glpat-", "gsk_"},
	'h': {"hf_"},
	'n': {"npm_", "nvapi-"},
	'p': {"pk_live", "pk_test", "pplx-", "pypi-"},
	'r': {"rk_live", "rk_test", "r8_"},
	's': {"sk-", "sk_", "shpat_", "sg."},
	'w': {"whsec_"},
	'x': {"xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xapp-", "xai-"},
	'y': {"ya29."},
}

func secretByte(c byte) bool {
	switch c {
	case '-', '_', '.', '+', '/', '=', '*', '~':
		return true
	}
	return false
}

// base64Run gives the length of a long run of base64 at the start of t, or 0.
// Slashes cut it into pieces that could pass for words.
func base64Run(t string) int {
	k, b, slash := 0, uint8(0), 0
	for k < len(t) {
		c := t[k]
		if class[c]&cAlnum != 0 {
			b |= class[c]
		} else if c == '/' {
			slash++
		} else if c != '+' && c != '=' {
			break
		}
		k++
	}
	if k < 40 || b&cAlnum != cAlnum || slash*8 > k {
		return 0
	}
	changes := 0
	for i := 1; i < k; i++ {
		if class[t[i]] != class[t[i-1]] {
			changes++
		}
	}
	if changes*4 < k {
		return 0
	}
	return k
}

// userinfo recognises an e-mail address or the credentials of a data source
// name. at is the position of the last '@' of the compound.
func userinfo(t string, at int) (n int, k kind) {
	colon := false
	for i := range at {
		switch c := t[i]; {
		case c == ':':
			colon = true
		case c == '/' || c == '\\':
			return 0, 0
		}
	}
	// The domain ends with its last label of letters alone.
	e := at + 1
	for a, dot := e, false; a < len(t) && isAlnum(t[a]); dot = true {
		b := uint8(0)
		k := a
		for k < len(t) && (isAlnum(t[k]) || t[k] == '-' && k+1 < len(t) && isAlnum(t[k+1])) {
			b |= class[t[k]]
			k++
		}
		if dot && b&^cLetter == 0 && k-a >= 2 && (k == len(t) || t[k] != mark) {
			e = k
		}
		if k == len(t) || t[k] != '.' {
			break
		}
		a = k + 1
	}
	switch {
	case colon:
		return at + 1, kindSecret
	case e > at+1:
		return e, kindEmail
	}
	return 0, 0
}

// secretValue folds the value behind sep if the word before it names a
// credential.
func (z *scanner) secretValue(sep byte) {
	c := z.look(len(z.dst))
	if len(c.word) == 0 || z.i >= z.close {
		return
	}
	strict, soft := z.secretWord(c)
	if !strict && !soft {
		return
	}
	s := z.s[:z.end]
	i := z.i
	i = z.blanks(i)
	blank := i > z.i
	if i == len(s) {
		return
	}
	e := i
	bare := false
	switch n := quoteAt(s, i); n {
	case 0:
		bare = true
		if s[i] == mark {
			e = z.secretRest(i + 1)
			break
		}
		e = secretEnd(s, i)
		if w := lowerWord(s[i:e]); z.scheme(string(w.b[:w.n])) && z.blanks(e) > e {
			e = secretEnd(s, z.blanks(e))
		}
	default:
		if c.quote || !blank || strict {
			e = z.secretRest(quoteEnd(s, i+n, s[i+n-1]))
		}
	}
	if e == i {
		return
	}
	if bare && soft && sep == ':' && blank && s[i:e] != string(mark) && !randomToken(s[i:e]) {
		return // "invalid token: expired"
	}
	if bare && (s[i] == '{' || s[i] == '[' || s[i] == '(') {
		return
	}
	if blank {
		z.blank()
	}
	z.i = e
	z.chunk = e
	z.fold(kindSecret)
	// A separator that was dropped with a blank before it fences nothing off
	// when the template is read again.
	if n := len(z.dst); n-2 >= z.base && (z.dst[n-2] == sep || n-3 >= z.base && z.dst[n-2] == ' ' && z.dst[n-3] == sep) {
		z.fence = n
	}
}

// scheme reports whether w is the scheme of an Authorization header.
func (z *scanner) scheme(w string) bool {
	switch w {
	case "bearer", "basic", "digest", "token", "negotiate", "apikey":
		return true
	}
	return false
}

// quoteAt gives the length of the opening quote at i, 0 if there is none.
func quoteAt(s string, i int) int {
	if s[i] == '"' || s[i] == '\'' {
		return 1
	}
	if s[i] == '\\' && i+1 < len(s) && (s[i+1] == '"' || s[i+1] == '\'') {
		return 2
	}
	return 0
}

// quoteEnd gives the position behind the quote q that closes what begins at i.
func quoteEnd(s string, i int, q byte) int {
	for k := i; k < len(s); k++ {
		if s[k] == q && (s[k-1] != '\\' || s[i-1] == q && i > 1 && s[i-2] == '\\') {
			return k + 1
		}
	}
	return len(s)
}

func secretEnd(s string, i int) int {
	e := i
	for e < len(s) && class[s[e]]&cSpace == 0 {
		switch s[e] {
		case '&', ';', '"', '\'', '`', '<', '>':
			return e
		}
		e++
	}
	for e > i {
		switch s[e-1] {
		case ',', '.', ')', ']', '}', ':':
			e--
			continue
		}
		break
	}
	return e
}

// secretRest gives the end of what is glued to a quoted or folded value.
func (z *scanner) secretRest(i int) int {
	for i < z.end {
		c := z.s[i]
		if class[c]&cHigh != 0 {
			n := z.foreign(i)
			if n == 0 {
				break
			}
			i += n
			continue
		}
		if !isAlnum(c) && c != mark && (!secretByte(c) || c == '.') {
			break
		}
		i++
	}
	return i
}

// secretWord reports whether the context names a credential: strict names
// never have prose behind them, soft ones may.
func (z *scanner) secretWord(c context) (strict, soft bool) {
	switch string(c.word) {
	case "password", "passwd", "pwd", "pass", "passphrase", "secret", "apikey", "accesskey", "secretkey", "privatekey", "authorization",
		"cookie", "clientsecret", "accountkey", "sharedaccesskey", "accesstoken", "refreshtoken", "idtoken", "authtoken", "secretaccesskey",
		"connectionstring", "sessiontoken", "securitytoken":
		return true, false
	case "token", "signature", "sig", "session", "sessionid", "auth", "credential", "credentials", "bearer", "jwt", "otp", "pin":
		return false, true
	case "key":
		p := z.dst[z.base:c.at]
		if n := len(p); n > 0 && (p[n-1] == '-' || p[n-1] == '_' || p[n-1] == ' ') {
			a := n - 1
			for a > 0 && class[p[a-1]]&cLetter != 0 {
				a--
			}
			switch string(p[a : n-1]) {
			case "api", "access", "secret", "private", "account", "encryption", "signing", "auth", "subscription", "shared", "function", "functions", "master":
				return true, false
			}
		}
		return false, c.equal || c.quote
	}
	return false, false
}

// randomToken reports whether w is made of letters and digits like a key.
func randomToken(w string) bool {
	b := uint8(0)
	for i := range len(w) {
		b |= class[w[i]]
	}
	return len(w) >= 12 && b&cDigit != 0 && b&cLetter != 0
}

// plainWord reports whether w is an ordinary word in lower case.
func plainWord(w string) bool {
	for i := range len(w) {
		if class[w[i]]&cLower == 0 {
			return i > 0 && i == len(w)-1 && (w[i] == ',' || w[i] == ':')
		}
	}
	return len(w) <= 16
}

// bearer folds the credential behind the scheme of an Authorization header.
// d is where the word just written begins.
func (z *scanner) bearer(d int) {
	w := string(z.dst[d:])
	i := z.blanks(z.i)
	if w != "bearer" && w != "basic" || i == z.i {
		return
	}
	s := z.s[:z.end]
	e := secretEnd(s, i)
	if e-i < 8 || plainWord(s[i:e]) || s[i] == mark {
		return
	}
	for k := i; k < e; k++ {
		if !isAlnum(s[k]) && !secretByte(s[k]) {
			return // realm="...": a challenge, not a credential
		}
	}
	z.i = i
	z.blank()
	z.i = e
	z.chunk = e
	z.fold(kindSecret)
	z.fence = len(z.dst)
}

// pemEnd gives the end of the PEM block that starts at i, or 0.
func (z *scanner) pemEnd(i int) int {
	const begin, end = "-----BEGIN ", "-----END "
	s := z.s[:z.end]
	if !hasAt(s, i, begin) {
		return 0
	}
	for k := i + len(begin); k < len(s); k++ {
		if s[k] != '-' || !hasAt(s, k, end) {
			continue
		}
		for k += len(end); k < len(s); k++ {
			if hasAt(s, k, "-----") {
				return k + len("-----")
			}
		}
	}
	return len(s)
}
