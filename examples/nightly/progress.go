package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// clock is what the program asks for the time, so that a test can shift the
// day.
type clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

type wallClock struct{}

func (wallClock) Now() time.Time                         { return time.Now() }
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// progress shows how far a run is: one line that is written over on a
// terminal, else a plain line every few seconds.
type progress struct {
	w        io.Writer
	clk      clock
	terminal bool

	done    chan struct{}
	stopped sync.WaitGroup
}

func newProgress(w io.Writer, clk clock) *progress {
	p := &progress{w: w, clk: clk}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil {
			p.terminal = info.Mode()&os.ModeCharDevice != 0
		}
	}
	return p
}

// start shows state's answer, the items that are through and a remark, until
// stop. Each start is followed by one stop.
func (p *progress) start(total int, state func() (through int64, remark string)) {
	every, form := 5*time.Second, "%d of %d items, %.0f/s%s\n"
	if p.terminal {
		every, form = 200*time.Millisecond, "\r\x1b[K%d of %d items, %.0f/s%s"
	}
	begin := p.clk.Now()
	before, _ := state() // what earlier runs did
	show := func() {
		n, remark := state()
		rate := 0.0
		if s := p.clk.Now().Sub(begin).Seconds(); s >= 0.1 {
			rate = float64(n-before) / s
		}
		fmt.Fprintf(p.w, form, n, total, rate, remark)
	}
	p.done = make(chan struct{})
	p.stopped.Go(func() {
		for {
			select {
			case <-p.clk.After(every):
				show()
			case <-p.done:
				show()
				if p.terminal {
					fmt.Fprintln(p.w)
				}
				return
			}
		}
	})
}

func (p *progress) stop() {
	close(p.done)
	p.stopped.Wait()
}
