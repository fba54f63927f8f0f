package signature

// kind says what a replaced part looked like. Templates hold the same mark for
// all kinds, so that an id that reads as a number today and as hexadecimal
// tomorrow stays one signature; the kinds are counted for Explain alone.
type kind uint8

const (
	kindNone kind = iota // a mark that was there before
	kindNumber
	kindID
	kindUUID
	kindAddress
	kindURL
	kindEmail
	kindPath
	kindQuoted
	kindSecret
	kindHook
	kindInvalid
	kinds
)

var kindNames = [kinds]string{
	"mark", "number", "id", "uuid", "address", "url", "email", "path", "quoted", "secret", "hook", "invalid",
}

// fold replaces what was just read by a mark. Marks that only separators keep
// apart become one: addresses with ports, dates, durations, lists of any
// length and grouped digits all end as a single mark.
func (z *scanner) fold(k kind) {
	if z.n != nil {
		z.n[k]++
	}
	if k == kindID || k == kindUUID {
		z.dropPrefix()
	}
	z.collapse()
	z.trail()
	z.unrepeat()
	z.resolver()
}

// collapse appends a mark unless there is one that only separators keep apart.
func (z *scanner) collapse() {
	for {
		d := z.dst
		n := len(d)
		e := n
		for e > z.base && n-e < 3 && (class[d[e-1]]&cJoin != 0 || d[e-1] == '>' && e-1 > z.base && d[e-2] == '-') {
			e--
		}
		if e > z.base && d[e-1] == mark && (z.fence < e || z.fence > n) {
			z.dst = d[:e]
			return
		}
		// A sign, or the colon of an address without a host, is part of the value.
		if n > z.base {
			c := d[n-1]
			start := n-1 == z.base
			if (c == '-' || c == '+' || c == '_') && (start || opens(d[n-2]) || d[n-2] == '_') || c == ':' && (start || d[n-2] == ' ') {
				z.dst = d[:n-1]
				continue
			}
		}
		z.dst = append(d, mark)
		return
	}
}

// dropPrefix removes the prefix of an id that names one request or one answer:
// proxies put ids of their own in the place of the provider's.
func (z *scanner) dropPrefix() {
	d := z.dst
	n := len(d) - 1
	if n <= z.base || d[n] != '_' && d[n] != '-' {
		return
	}
	a := n
	for a > z.base && class[d[a-1]]&cLetter != 0 && n-a < 9 {
		a--
	}
	if a > z.base && (d[a-1] == '_' || d[a-1] == '-' || isAlnum(d[a-1])) {
		return
	}
	switch string(d[a:n]) {
	case "req", "chatcmpl", "cmpl", "toolu", "call", "msg", "resp", "evt", "rs", "fc", "trace", "span":
		z.dst = d[:a]
	}
}

// opens reports whether a value may start right after c.
func opens(c byte) bool {
	switch c {
	case ' ', '(', '[', '{', '=', ',', ':', '<', '>', '|', '"', '\'':
		return true
	}
	return false
}

// trail absorbs what belongs to the value just folded: an ellipsis, a unit,
// the zone of a time.
func (z *scanner) trail() {
	for z.i < z.end {
		i := z.i
		switch c := z.s[i]; {
		case c == 0xe2 && hasAt(z.s[:z.end], i, "\u2026"):
			z.i += len("\u2026")
			continue
		case c == '.' && hasAt(z.s[:z.end], i, "..."):
			z.i += 3
			continue
		case (c == '-' || c == '_') && z.ends(i+1):
			z.i++
			continue
		case c == 0xc2 && hasAt(z.s[:z.end], i, "\u00b5s"), c == 0xce && hasAt(z.s[:z.end], i, "\u03bcs"):
			z.i += 3
			continue
		case class[c]&(cSpace|cHigh) != 0:
			j := z.blanks(i)
			e := j
			for e < z.end && class[z.s[e]]&cLetter != 0 {
				e++
			}
			if j > i && e-j > 0 && e-j <= 12 && (e == z.end || z.blanks(e) > e || class[z.s[e]]&(cDigit|cHigh) == 0 && z.s[e] != '_' && z.s[e] != '=' && z.s[e] != mark) && isUnit(z.s[j:e]) {
				z.i = e
				continue
			}
		}
		return
	}
}

// ends reports whether nothing is glued to what ends before i.
func (z *scanner) ends(i int) bool {
	if i >= z.end {
		return !z.cut
	}
	switch z.s[i] {
	case '"', '\'', '`', ')', ']', ',', ';':
		return true
	}
	return z.blanks(i) > i
}

func hasAt(s string, i int, p string) bool {
	return len(s)-i >= len(p) && s[i:i+len(p)] == p
}

// goesOn reports whether the token just folded has more to come.
func (z *scanner) goesOn() bool {
	c := z.at(z.i)
	if isAlnum(c) || c == mark {
		return true
	}
	n := z.at(z.i + 1)
	return class[c]&cGlue != 0 && (isAlnum(n) || n == mark || n == '[')
}

// unrepeat removes a token that says the same as the one before it, such as
// the second of "blk_1 blk_2".
func (z *scanner) unrepeat() {
	d := z.dst
	n := len(d)
	if z.goesOn() {
		return
	}
	a := n
	for a > z.base && d[a-1] != ' ' && n-a < 40 {
		a--
		if class[d[a]]&(cAlnum|cGlue|cHigh) == 0 && d[a] != mark {
			return
		}
	}
	if a <= z.base || d[a-1] != ' ' || a == n-1 || class[d[a]]&(cAlnum|cHigh) == 0 {
		return
	}
	w := n - a
	e := a - 1 // end of the token before
	if e > z.base && (d[e-1] == ',' || d[e-1] == ';') {
		e--
	}
	if e-w < z.base || e-w > z.base && d[e-w-1] != ' ' && !opens(d[e-w-1]) {
		return
	}
	if string(d[e-w:e]) == string(d[a:n]) {
		z.dst = d[:e]
	}
}

// resolver drops " on <address>" behind a name that was looked up: which
// resolver answered is not part of the failure, and some systems leave it out.
func (z *scanner) resolver() {
	const on = " on #"
	if z.goesOn() {
		return
	}
	d := z.dst[z.base:]
	if len(d) < len(on) || string(d[len(d)-len(on):]) != on {
		return
	}
	d = d[:len(d)-len(on)]
	a := len(d)
	for a > 0 && d[a-1] != ' ' {
		a--
	}
	const lookup = "lookup "
	if a >= len(lookup) && string(d[a-len(lookup):a]) == lookup {
		z.dst = z.dst[:z.base+len(d)]
	}
}

// afterMark reports whether the template ends in a mark, or in a mark and one
// space.
func (z *scanner) afterMark() (glued, spaced bool) {
	n := len(z.dst)
	if n <= z.base {
		return false, false
	}
	if z.dst[n-1] == mark {
		return true, false
	}
	return false, z.dst[n-1] == ' ' && n-1 > z.base && z.dst[n-2] == mark
}
