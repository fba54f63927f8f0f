package modelapi

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
)

// headLimit is how much of a body's begin a view keeps.
const headLimit = 8 << 10

// mode is how a body is read.
type mode uint8

const (
	undecided mode = iota // its first byte decides
	documents             // JSON
	events                // server-sent events
	markup                // begins with <, and may be a web page
	opaque                // none of these: it passes
)

// View is the one bounded, memoised look at a response that all guards of a
// call share. Its methods are safe for concurrent use.
type View struct {
	resp       *http.Response
	req        *http.Request // what the answer is to, or nil
	header     uintptr       // identity of its header; resp keeps it alive
	status     int
	streaming  bool
	kind       string // the media type in lower case; "" = none was told
	unreadable bool   // compressed or binary: the body says nothing to us
	answers    bool   // by its headers the body is JSON or events
	posted     bool   // the answer to a POST
	length     int64
	wait       time.Duration
	waits      bool
	should     bool
	retry      bool
	amzn       string
	usage      Usage // of the headers
	hasUsage   bool

	body    body
	holding sync.Mutex // one Hold at a time

	mu    sync.Mutex // all below, never held across a read or a hook
	mode  mode
	page  bool     // a web page where an answer should be
	read  *reading // nil before the first byte and after the end
	head  []byte   // of a failure or a stream
	total int64
	end   ending
	err   error
	final Verdict
	ends  []func(Verdict)
	few   [3]func(Verdict) // what ends starts on
}

// reading is what a view needs while its body passes: most of its memory, and
// nothing of it is left when the verdict is final.
type reading struct {
	scan  scanner
	sse   sse
	facts facts
}

var readings = sync.Pool{New: func() any { return new(reading) }}

// begin returns a fresh reading of documents under root.
func begin(root node) *reading {
	r := readings.Get().(*reading)
	r.scan.facts, r.facts.root = &r.facts, root
	return r
}

// end gives the reading back, with nothing of what it read in it.
func (r *reading) end() {
	*r = reading{scan: scanner{long: r.scan.long[:0]}}
	readings.Put(r)
}

// reader returns the view's reading, ready to go on.
func (v *View) reader() *reading {
	if v.read == nil {
		v.read = begin(nRoot)
		v.read.facts.stream = v.streaming
	}
	return v.read
}

// Watch returns the view of resp: the one that an inner transport has already
// made for this attempt (known by resp's body, through wrappers that have a
// method Unwrap() io.ReadCloser, or through box when a foreign wrapper has
// replaced it), else a new one, for which it wraps resp.Body. Bytes
// pass through it unchanged and as they come. now is the time the response's
// hints count from. box may be nil. The body of a 101 stays as it is, and a
// response without a body has come to its end at once.
func Watch(box *call.Box, resp *http.Response, now time.Time) *View {
	if v := under(resp.Body); v != nil && v.status == resp.StatusCode {
		return v
	}
	var attempt *call.Attempt
	if box != nil {
		attempt = box.Attempt
	}
	if attempt != nil {
		if v, ok := attempt.View().(*View); ok && v.of(resp) {
			return v
		}
	}
	v := newView(resp, now)
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		v.mode = opaque
		v.finish(endEOF, nil)
	case resp.Body == nil, resp.Body == http.NoBody, resp.StatusCode == http.StatusNoContent,
		resp.StatusCode == http.StatusNotModified, resp.Request != nil && resp.Request.Method == http.MethodHead:
		if resp.Body == nil {
			resp.Body = http.NoBody
		}
		v.answers = v.answers && resp.StatusCode == http.StatusOK && (resp.Request == nil || resp.Request.Method != http.MethodHead)
		v.finish(endEOF, nil)
	default:
		v.body = body{view: v, inner: resp.Body}
		resp.Body = &v.body
	}
	if attempt != nil {
		attempt.AddView(v)
	}
	return v
}

// under returns the view of b, or of what b wraps and admits to.
func under(b io.ReadCloser) *View {
	for range 16 {
		switch x := b.(type) {
		case *body:
			return x.view
		case interface{ Unwrap() io.ReadCloser }:
			b = x.Unwrap()
		default:
			return nil
		}
	}
	return nil
}

// of reports whether resp is the view's answer in another body, rather than one
// that a wrapper in between has made up or fetched by itself.
func (v *View) of(resp *http.Response) bool {
	return v.status == resp.StatusCode && (v.resp == resp || v.header != 0 && v.header == identity(resp.Header))
}

// identity tells header maps apart: copies of a response share theirs.
func identity(h http.Header) uintptr { return reflect.ValueOf(h).Pointer() }

