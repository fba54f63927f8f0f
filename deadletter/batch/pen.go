package batch

import (
	"io"
	"time"
)

// pen writes from a goroutine of its own, so that a writer that blocks, as a
// terminal does after ctrl-S, holds up no run. What has not been written when
// something newer comes is left out. One goroutine uses it.
type pen struct {
	texts chan []byte   // the newest
	ended chan struct{} // closed with the goroutine
	clk   Clock
}

func (r *run) newPen(w io.Writer) *pen {
	p := &pen{texts: make(chan []byte, 1), ended: make(chan struct{}), clk: r.cfg.Clock}
	go func() {
		defer close(p.ended)
		for b := range p.texts {
			r.hook("Progress", func() { _, _ = w.Write(b) })
		}
	}()
	return p
}

// Write leaves b to be written, in the place of what was left before.
func (p *pen) Write(b []byte) (int, error) {
	select {
	case <-p.texts:
	default:
	}
	p.texts <- append([]byte(nil), b...)
	return len(b), nil
}

// lift returns when all is written, or the writer blocks.
func (p *pen) lift() {
	close(p.texts)
	select {
	case <-p.ended:
	case <-p.clk.After(time.Second):
	}
}
