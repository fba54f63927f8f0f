package modelapi

import "unicode/utf8"

const (
	maxDepth = 24 // deeper than any place in the tables
	keyLimit = 32 // longer than any key in the tables
)

type frame struct {
	node  node
	array bool
}

// scanner reads JSON as it comes, byte by byte: it tracks depth and strings,
// and keeps nothing but the values its tables name. It is lenient, since it
// must not judge what it passes on: what is not JSON leads nowhere.
type scanner struct {
	facts *facts

	depth int // frames in stack
	skip  int // containers open below the last frame that mean nothing
	cur   node

	wantKey  bool
	inString bool
	inWord   bool // a number or literal whose value is kept
	isKey    bool
	keep     keep

	esc   uint8 // 1 after a backslash, 2 to 5 before that many less one hex digits
	hex   rune
	high  rune // the first half of a surrogate pair, where one was escaped
	text  bool // the string in hand has text in it
	nutf  uint8
	utf   [utf8.UTFMax]byte
	stack [maxDepth]frame
	small [wordLimit]byte
	nbuf  int
	long  []byte

	docs int // documents completed at the top
}

// reset forgets a document that did not come to its end.
func (s *scanner) reset() {
	s.depth, s.skip, s.cur = 0, 0, s.facts.root
	s.wantKey, s.inString, s.inWord = false, false, false
	s.esc, s.nutf, s.high = 0, 0, 0
}

// open reports whether a document has begun and not ended.
func (s *scanner) open() bool { return s.depth > 0 || s.skip > 0 || s.inString }

// write scans b. It stops early once the facts say that the answer has ended.
func (s *scanner) write(b []byte) {
	for i := 0; i < len(b); {
		switch {
		case s.inString:
			i += s.str(b[i:])
		case s.skip > 0:
			i += s.skipped(b[i:])
		default:
			c := b[i]
			if s.inWord {
				if isWord(c) {
					s.add(c)
					i++
					continue
				}
				s.endWord()
			}
			i++
			switch c {
			case '"':
				if n, ok := s.plain(b[i:]); ok {
					i += n
				} else {
					s.startString()
				}
			case '{', '[':
				s.push(c == '[')
			case '}', ']':
				s.pop()
				if s.facts.terminal {
					return
				}
			case ',':
				s.comma()
			case ':':
				s.wantKey = false
			default:
				if s.depth > 0 && !s.wantKey && keeps[s.cur] >= keepWord && isWord(c) {
					if n := wordEnd(b[i:]); i+n < len(b) {
						s.facts.word(s.cur, b[i-1:min(i+n, i-1+wordLimit)], false)
						i += n
						continue
					}
					s.inWord, s.keep = true, keepWord
					s.nbuf, s.long = 0, s.long[:0]
					s.add(c)
				}
			}
		}
	}
}

func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

// wordEnd returns how many bytes at b's begin are a number's or a literal's.
func wordEnd(b []byte) int {
	for i, c := range b {
		if !isWord(c) {
			return i
		}
	}
	return len(b)
}

// skipped passes over a container that means nothing, up to its end or the
// next string.
func (s *scanner) skipped(b []byte) int {
	for i, c := range b {
		switch c {
		case '"':
			s.inString, s.isKey, s.keep = true, false, keepNone
			return i + 1
		case '{', '[':
			s.skip++
		case '}', ']':
			if s.skip--; s.skip == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}

func (s *scanner) endWord() {
	s.inWord = false
	s.facts.word(s.cur, s.small[:s.nbuf], false)
}

func (s *scanner) push(array bool) {
	if s.wantKey {
		// Not JSON: a container where a key belongs leads nowhere.
		s.cur = nSkip
	}
	if s.depth == 0 {
		s.cur = s.facts.root
	}
	if s.cur == nSkip || s.depth == maxDepth {
		s.skip = 1
		return
	}
	s.stack[s.depth] = frame{s.cur, array}
	s.depth++
	s.wantKey = !array
	s.facts.open(s.cur, array)
}

func (s *scanner) pop() {
	if s.depth == 0 {
		return
	}
	s.depth--
	f := s.stack[s.depth]
	if s.depth == 0 {
		s.docs++
	}
	if !f.array {
		s.facts.close(f.node)
	}
	s.comma()
	s.wantKey = false
}

// comma gets ready for the next key or element.
func (s *scanner) comma() {
	if s.depth == 0 {
		return
	}
	f := s.stack[s.depth-1]
	s.wantKey = !f.array
	s.cur = nSkip
	if f.array {
		s.cur = f.node
	}
}
