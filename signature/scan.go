package signature

import (
	"unicode/utf8"
)

// mark stands for everything that was folded away. It is one byte, so that a
// template is never longer than its message, and it folds to itself.
const mark = '#'

// scanner walks once over s and appends the template to dst.
//
// What was already written decides what a token means (is this number a
// status?), so most questions look back into dst and not into s. That keeps
// the result stable when a template is scanned again.
type scanner struct {
	s    string
	dst  []byte
	r    *rules
	n    *[kinds]int // replacements by kind; nil unless somebody asks
	i    int
	end  int // where the examined part of s ends
	base int // where the template begins in dst
	stop int // length of dst at which the scan ends at the next blank; 0 = never

	chunk int  // end of the compound that was already examined
	quote int  // position of the quote that closes the one kept open, or -1
	cut   bool // s goes on after end, so a token that touches end is incomplete
	wild  int  // end of the random part last folded in this compound
}

// run scans from z.i and returns where it stopped.
func (z *scanner) run() int {
	for z.i < z.end {
		c := z.s[z.i]
		switch b := class[c]; {
		case b&cAlnum != 0:
			z.word()
		case b&cSpace != 0:
			if z.stop > 0 && len(z.dst) >= z.stop {
				return z.i
			}
			z.space()
		case b&cHigh != 0:
			z.high()
		default:
			z.punct(c)
		}
	}
	return z.i
}

// at gives the byte at i, or 0 beyond the examined part.
func (z *scanner) at(i int) byte {
	if uint(i) < uint(z.end) {
		return z.s[i]
	}
	return 0
}

// before gives the byte before i, or 0 at the start.
func (z *scanner) before(i int) byte {
	if i > 0 {
		return z.s[i-1]
	}
	return 0
}

func (z *scanner) space() {
	i := z.i
	if z.s[i] == 0x1b && z.at(i+1) == '[' { // a terminal's colour
		j := i + 2
		for j < z.end && (isDigit(z.s[j]) || z.s[j] == ';') {
			j++
		}
		if j < z.end && class[z.s[j]]&cLetter != 0 {
			z.i = j + 1
			z.blank()
			return
		}
	}
	for i < z.end && class[z.s[i]]&cSpace != 0 && z.s[i] != 0x1b {
		i++
	}
	z.i = max(i, z.i+1)
	z.blank()
}

// blank appends one space unless there is one or nothing comes before it.
func (z *scanner) blank() {
	if n := len(z.dst); n > z.base && z.dst[n-1] != ' ' {
		z.dst = append(z.dst, ' ')
	}
}

func (z *scanner) high() {
	r, n := utf8.DecodeRuneInString(z.s[z.i:z.end])
	i := z.i
	z.i += n
	switch {
	case r == utf8.RuneError && n <= 1:
		for z.i < z.end && z.s[z.i] >= 0x80 {
			if _, n := utf8.DecodeRuneInString(z.s[z.i:z.end]); n > 1 {
				break
			}
			z.i++
		}
		z.fold(kindInvalid)
	case r == 0xa0, r == 0x85, r == 0x202f, r == 0x3000, r == 0xfeff, 0x2000 <= r && r <= 0x200d, r == 0x2028, r == 0x2029:
		z.blank()
	case 0xff10 <= r && r <= 0xff19: // full-width digits
		z.fold(kindNumber)
	case r == 0x201c: // a quoted value in typographic quotes
		if j := closing(z.s[:z.end], z.i, "\u201d"); j > z.i {
			z.i = j + len("\u201d")
			z.fold(kindQuoted)
			return
		}
		z.dst = append(z.dst, z.s[i:z.i]...)
	default:
		z.dst = append(z.dst, z.s[i:z.i]...)
	}
}

// maxQuote bounds the search for a closing quote, which keeps the whole scan
// linear when quotes are not balanced.
const maxQuote = 160

// closing finds q after i if what lies between is one short token, else -1.
func closing(s string, i int, q string) int {
	for j := i; j < len(s) && j-i < maxQuote; j++ {
		if class[s[j]]&cSpace != 0 {
			return -1
		}
		if s[j] == q[0] && len(s)-j >= len(q) && s[j:j+len(q)] == q {
			return j
		}
	}
	return -1
}

func (z *scanner) punct(c byte) {
	i := z.i
	switch c {
	case mark:
		z.i++
		z.fold(kindNone)
		return
	case '"', '\'', '`':
		z.quoted(i, 1)
		return
	case '\\':
		if n := z.at(i + 1); n == '"' || n == '\'' {
			z.quoted(i+1, 2)
			return
		}
	case '=':
		z.emit(c)
		z.secretValue('=')
		return
	case ':':
		if z.at(i+1) == ':' || isHex(z.at(i+1)) {
			if j := ipv6End(z.s[:z.end], i); j > 0 && !isAlnum(z.before(i)) {
				z.i = j
				z.fold(kindAddress)
				return
			}
		}
		z.emit(c)
		z.secretValue(':')
		return
	case '[':
		if j := ipv6End(z.s[:z.end], i+1); j > 0 && z.at(j) == ']' {
			z.i = j + 1
			z.fold(kindAddress)
			return
		}
	case '/', '.', '~':
		if j := z.pathEnd(i); j > 0 {
			z.i = j
			z.fold(kindPath)
			return
		}
	case '-':
		if j := z.pemEnd(i); j > 0 {
			z.i = j
			z.fold(kindSecret)
			return
		}
	}
	z.emit(c)
}

// emit appends one byte of punctuation and moves on.
func (z *scanner) emit(c byte) {
	z.dst = append(z.dst, c)
	z.i++
}

// copy appends s[i:j] in lower case and moves on to j.
func (z *scanner) copy(i, j int, b uint8) {
	n := len(z.dst)
	z.dst = append(z.dst, z.s[i:j]...)
	if b&cUpper != 0 {
		for k, c := range z.dst[n:] {
			z.dst[n+k] = lower[c]
		}
	}
	z.i = j
}
