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
	cut   bool // s goes on after end, so a token that touches end is incomplete
	fence int  // end of an URL in dst: its mark is no part of a list
	wild  int  // end of the random part last folded in this compound

	spans    [3]span // quotations being read
	depth    int
	close    int    // where the innermost of them closes, or nothing
	unclosed [6]int // by kind of quote: none closes before here
}

// run scans from z.i and returns where it stopped.
func (z *scanner) run() int {
	for z.i < z.end {
		if z.i >= z.close {
			z.closeQuote()
			continue
		}
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
	z.i = z.blanks(z.i)
	z.blank()
}

// blanks gives the end of the run of blanks that starts at i: spaces, control
// characters, the blanks of Unicode, and what colours a terminal.
func (z *scanner) blanks(i int) int {
	for i < z.end {
		switch c := z.s[i]; {
		case c == 0x1b && i+2 < z.end && z.s[i+1] == '[':
			j := i + 2
			for j < z.end && (isDigit(z.s[j]) || z.s[j] == ';') {
				j++
			}
			if j < z.end && class[z.s[j]]&cLetter != 0 {
				j++
				i = j
				continue
			}
			i++
		case class[c]&cSpace != 0:
			i++
		case c == 0xc2 || c == 0xe2 || c == 0xe3 || c == 0xef:
			r, n := utf8.DecodeRuneInString(z.s[i:z.end])
			if !isBlank(r) {
				return i
			}
			i += n
		default:
			return i
		}
	}
	return i
}

func isBlank(r rune) bool {
	switch r {
	case 0x85, 0xa0, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff:
		return true
	}
	return 0x2000 <= r && r <= 0x200d
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
	case isBlank(r):
		z.i = i
		z.space()
	case 0xff10 <= r && r <= 0xff19: // full-width digits
		z.fold(kindNumber)
	case r == 0x201c: // typographic quotes
		const q = "\u201d"
		for j := z.i; j < min(z.end, z.close); j++ {
			if hasAt(z.s[:z.end], j, q) {
				z.open(i, n, j, q, false)
				return
			}
			if hasAt(z.s, j, "\u201c") {
				break
			}
		}
		z.dst = append(z.dst, z.s[i:z.i]...)
	default:
		z.dst = append(z.dst, z.s[i:z.i]...)
	}
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
		if z.at(i+1) == ':' {
			if j := ipv6End(z.s[:z.end], i); j > 0 && !isAlnum(z.before(i)) {
				z.i = j
				z.fold(kindAddress)
				return
			}
		}
		z.emit(c)
		z.secretValue(':')
		return
	case '(':
		if j := z.guessEnd(i); j > 0 {
			z.i = j
			return
		}
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

// guessEnd gives the end of the parenthesis at i if it only guesses at the
// cause: "certificate signed by unknown authority (possibly because of ...)".
// It is no part of the failure and is there one time and not the next. 0 if it
// is something else.
func (z *scanner) guessEnd(i int) int {
	if z.before(i) != ' ' || lower[z.at(i+1)] != 'p' {
		return 0
	}
	if !z.phrase(i+1, "possibly") && !z.phrase(i+1, "probably") && !z.phrase(i+1, "perhaps") {
		return 0
	}
	quote := byte(0)
	for j := i + 1; j < min(z.end, z.close) && j-i < 400; j++ {
		switch c := z.s[j]; {
		case c == quote:
			quote = 0
		case quote == 0 && c == '"':
			quote = c
		case quote == 0 && c == ')':
			return j + 1
		}
	}
	return 0
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
