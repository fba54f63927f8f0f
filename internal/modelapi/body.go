package modelapi

import (
	"io"
	"net/http"
	"sync"
	"time"
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
	ahead  *ahead     // reads for a Hold; nil when none does
	closed bool
}

// ahead reads for a Hold, on a goroutine of its own, since a Hold may end before
// the read in hand does.
type ahead struct {
	stop     bool          // nobody waits any more; guarded by the body's mu
	done     chan struct{} // closed at the end
	panicked any           // of the inner body, or of a function that waited for the end
}

// Read gives the held bytes first, then what the inner body has.
func (b *body) Read(p []byte) (int, error) {
	for {
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
		last, a := b.last, b.ahead
		b.mu.Unlock()
		switch {
		case last != nil:
			return 0, last
		case a == nil:
			return b.fetch(p)
		}
		<-a.done
		b.join(a)
	}
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

// Hold reads the body of an answer that is not a stream, at most limit bytes and
// for about d of real time, and puts it back, so that resp.Body still gives
// every byte. It returns what it has read and whether that is the whole body; a
// read error is returned here, and again to the caller who reads on. The read
// that took too long is not broken off: its bytes are the next that resp.Body
// gives, and it ends with the body's Close. A stream is not read. Hold is called
// before the first Read, and never beside one; a second Hold returns what the
// first has read, and reads on when its limit is larger. The bytes must not be
// modified.
func (v *View) Hold(limit int, d time.Duration) (data []byte, whole bool, err error) {
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
	fresh := b.held == nil && b.ahead == nil
	b.mu.Unlock()
	if fresh && v.touched() {
		// Somebody has read before: the begin is all there is to show.
		head := v.Head()
		v.mu.Lock()
		whole = v.end == endEOF && v.total == int64(len(head))
		v.mu.Unlock()
		return head, whole, nil
	}
	b.holdUpTo(limit, d)
	b.mu.Lock()
	held, last := b.held, b.last
	b.mu.Unlock()
	whole = last == io.EOF && len(held) <= limit
	if last != nil && last != io.EOF {
		err = last
	}
	n := min(len(held), limit)
	return held[:n:n], whole, err
}

// holdUpTo reads until held has more than limit bytes, the end has come or d is
// over. The one byte above the limit tells a body of exactly that size from a
// larger one.
func (b *body) holdUpTo(limit int, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		a := b.readAhead(limit)
		if a == nil {
			return
		}
		select {
		case <-a.done:
			b.join(a)
		case <-timer.C:
			b.mu.Lock()
			a.stop = true
			b.mu.Unlock()
			return
		}
	}
}

// readAhead returns the goroutine that reads, begun now if there is none, and
// nil when enough is held.
func (b *body) readAhead(limit int) *ahead {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ahead != nil:
		return b.ahead
	case b.enough(limit):
		return nil
	}
	if b.held == nil {
		size := int64(min(limit, 511))
		if b.view.length > size {
			size = min(b.view.length, int64(limit))
		}
		b.held = make([]byte, 0, size+1)
	}
	a := &ahead{done: make(chan struct{})}
	b.ahead = a
	go func() {
		defer close(a.done)
		defer func() { a.panicked = recover() }()
		for b.readOne(a, limit) {
		}
	}()
	return a
}

// enough is for those who hold mu.
func (b *body) enough(limit int) bool {
	return b.last != nil || b.closed || len(b.held) > limit
}

// readOne adds one read to held, and reports whether it did.
func (b *body) readOne(a *ahead, limit int) bool {
	b.mu.Lock()
	if a.stop || b.enough(limit) {
		b.mu.Unlock()
		return false
	}
	if len(b.held) == cap(b.held) {
		b.held = append(b.held, 0)[:len(b.held)]
	}
	room := b.held[len(b.held):min(cap(b.held), limit+1)]
	b.mu.Unlock()
	n, err := b.inner.Read(room)
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	// What a Close has broken off is no end of its own.
	if n >= 0 && n <= len(room) && !closed {
		b.view.passed(room[:n], err)
	}
	b.mu.Lock()
	b.held, b.last = b.held[:len(b.held)+min(max(n, 0), len(room))], err
	b.mu.Unlock()
	return true
}

// join takes the end of a, whose panic is that of whoever waited.
func (b *body) join(a *ahead) {
	b.mu.Lock()
	if b.ahead == a {
		b.ahead = nil
	}
	b.mu.Unlock()
	if a.panicked != nil {
		panic(a.panicked)
	}
}

// touched reports whether any of the body has been read.
func (v *View) touched() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.total > 0 || v.end != endNone
}