func newView(resp *http.Response, now time.Time) *View {
	h := resp.Header
	v := &View{resp: resp, req: resp.Request, header: identity(h), status: resp.StatusCode, length: resp.ContentLength, amzn: first(h, "X-Amzn-Errortype")}
	v.ends = v.few[:0]
	v.posted = posted(resp.Request)
	if s := first(h, "X-Should-Retry"); s != "" {
		v.should, v.retry = true, strings.EqualFold(strings.TrimSpace(s), "true")
	}
	if v.status >= 400 {
		v.wait, v.waits = ParseHint(h, now)
	} else {
		// The axes of a good answer ask for nothing. An error in its body may
		// still come with a Retry-After.
		v.wait, v.waits = askedWait(h, now)
		v.usage, v.hasUsage = headerUsage(h)
	}
	kind, _, _ := strings.Cut(first(h, "Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	v.kind = kind
	switch {
	case kind == "text/html", kind == "application/xhtml+xml":
		v.page = v.posted || resp.Request == nil
	case kind == "text/event-stream":
		v.mode, v.streaming, v.answers = events, true, true
	case kind == "application/vnd.amazon.eventstream":
		v.mode, v.streaming, v.unreadable = opaque, true, true
	case strings.HasSuffix(kind, "ndjson"), strings.HasSuffix(kind, "jsonl"), kind == "application/stream+json":
		v.streaming, v.answers = true, true
	case strings.HasSuffix(kind, "json"):
		v.answers = true
	case kind != "" && !strings.HasPrefix(kind, "text/"):
		v.mode = opaque
	}
	if e := first(h, "Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		v.mode, v.unreadable, v.answers = opaque, true, false
	}
	return v
}

// first is Get for a name in its canonical form.
func first(h http.Header, name string) string {
	if vs := h[name]; len(vs) > 0 {
		return vs[0]
	}
	return ""
}

// Verdict returns what is known so far. After the end of the body it is final.
func (v *View) Verdict() Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.end != endNone {
		return v.final
	}
	return v.judge()
}

// OnEnd has f called once with the final verdict, when the answer ends: at the
// terminal event of a stream, EOF, a read error or Close, whichever is first.
// Functions run in the order they were given, on the goroutine that reads or
// closes, before that Read or Close returns; at once if the end has passed. When
// one panics the others still run, and the panic goes on.
func (v *View) OnEnd(f func(Verdict)) {
	v.mu.Lock()
	if v.end == endNone {
		v.ends = append(v.ends, f)
		v.mu.Unlock()
		return
	}
	final := v.final
	v.mu.Unlock()
	f(final)
}

// Streaming reports whether the answer is a stream by its Content-Type.
func (v *View) Streaming() bool { return v.streaming }

// Events reports whether it is one of server-sent events.
func (v *View) Events() bool { return v.kind == "text/event-stream" }

// Typed reports whether the answer has a Content-Type.
func (v *View) Typed() bool { return v.kind != "" }

// JSONLike reports whether the body is JSON by its Content-Type, or can be since
// there is none.
func (v *View) JSONLike() bool { return v.kind == "" || strings.HasSuffix(v.kind, "json") }

// Head returns the first bytes of the body of a failure or a stream as far as
// they were seen, at most 8 KiB; of other answers nothing. It must not be
// modified.
func (v *View) Head() []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.head[:len(v.head):len(v.head)]
}

// see takes bytes that pass, and reports whether they hold the event that ends
// the answer.
func (v *View) see(b []byte) (terminal bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.total += int64(len(b))
	if n := min(len(b), headLimit-len(v.head)); n > 0 && (v.status >= 400 || v.streaming || v.page || v.mode == markup) {
		v.head = append(v.head, b[:n]...)
	}
	if v.end != endNone || v.mode == opaque || len(b) == 0 {
		return false
	}
	r := v.reader()
	switch v.mode {
	case undecided:
		v.decide(r, b)
	case markup:
		v.sniff()
	case documents:
		r.scan.write(b)
	case events:
		r.sse.write(&r.scan, b)
	}
	return r.facts.terminal
}

// decide tells JSON by its first byte, whatever the body is called.
func (v *View) decide(r *reading, b []byte) {
	for i, c := range b {
		switch c {
		case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf: // a byte order mark may stand first
			continue
		case '{', '[':
			v.mode, v.page = documents, false
			r.scan.write(b[i:])
		case '<':
			v.mode = opaque
			if v.posted && !v.page && v.status < 300 {
				v.mode, v.head = markup, append(v.head, b[i:min(len(b), i+headLimit)]...)
				v.sniff()
			}
		default:
			v.mode = opaque
		}
		return
	}
}

// sniff looks whether markup is a web page, as soon as its begin is here.
func (v *View) sniff() {
	page, decided := isPage(v.head)
	if decided {
		v.mode, v.page = opaque, page
	}
}

// finish brings the view to its end, unless it has come to one, and runs the
// functions that wait for it.
func (v *View) finish(end ending, err error) { runAll(v.conclude(end, err)) }

// conclude is finish without the functions, which it returns.
func (v *View) conclude(end ending, err error) ([]func(Verdict), Verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.end != endNone {
		return nil, v.final
	}
	v.end, v.err = end, err
	v.final = v.judge()
	v.read.end()
	v.read = nil
	ends := v.ends
	v.ends = nil
	return ends, v.final
}

// runAll calls each f, also when one before it panics or ends the goroutine.
func runAll(fs []func(Verdict), d Verdict) {
	if len(fs) == 0 {
		return
	}
	defer runAll(fs[1:], d)
	fs[0](d)
}

// passed is called for everything that is read from the inner body.
func (v *View) passed(b []byte, err error) {
	terminal := v.see(b)
	switch {
	case terminal:
		v.finish(endTerminal, nil)
	case err == io.EOF:
		v.finish(endEOF, nil)
	case err != nil:
		v.finish(endBroken, err)
	}
}
