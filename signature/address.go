package signature

import "unicode/utf8"

// url keeps the scheme and the host of an URL. User info, port, path, query
// and fragment go: they hold ids and secrets, and the same fault meets every
// path of a host.
func (z *scanner) url(i, j int, b uint8) {
	s := z.s
	z.copy(i, j, b)
	k := j + len("://")
	if c := z.at(k); class[c]&cAlnum == 0 && c != '[' && c != '/' && (c != mark || fragment(z.s[k+1:z.end])) && (c < 0x80 || z.foreign(k) == 0) {
		z.dst = append(z.dst, "://"...)
		z.i, z.chunk = k, k
		return
	}
	e := k
	limit := z.end
	quoted := z.close > k && z.close <= z.end
	if quoted {
		limit = z.close
	}
	open := z.before(i)
	for e < limit {
		c := s[e]
		if class[c]&cHigh != 0 {
			n := z.foreign(e)
			if n == 0 {
				break
			}
			e += n
			continue
		}
		if class[c]&cSpace != 0 || c == '"' || c == '`' || c == '<' || c == '>' ||
			c == '\'' || c == mark && e > k && (s[e-1] == ',' || s[e-1] == ';' || s[e-1] == ':') || c == ')' && open == '(' || c == ']' && open == '[' ||
			c == '\\' && e+1 < limit && s[e+1] == '"' {
			break
		}
		e++
	}
	if e < limit && quoted && s[k] != mark && (class[s[e]]&(cSpace|cHigh) != 0) {
		e = limit // a broken URL within quotes ends with them
	}
	for e > k {
		switch s[e-1] {
		case '.', ',', ';', ':', '!', '?', ')', ']', '}', '\'':
			if s[e-1] == ']' && hasAt(s, k, "[") {
				break // an IPv6 host
			}
			e--
			continue
		}
		break
	}
	z.dst = append(z.dst, "://"...)
	a := k // the authority
	h := k
	for h < e && class[s[h]]&(cSpace|cHigh) == 0 && s[h] != '/' && s[h] != '?' && s[h] != '\\' && !(s[h] == mark && fragment(s[h+1:e])) {
		if s[h] == '@' {
			a = h + 1
		}
		h++
	}
	h = a
	for h < e && (isAlnum(s[h]) || s[h] == '.' || s[h] == '-' || s[h] == '_' || s[h] == ':' || s[a] == '[' && (h == a || s[h] == '%') || s[h] == mark && !fragment(s[h+1:e])) {
		h++
	}
	z.i = e
	z.chunk = e
	z.host(a, h)
	z.fence = len(z.dst)
	if z.n != nil {
		z.n[kindURL]++
	}
}

// foreign gives the length of what is not ASCII at e and becomes a mark or may
// do so, and therefore does not end an URL: broken UTF-8, digits, quotes. Text
// that follows without a blank, as in Chinese, gives 0.
func (z *scanner) foreign(e int) int {
	r, n := utf8.DecodeRuneInString(z.s[e:z.end])
	if r == utf8.RuneError && n <= 1 || 0xff10 <= r && r <= 0xff19 || r == 0x201c {
		return n
	}
	return 0
}

// fragment tells the fragment behind a host from the mark of a folded one.
func fragment(rest string) bool {
	if rest == "" || class[rest[0]]&(cSpace|cHigh) != 0 {
		return false
	}
	switch rest[0] {
	case '"', '`', '<', '>', '.', '-', '_', ':', '/', '?', ',', ';', '!', ')', ']', '}', '\'', mark:
		return false
	}
	return true
}

// host appends the host s[a:h], which may have a port.
func (z *scanner) host(a, h int) {
	s := z.s
	switch {
	case a >= h:
		return
	case s[a] == '[', isIPv4(s[a:h]), z.r.hosts == HostsFold:
		z.dst = append(z.dst, mark)
		return
	}
	for k := a; k < h; {
		c := s[k]
		if c == ':' {
			return // a port
		}
		if class[c]&cAlnum == 0 {
			if c == mark {
				z.hostMark()
			} else if c != '%' {
				z.dst = append(z.dst, lower[c])
			}
			k++
			continue
		}
		e, b := k, uint8(0)
		for e < h && isAlnum(s[e]) {
			b |= class[s[e]]
			e++
		}
		switch {
		case b&cDigit == 0 && !(e-k >= 8 && randomLetters(s[k:e], b, false)), b&cLetter != 0 && keptHost(s[k:e]), b&cLetter == 0 && region(s[a:k]):
			for ; k < e; k++ {
				z.dst = append(z.dst, lower[s[k]])
			}
		default:
			z.hostMark()
		}
		k = e
	}
}

func (z *scanner) hostMark() {
	d := z.dst
	n := len(d)
	if n > z.base+1 && (d[n-1] == '-' || d[n-1] == '.') && d[n-2] == mark {
		z.dst = d[:n-1]
		return
	}
	if n > z.base && d[n-1] == mark {
		return
	}
	z.dst = append(d, mark)
}

// keptHost keeps names such as api2 and oauth2 in a host; node17 and hashes go.
func keptHost(w string) bool {
	if keptMixed(w) {
		return true
	}
	k := 0
	for k < len(w) && !isDigit(w[k]) {
		k++
	}
	return k >= 2 && k == len(w)-1 && len(w) <= 12
}

