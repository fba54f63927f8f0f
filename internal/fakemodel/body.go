package fakemodel

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// errStopped is what a wait returns when a body was closed under it.
var errStopped = errors.New("fakemodel: body closed")

// A body gives a plan's parts as they fall due. It has no goroutine: Read
// spends the time.
type body struct {
	m      *Model
	ctx    context.Context
	plan   *plan
	next   int // part
	rest   []byte
	closed chan struct{}
	once   sync.Once
	ended  sync.Once
}

// Read implements io.Reader. As in net/http, it may be unblocked by Close.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *body) read(p []byte) (int, error) {
	select {
	case <-b.closed:
		return 0, http.ErrBodyReadAfterClose
	default:
	}
	if err := context.Cause(b.ctx); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if len(b.rest) == 0 {
		if err := b.more(); err != nil {
			if errors.Is(err, errStopped) {
				err = http.ErrBodyReadAfterClose
			}
			return 0, err
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// more waits for the next part, or for what comes after the last.
func (b *body) more() error {
	if b.next == len(b.plan.parts) {
		switch b.plan.fate {
		case FateCut:
			return io.ErrUnexpectedEOF
		case FateStall:
			return hang(b.ctx, b.closed)
		}
		return io.EOF
	}
	if b.next > 0 {
		if err := pause(b.ctx, b.m.cfg.Clock, b.plan.gap, b.closed); err != nil {
			return err
		}
	}
	b.rest = b.plan.parts[b.next]
	b.next++
	return nil
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.once.Do(func() {
		close(b.closed)
		b.end()
		b.m.mu.Lock()
		defer b.m.mu.Unlock()
		b.m.count.openBodies--
	})
	return nil
}

// end is the end of a stream at the upstream.
func (b *body) end() {
	if b.plan.stream {
		b.ended.Do(b.m.done)
	}
}
