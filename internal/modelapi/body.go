package modelapi

import (
	"io"
	"net/http"
	"sync"
)

// body passes an answer through under the eyes of its view. It has Read and
// Close only: a WriterTo would let bytes go by unseen.
type body struct {
	view  *View
	inner io.ReadCloser

	mu     sync.Mutex // all below, never held across a read
	held   []byte     // what Hold has read, from the begin
	off    int        // how much of held the caller has had
	last   error      // what the inner body said after held
	closed bool
}

// Read gives the held bytes first, then what the inner body has.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	if b.off < len(b.held) {
		n := copy(p, b.held[b.off:])
		b.off += n
		var err error
		if b.off == len(b.held) {
			err = b.last
		}
		b.mu.Unlock()
		return n, err
	}
	last := b.last
	b.mu.Unlock()
	if last != nil {
		return 0, last
	}
	return b.fetch(p)
}

// fetch reads from the inner body.
func (b *body) fetch(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	if n < 0 || n > len(p) {
		// Against the contract of io.Reader. It is the caller's to see.
		return n, err
	}
	b.view.passed(p[:n], err)
	return n, err
}

// Close closes the inner body. The end comes before it returns, also when the
// inner Close panics.
func (b *body) Close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	defer b.view.finish(endClosed, nil)
	return b.inner.Close()
}

// Hold reads the body of an answer that is not a stream, at most limit bytes,
// and puts it back, so that resp.Body still gives every byte. It returns what
// it has read and whether that is the whole body; a read error is returned
// here, and again to the caller who reads on. A stream is not read. It is
// called before the first Read, and never beside one; a second Hold returns
// what the first has read, and reads on when its limit is larger. The bytes
// must not be modified.
func (v *View) Hold(limit int) (data []byte, whole bool, err error) {
	limit = max(limit, 0)
	b := &v.body
	if b.inner == nil {
		return nil, true, nil
	}
	if v.streaming {
		return nil, false, nil
	}
	v.holding.Lock()
	defer v.holding.Unlock()
	b.mu.Lock()
	held, last, closed := b.held, b.last, b.closed
	b.mu.Unlock()
	if held == nil && v.touched() {
		// Somebody has read before: the begin is all there is to show.
		head := v.Head()
		v.mu.Lock()
		whole = v.end == endEOF && v.total == int64(len(head))
		v.mu.Unlock()
		return head, whole, nil
	}
	if held == nil {
		size := int64(min(limit, 511))
		if v.length > size {
			size = min(v.length, int64(limit))
		}
		held = make([]byte, 0, size+1)
	}
	// One byte above the limit tells a body of exactly that size from a larger
	// one.
	for last == nil && !closed && len(held) <= limit {
		if len(held) == cap(held) {
			held = append(held, 0)[:len(held)]
		}
		var n int
		room := held[len(held):min(cap(held), limit+1)]
		n, last = b.fetch(room)
		held = held[:len(held)+min(max(n, 0), len(room))]
		b.mu.Lock()
		b.held, b.last = held, last
		b.mu.Unlock()
	}
	whole = last == io.EOF && len(held) <= limit
	if last != nil && last != io.EOF {
		err = last
	}
	n := min(len(held), limit)
	return held[:n:n], whole, err
}

// touched reports whether any of the body has been read.
func (v *View) touched() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.total > 0 || v.end != endNone
}