// region reports whether the digit behind s belongs to a region: us-east-1.
func region(s string) bool {
	k := len(s)
	if k == 0 || s[k-1] != '-' {
		return false
	}
	for _, p := range [...]string{"-east-", "-west-", "-north-", "-south-", "-central-", "-northeast-", "-southeast-", "-northwest-", "-southwest-"} {
		if k > len(p) && hasPrefixFold(s[k-len(p):], p) {
			return true
		}
	}
	return false
}

// hostEnd gives the length of the host, with port, that t starts with, or 0.
func hostEnd(t string) int {
	k := 0
	for k < len(t) && (isAlnum(t[k]) || (t[k] == '.' || t[k] == '-') && k+1 < len(t) && isAlnum(t[k+1])) {
		k++
	}
	d := k
	for d > 0 && t[d-1] != '.' {
		d--
	}
	w := lowerWord(t[d:k])
	switch string(w.b[:w.n]) {
	case "com", "net", "org", "io", "ai", "dev", "app", "cloud", "internal", "local", "lan", "test", "example", "invalid", "localhost",
		"de", "uk", "eu", "fr", "nl", "ch", "at", "us", "ca", "jp", "cn", "in", "br", "ru", "au", "se", "no", "co", "info", "biz", "edu", "gov":
	default:
		return 0
	}
	if k < len(t) && t[k] == ':' {
		e := k + 1
		for e < len(t) && isDigit(t[e]) {
			e++
		}
		if e > k+1 {
			return e
		}
	}
	return k
}

// isIPv4 reports whether t is a dotted address, perhaps with a port.
func isIPv4(t string) bool {
	dots, digits := 0, 0
	for i := range len(t) {
		switch {
		case isDigit(t[i]):
			digits++
		case t[i] == '.':
			if digits == 0 {
				return false
			}
			dots++
			digits = 0
		case t[i] == ':':
			return dots == 3 && digits > 0
		default:
			return false
		}
	}
	return dots == 3 && digits > 0
}

// ipv4End gives the end of the dotted address, with port, whose first number
// ends at j and which ends its token, or 0.
func ipv4End(s string, j int) int {
	for range 3 {
		if j >= len(s) || s[j] != '.' {
			return 0
		}
		a := j + 1
		for j = a; j < len(s) && isDigit(s[j]) && j-a < 4; j++ {
		}
		if j == a || j-a > 3 {
			return 0
		}
	}
	if j+1 < len(s) && s[j] == ':' && isDigit(s[j+1]) {
		a := j + 1
		for j = a; j < len(s) && isDigit(s[j]) && j-a < 6; j++ {
		}
		if j-a > 5 {
			return 0
		}
	}
	if j == len(s) {
		return j
	}
	switch s[j] {
	case ' ', ',', ';', ')', ']', '"', '\'', '-', '>':
		return j
	case ':', '.':
		if j+1 == len(s) || s[j+1] == ' ' {
			return j
		}
	}
	return 0
}

// ipv6End gives the end of the IPv6 address, zone included, that starts at i,
// or 0. An address needs a digit: "Fee::add" is code.
func ipv6End(s string, i int) int {
	groups, double, run, colons, digits := 0, false, 0, 0, false
	k := i
	for k < len(s) && k-i < 46 {
		c := s[k]
		if c == ':' {
			colons++
			if k > i && s[k-1] == ':' {
				if double {
					return 0
				}
				double = true
			}
			if run > 0 {
				groups++
			}
			run = 0
			k++
			continue
		}
		if !isHex(c) {
			break
		}
		digits = digits || isDigit(c)
		if run++; run > 4 {
			return 0
		}
		k++
	}
	if run > 0 {
		groups++
	}
	if k > i && s[k-1] == ':' && !(double && k-2 >= i && s[k-2] == ':') {
		k-- // a colon that belongs to the text behind
		colons--
	}
	if k < len(s) && s[k] == '.' && run > 0 && colons >= 2 { // ::ffff:10.0.0.7
		for k < len(s) && (s[k] == '.' || isDigit(s[k])) {
			k++
		}
		if s[k-1] == '.' {
			k--
		}
	}
	if colons < 2 || !double && groups != 8 || groups > 8 {
		return 0
	}
	if k < len(s) && s[k] == '%' { // a zone
		k++
		for k < len(s) && (isAlnum(s[k]) || s[k] == '_' || s[k] == '-') {
			k++
		}
	}
	if k < len(s) && (isAlnum(s[k]) || s[k] == '_' || s[k] == '(') {
		return 0
	}
	if !digits && !(i > 0 && s[i-1] == '[' && k < len(s) && s[k] == ']') {
		return 0
	}
	return k
}

// isUUID reports whether s starts with a UUID.
func isUUID(s string) bool {
	if len(s) < 36 || len(s) > 36 && isAlnum(s[36]) {
		return false
	}
	for i := range 36 {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return false
			}
		default:
			if !isHex(s[i]) {
				return false
			}
		}
	}
	return true
}

// isMAC reports whether s starts with a hardware address.
func isMAC(s string) bool {
	if len(s) < 17 || s[2] != ':' && s[2] != '-' || len(s) > 17 && isAlnum(s[17]) {
		return false
	}
	for i := range 17 {
		if i%3 == 2 {
			if s[i] != s[2] {
				return false
			}
		} else if !isHex(s[i]) {
			return false
		}
	}
	return true
}
