package retry

import (
	"io"
	"time"
)

// chunk is what one read gave.
type chunk struct {
	data     []byte
	err      error
	panicked any
}

// holdFailed reads the body of an answer that reports a failure, limit bytes at
// most, within errorTime. What has come by then is judged. The read that took
// too long is not broken off, since the answer may be the caller's in the end:
// it goes on beside us, and its bytes are the first of the rest.
func (a *answer) holdFailed(limit int) {
	if a.none {
		a.ends(io.EOF)
		return
	}
	a.room(limit)
	asks, got := make(chan struct{}), make(chan chunk, 1)
	defer close(asks)
	go readFor(a.body, asks, got)
	timer := time.NewTimer(errorTime)
	defer timer.Stop()
	for len(a.data) <= limit {
		asks <- struct{}{}
		select {
		case c := <-got:
			a.data = append(a.data, c.data...)
			if c.panicked != nil {
				panic(c.panicked)
			}
			if c.err != nil {
				a.ends(c.err)
				return
			}
		case <-timer.C:
			a.late = got
			return
		case <-a.Done():
			a.late = got
			return
		}
	}
}

// readFor reads from body once for each ask, until asks is closed. It ends with
// the read in hand, as that does with the attempt's context or the body's Close.
func readFor(body io.Reader, asks <-chan struct{}, got chan<- chunk) {
	buf := make([]byte, 4<<10)
	for range asks {
		readOne(body, buf, got)
	}
}

// readOne reads once. A panic becomes the panic of whoever waits for the bytes.
func readOne(body io.Reader, buf []byte, got chan<- chunk) {
	c := chunk{err: io.ErrUnexpectedEOF} // should it end the goroutine
	defer func() {
		c.panicked = recover()
		got <- c
	}()
	n, err := body.Read(buf)
	c = chunk{data: buf[:n], err: err}
}

// await gives what the late read brings, and waits for it as for any read.
func (a *answer) await(p []byte) (int, error) {
	if len(a.rest.data) == 0 && a.rest.err == nil {
		if a.idle != nil {
			a.set(a.idle)
		}
		a.rest = <-a.late
		if a.idle != nil {
			a.lift()
		}
		if a.rest.panicked != nil {
			panic(a.rest.panicked)
		}
	}
	n := copy(p, a.rest.data)
	a.rest.data = a.rest.data[n:]
	if len(a.rest.data) > 0 {
		return n, nil
	}
	a.late = nil
	err := a.rest.err
	if err != nil && err != io.EOF {
		err = a.reason(err)
	}
	return n, err
}
