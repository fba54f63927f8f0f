package modelapi

import "bytes"

// lineState is where in a line of an event stream the reader stands.
type lineState uint8

const (
	lineStart lineState = iota
	lineName            // in the field's name
	lineSpace           // after the colon of data or event, where one space is framing
	lineData            // in the value of data
	lineEvent           // in the value of event
	lineSkip            // in a comment or a field that means nothing here
)

// doneMark is the data that ends a stream of the OpenAI shape. It is no JSON.
const doneMark = "[DONE]"

// sse splits an event stream into the data of its events, as it comes: lines
// end with LF, CR or CRLF, and several data lines are one event.
type sse struct {
	state  lineState
	event  bool // the field is event, not data
	cr     bool // the last byte was a CR, so a LF belongs to it
	first  bool // a byte of the stream has been seen
	plain  bool // not an event stream after all: JSON under its name
	name   [8]byte
	nname  int
	mark   int // how much of doneMark the event's data has matched; -1 = it is other data
	failed int // how much of "error" the event's name has matched; -1 = it is another
}

const errorMark = "error"

func (l *sse) write(s *scanner, b []byte) {
	if l.plain {
		s.write(b)
		return
	}
	for i := 0; i < len(b) && !s.facts.terminal; {
		c := b[i]
		if l.cr {
			l.cr = false
			if c == '\n' {
				i++
				continue
			}
		}
		if !l.first && c > ' ' && c < 0x7f {
			l.first = true
			if c == '{' || c == '[' {
				l.plain = true
				s.write(b[i:])
				return
			}
		}
		switch l.state {
		case lineData, lineSkip, lineEvent:
			n := lineEnd(b[i:])
			l.value(s, b[i:i+n])
			if i += n; i < len(b) {
				l.cr = b[i] == '\r'
				l.endLine(s)
				i++
			}
			continue
		}
		i++
		switch {
		case c == '\n' || c == '\r':
			l.cr = c == '\r'
			if l.state == lineStart {
				l.endEvent(s)
			} else {
				l.endLine(s)
			}
		case l.state == lineSpace:
			l.state = lineData
			if l.event {
				l.state = lineEvent
			}
			if c != ' ' {
				i--
			}
		case c == ':':
			l.field()
		default:
			l.state = lineName
			if l.nname < len(l.name) {
				l.name[l.nname] = c
			}
			l.nname++
		}
	}
}

// lineEnd returns the index of the first byte of b that ends a line, else b's
// length.
func lineEnd(b []byte) int {
	if n := bytes.IndexByte(b, '\n'); n >= 0 {
		b = b[:n]
	}
	if n := bytes.IndexByte(b, '\r'); n >= 0 {
		return n
	}
	return len(b)
}

// field decides what the line is, at the colon after its name.
func (l *sse) field() {
	name := string(l.name[:min(l.nname, len(l.name))])
	l.nname = 0
	switch name {
	case "data", "\xef\xbb\xbfdata":
		l.state, l.event = lineSpace, false
	case "event", "\xef\xbb\xbfevent":
		l.state, l.event, l.failed = lineSpace, true, 0
	default:
		l.state = lineSkip
	}
}

// value takes bytes of a field's value.
func (l *sse) value(s *scanner, b []byte) {
	switch l.state {
	case lineEvent:
		l.failed = match(errorMark, l.failed, b)
	case lineData:
		if l.mark >= 0 {
			for l.mark == 0 && len(b) > 0 && b[0] == ' ' {
				b = b[1:]
			}
			for len(b) > 0 && l.mark < len(doneMark) && b[0] == doneMark[l.mark] {
				l.mark++
				b = b[1:]
			}
			if l.mark == len(doneMark) {
				s.facts.done()
				return
			}
			if len(b) == 0 {
				return
			}
			held := l.mark
			l.mark = -1
			s.write([]byte(doneMark)[:held])
		}
		s.write(b)
	}
}

// match returns how much of mark is matched after b, given how much was before
// it, and -1 once it is something else.
func match(mark string, n int, b []byte) int {
	for _, c := range b {
		if n < 0 || n >= len(mark) || c != mark[n] {
			return -1
		}
		n++
	}
	return n
}

func (l *sse) endLine(s *scanner) {
	switch l.state {
	case lineEvent:
		s.facts.errorEvent = l.failed == len(errorMark)
	case lineData:
		// A line break in an event's data is white space to JSON.
		if l.mark < 0 {
			s.write([]byte{'\n'})
			if !s.open() {
				// Some servers leave the blank line out.
				l.mark = 0
			}
		}
	}
	l.state, l.nname = lineStart, 0
}

// endEvent is the blank line after an event.
func (l *sse) endEvent(s *scanner) {
	s.reset()
	s.facts.errorEvent = false
	l.mark = 0
}
