package modelapi

import (
	"bytes"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// plain takes a string that has no escape and is all in b, which begins after
// its quote: nearly every key and most values. It is false for the others, and
// for one whose text is not to be told by a look.
func (s *scanner) plain(b []byte) (n int, ok bool) {
	end := dull(b)
	if end == len(b) || b[end] != '"' {
		return 0, false
	}
	v := b[:end]
	switch {
	case s.wantKey:
		s.cur = nSkip
		if end <= keyLimit {
			s.cur = keys[s.stack[s.depth-1].node].lead(v)
		}
	case s.depth == 0 || s.skip > 0:
	default:
		switch keeps[s.cur] {
		case keepText:
			i := 0
			for i < end && v[i] <= ' ' {
				i++
			}
			if i == end {
				break
			}
			if v[i] >= utf8.RuneSelf {
				return 0, false
			}
			s.facts.text(s.cur)
		case keepWord:
			s.facts.word(s.cur, v[:min(end, wordLimit)], true)
		case keepLong:
			s.facts.word(s.cur, v[:min(end, longLimit)], true)
		}
	}
	return end + 1, true
}

func (s *scanner) startString() {
	s.inString, s.text, s.nutf, s.high = true, false, 0, 0
	s.nbuf, s.long = 0, s.long[:0]
	s.isKey = s.wantKey
	switch {
	case s.isKey:
		s.keep = keepWord
	case s.depth == 0 || s.skip > 0:
		s.keep = keepNone
	default:
		s.keep = keeps[s.cur]
	}
}

// str passes over the inside of a string.
func (s *scanner) str(b []byte) int {
	for i := 0; i < len(b); i++ {
		c := b[i]
		if s.esc > 0 {
			s.escaped(c)
			continue
		}
		if s.keep == keepText {
			if c != '"' && c != '\\' {
				s.look(c)
				continue
			}
		} else {
			n := dull(b[i:])
			s.take(b[i : i+n])
			if i += n; i == len(b) {
				return i
			}
			if c = b[i]; c == '\\' && s.keep >= keepWord {
				s.add(c)
			}
		}
		switch c {
		case '\\':
			s.endRune()
			s.esc = 1
		case '"':
			s.endString()
			return i + 1
		}
	}
	return len(b)
}

// dull returns how many bytes at b's begin are neither a quote nor an escape.
func dull(b []byte) int {
	const (
		short = 16  // most strings end within: a search costs more than a look
		step  = 128 // far from one another, a search for each would take the square of the time
	)
	for i, c := range b[:min(len(b), short)] {
		if c == '"' || c == '\\' {
			return i
		}
	}
	for from := short; from < len(b); from += step {
		part := b[from:min(from+step, len(b))]
		n := bytes.IndexByte(part, '"')
		if n < 0 {
			n = len(part)
		}
		if e := bytes.IndexByte(part[:n], '\\'); e >= 0 {
			n = e
		}
		if n < len(part) {
			return from + n
		}
	}
	return len(b)
}

// look asks whether c is text. White space is none, in any script.
func (s *scanner) look(c byte) {
	switch {
	case c >= utf8.RuneSelf:
		s.utf[s.nutf] = c
		if s.nutf++; !utf8.FullRune(s.utf[:s.nutf]) {
			return
		}
		s.endRune()
	case s.nutf > 0, c > ' ':
		s.found()
	}
}

// endRune decides about bytes of a character that are left.
func (s *scanner) endRune() {
	if s.nutf == 0 {
		return
	}
	r, _ := utf8.DecodeRune(s.utf[:s.nutf])
	s.nutf = 0
	if !Blank(r) {
		s.found()
	}
}

func (s *scanner) found() {
	s.text, s.keep, s.nutf = true, keepNone, 0
}

// Blank reports whether r shows nothing by itself: white space, controls,
// format characters, marks without a letter under them, and the fillers that
// Unicode counts among letters and symbols.
func Blank(r rune) bool {
	switch {
	case r <= ' ':
		return true
	case r < 0x7f:
		return false
	}
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800':
		return true
	}
	return unicode.In(r, unicode.Z, unicode.Cc, unicode.Cf, unicode.M)
}

// escaped takes one byte of an escape sequence.
func (s *scanner) escaped(c byte) {
	if s.keep >= keepWord {
		s.add(c)
	}
	if s.esc > 1 {
		if d, ok := hexDigit(c); ok {
			s.hex = s.hex<<4 | d
		}
		if s.esc--; s.esc == 1 {
			s.esc = 0
			s.unit()
		}
		return
	}
	if c == 'u' {
		s.esc, s.hex = 5, 0
		return
	}
	s.esc = 0
	if s.keep == keepText && (c == '"' || c == '\\' || c == '/') {
		s.found()
	}
}

// unit takes a UTF-16 code unit that was escaped. The first half of a pair says
// nothing yet.
func (s *scanner) unit() {
	r := s.hex
	if high := s.high; utf16.IsSurrogate(r) {
		if s.high = r; r < 0xdc00 {
			return
		}
		r = utf16.DecodeRune(high, r)
	}
	s.high = 0
	if s.keep == keepText && !Blank(r) {
		s.found()
	}
}

func hexDigit(c byte) (rune, bool) {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0'), true
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10, true
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10, true
	}
	return 0, false
}

// take keeps bytes of the value in hand, up to its limit.
func (s *scanner) take(b []byte) {
	switch s.keep {
	case keepWord:
		s.nbuf += copy(s.small[s.nbuf:], b)
	case keepLong:
		s.long = append(s.long, b[:min(len(b), longLimit-len(s.long))]...)
	}
}

// add keeps one byte of the value in hand, up to its limit.
func (s *scanner) add(c byte) {
	if s.keep == keepLong {
		if len(s.long) < longLimit {
			s.long = append(s.long, c)
		}
		return
	}
	if s.nbuf < len(s.small) {
		s.small[s.nbuf] = c
		s.nbuf++
	}
}

func (s *scanner) endString() {
	s.endRune()
	s.inString = false
	switch {
	case s.isKey:
		s.isKey = false
		s.cur = nSkip
		if s.nbuf <= keyLimit {
			s.cur = keys[s.stack[s.depth-1].node].lead(s.small[:s.nbuf])
		}
	case s.depth == 0 || s.skip > 0:
	default:
		switch keeps[s.cur] {
		case keepText:
			if s.text {
				s.facts.text(s.cur)
			}
		case keepWord:
			s.facts.word(s.cur, s.small[:s.nbuf], true)
		case keepLong:
			s.facts.word(s.cur, s.long, true)
		}
	}
}
