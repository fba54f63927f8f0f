package modelapi

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"github.com/nightfuse/nightfuse/internal/redact"
)

const textLimit = 512

// ending is how a body came to its end.
type ending uint8

const (
	endNone     ending = iota
	endEOF             // the body's own end
	endTerminal        // the event after which nothing matters
	endBroken          // a read error
	endClosed          // closed before any of these
)

// judge returns what the parts of the view say together.
func (v *View) judge() Verdict {
	r := v.reader()
	f := &r.facts
	d := Verdict{Status: v.status, Should: v.should, Retry: v.retry, Err: v.err}
	whole := v.mode != opaque && !f.stream && r.scan.docs > 0 && !r.scan.open()
	d.Ended = v.end == endEOF || v.end == endTerminal || v.end == endClosed && whole

	u, ok := f.usage()
	d.Usage = u
	d.HasUsage = ok && (f.finished || whole)
	if !d.HasUsage && v.hasUsage {
		d.Usage, d.HasUsage = v.usage, true
	}

	switch {
	case v.status >= 400:
		d.Class = classOfError(v.status, &f.err, v.amzn)
		v.describe(&d)
	case v.status < 200 || v.status >= 300:
		d.Class = OK
	default:
		v.judgeAnswer(&d, whole)
	}
	return d
}

// judgeAnswer judges an answer under a 2xx.
func (v *View) judgeAnswer(d *Verdict, whole bool) {
	f := &v.read.facts
	if v.webPage() {
		d.InBody, d.Inner, d.Class = true, http.StatusBadGateway, ServerError
		v.describe(d)
		d.Code = pageCode
		return
	}
	if f.failed {
		d.InBody, d.Inner = true, f.err.inner()
		d.Class = classOfError(d.Inner, &f.err, v.amzn)
		v.describe(d)
		return
	}
	seen := f.settle()
	defer func() {
		switch d.Class {
		case Refused, ServerError, Timeout:
			d.Code = word(f.reason)
		case Truncated:
			if d.Err == nil {
				d.Code = word(f.reason)
			}
		}
	}()
	switch {
	case seen == ServerError || seen == Timeout:
		// A choice that says it came to grief, without an error object.
		d.InBody, d.Inner, d.Class = true, 500, seen
		if seen == Timeout {
			d.Inner = 504
		}
		return
	case seen == Refused:
		d.Class = Refused
		return
	case v.end == endBroken:
		d.Class = Truncated
		return
	case v.end == endEOF && v.short(whole):
		d.Class, d.Err, d.Ended, d.HasUsage = Truncated, io.ErrUnexpectedEOF, false, false
		return
	case seen == Truncated:
		d.Class = Truncated
		return
	}
	switch {
	case v.end == endEOF && v.blank():
		d.Class = Empty
	case v.unreadable:
		d.Class = Unjudged
	case whole || v.end == endEOF || v.end == endTerminal:
		d.Class = OK
		if f.chat && !f.pending {
			d.Class = seen
		}
	case v.end == endClosed:
		d.Class = OK
	}
}

// short reports whether a body that came to a clean end is not all there: JSON
// that is still open, or a stream of a known shape without its end. Transfers
// delimited by the end of the connection break off like that.
func (v *View) short(whole bool) bool {
	if v.mode == opaque {
		return false
	}
	r := v.read
	if r.facts.stream {
		return r.scan.open() || r.facts.chat && !r.facts.finished
	}
	return r.scan.open()
}

// blank reports whether a body that should hold an answer holds nothing. No model
// API answers a POST with 200 and white space, whatever it calls it; a proxy
// whose upstream is gone does.
func (v *View) blank() bool {
	if v.posted && v.status == http.StatusOK && (v.total == 0 || v.mode == undecided) {
		return true
	}
	return v.answers && (v.mode == undecided || v.read.scan.docs == 0 && v.mode == events && !v.read.sse.plain)
}

// settle returns the class of the choices: of the best one, since with several
// asked for a good one can be used. For what is no model's answer it tells only
// what a finish reason says.
func (f *facts) settle() Class {
	best := Unjudged
	for i := range f.slots {
		s := &f.slots[i]
		if i > 0 && !s.used {
			continue
		}
		c := s.class()
		if i == 0 && !s.used && c == Empty && f.slots[1].used {
			continue
		}
		if c == OK {
			return OK
		}
		if best == Unjudged {
			best = c
		}
	}
	if best == Empty && f.blocked {
		return Refused
	}
	return best
}

func (s *slot) class() Class {
	switch s.fin {
	case finRefused:
		return Refused
	case finLength:
		return Truncated
	case finError:
		return ServerError
	case finTimeout:
		return Timeout
	case finLoad:
		return OK
	}
	switch {
	case s.content:
		return OK
	case s.refusal:
		return Refused
	}
	return Empty
}

// describe fills in what the server says of an error, without what the request
// was sent with: some echo it.
func (v *View) describe(d *Verdict) {
	e := &v.read.facts.err
	d.Code = cut(redact.Sent(redact.Text(e.name(v.amzn)), v.req), wordLimit)
	text := e.text
	// Beside events the head is no text, and how much there is of it at the last
	// one depends on how the bytes came.
	if text == "" && (v.status >= 400 || v.page) && !v.unreadable && (v.mode != events || v.read.scan.docs == 0) {
		text = plainText(v.head)
	}
	d.Text = cut(redact.Sent(redact.Text(strings.ToValidUTF8(text, "\ufffd")), v.req), textLimit)
	d.Wait, d.Waits = v.wait, v.waits
	if !d.Waits && e.delay != "" {
		d.Wait, d.Waits = decimal(strings.TrimSuffix(e.delay, "s"), 1e9)
	}
}

// word returns a provider's word as it may be shown.
func word(s string) string { return cut(redact.Text(s), wordLimit) }

var titleTag = regexp.MustCompile(`(?i)<title(\s[^<>]*)?>`)

// plainText returns what an error page says: the title of HTML, or the first
// line of plain text. JSON without a message says nothing.
func plainText(head []byte) string {
	text := strings.TrimSpace(strings.TrimPrefix(string(head), "\ufeff"))
	if text == "" || text[0] == '{' || text[0] == '[' {
		return ""
	}
	if text[0] == '<' {
		tag := titleTag.FindStringIndex(text)
		if tag == nil {
			return ""
		}
		text, _, _ = strings.Cut(text[tag[1]:], "<")
		return strings.TrimSpace(text)
	}
	text, _, _ = strings.Cut(text, "\n")
	if text = strings.TrimSpace(text); strings.ContainsFunc(text, unicode.IsControl) {
		return ""
	}
	return text
}
