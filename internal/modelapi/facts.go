package modelapi

import "strconv"

// slot is what is known of one choice.
type slot struct {
	used, content, refusal bool
	fin                    finish
}

// maxSlots bounds the choices told apart; the ones after it count as the last.
const maxSlots = 8

// part is a content part until it closes.
type part struct {
	kind          partKind
	text, thought bool
}

// document is what is known of the document in hand.
type document struct {
	typ, object kind
	state       state
	delta       bool // text in a delta that is a string
	said        bool // text in a response that is a string
	role        bool // an assistant's message
	done        bool
	fails       bool // the error is not empty
}

// facts gathers what an answer's documents say. It knows nothing of statuses
// and headers.
type facts struct {
	root   node
	stream bool // documents are events, and an answer ends by one of them
	nums   [numFields]int64
	seen   [numFields]bool

	doc    document
	stage  slot
	inside bool // within a choice
	index  int  // the choice's own index, -1 = it has none
	nth    int  // its place in the list
	part   part
	slots  [maxSlots]slot

	chat    bool // the shape of a model's answer was seen
	pending bool
	blocked bool   // Gemini refused the prompt
	reason  string // the word for an end that is no good one
	failed  bool   // a document is an error
	err     failure

	errorEvent bool // the event in hand is named error
	finished   bool // a finish reason or the event that ends a stream was seen
	terminal   bool // nothing that matters comes after this

	model     string
	streaming bool
}

// done is the mark that ends a stream.
func (f *facts) done() {
	f.finished, f.terminal, f.chat = true, true, true
}

// target is the choice that what comes belongs to.
func (f *facts) target() *slot {
	if f.inside {
		return &f.stage
	}
	return &f.slots[0]
}

// open is the begin of a container at a known place.
func (f *facts) open(n node, array bool) {
	if array {
		if n == nChoice {
			f.chat, f.nth = true, 0
		}
		return
	}
	switch n {
	case nRoot:
		f.doc, f.inside = document{}, false
	case nChoice:
		f.chat = true
		f.stage, f.inside, f.index = slot{used: true}, true, -1
	case nContent, nOutput, nItem:
		f.part = part{}
	case nTool:
		f.target().content = true
	}
}

// close is the end of an object at a known place.
func (f *facts) close(n node) {
	switch n {
	case nRoot:
		f.endDocument()
	case nChoice:
		i := f.index
		if i < 0 {
			i = f.nth
		}
		f.nth++
		s := &f.slots[min(i, maxSlots-1)]
		s.used = true
		s.content = s.content || f.stage.content
		s.refusal = s.refusal || f.stage.refusal
		if f.stage.fin != finNone {
			s.fin = f.stage.fin
		}
		f.inside = false
	case nContent, nOutput, nItem:
		p := f.part
		f.part = part{}
		if p.thought || p.kind == partThought || p.kind == partFrame {
			return
		}
		if p.text || p.kind == partOther {
			f.target().content = true
		}
	}
}

// text is a string with text in it.
func (f *facts) text(n node) {
	switch n {
	case nText:
		f.part.text = true
	case nPlain, nContent, nOutput:
		f.target().content = true
	case nRefusal:
		f.target().refusal = true
	case nDelta:
		f.doc.delta = true
	case nResp:
		f.doc.said = true
	}
}

// word is a short value. quoted says that it was a string.
func (f *facts) word(n node, b []byte, quoted bool) {
	if n >= nNum {
		f.number(field(n-nNum), b)
		return
	}
	null := !quoted && string(b) == "null"
	switch n {
	case nChoice:
		f.chat = true
	case nType:
		f.doc.typ = kindOfType(b)
		if !f.stream && f.doc.typ == kindNone {
			f.err.word(&f.err.outer, b, null)
		}
	case nObject:
		f.doc.object = kindOfObject(b)
	case nPartType:
		f.part.kind = partKindOf(b)
	case nThought:
		f.part.thought = string(b) == "true"
	case nRole:
		f.doc.role = string(b) == "assistant"
	case nDone:
		f.doc.done = string(b) == "true"
	case nIndex:
		if i, err := strconv.Atoi(string(b)); err == nil && i >= 0 {
			f.index = i
		}
	case nFinish:
		if fin := finishOf(b); fin != finNone && !null {
			f.finished = true
			f.target().fin = fin
			if fin != finStop {
				f.reason = unescape(b)
			}
		}
	case nBlock:
		if !null && len(b) > 0 {
			f.blocked, f.reason = true, unescape(b)
		}
	case nStatus:
		switch string(b) {
		case "incomplete":
			f.doc.state = stateIncomplete
		case "failed":
			f.doc.state = stateFailed
		case "queued", "in_progress":
			f.doc.state = statePending
		}
	case nVersion:
		f.chat = true
	case nModel:
		if quoted {
			f.model = unescape(b)
		}
	case nStream:
		f.streaming = string(b) == "true"
	default:
		f.failure(n, b, quoted, null)
	}
}

// endDocument draws from a whole document what only the whole can tell.
func (f *facts) endDocument() {
	d, s := &f.doc, &f.slots[0]
	f.inside = false
	switch d.typ {
	case kindMessage:
		f.chat = f.chat || d.role
	case kindEvent:
		f.chat = true
	case kindEnd:
		f.chat, f.finished = true, true
		f.terminal = f.stream
	case kindText:
		f.chat = true
		s.content = s.content || d.delta
	case kindRefusal:
		f.chat = true
		s.refusal = s.refusal || d.delta
	case kindFailed:
		d.fails = true
	}
	switch d.object {
	case kindChat:
		f.chat = true
	case kindResponse:
		f.chat = true
		f.pending = d.state == statePending
	}
	switch {
	case d.state == stateFailed && (d.typ == kindFailed || d.object == kindResponse):
		d.fails = true
	case d.state == stateIncomplete && s.fin == finNone:
		s.fin = finLength
	}
	if d.said {
		s.content = true
	}
	if d.done {
		f.chat, f.finished = true, true
		f.terminal = f.stream
	}
	if d.role && f.finished {
		f.chat = true
	}
	if d.object == kindForeign {
		return
	}
	if d.typ == kindError || d.object == kindError || f.errorEvent || d.fails {
		f.failed = true
		f.terminal = f.stream
	}
}
