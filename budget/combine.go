package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/hook"
)

// maxBatch bounds the changes of one [Store.Apply].
const maxBatch = 256

// combiner turns the callers that wait for a store into one Apply: while one
// of them is in the store, the others queue, and the first of them takes the
// whole queue along. There is no goroutine; the leader serves one batch and
// hands over.
type combiner struct {
	store   Store
	timeout time.Duration

	mu    sync.Mutex
	queue []*pending // in the order of arrival
	busy  bool       // somebody leads
}

// pending is one change that waits. Everything but the channel is guarded by
// the combiner's mutex, except that whoever leads reads and writes change.
type pending struct {
	change Change
	buf    [2]Op
	undo   bool // give back what was applied if the caller has left

	state state
	err   error
	turn  chan bool // true: lead; false: answered; nil for a give-back
}

type state uint8

const (
	queued state = iota
	taken        // in a batch
	leader       // told to lead, still in the queue
	answered
	left // the caller has gone
)

// do applies p.change and returns when that is known, or when ctx has ended.
func (c *combiner) do(ctx context.Context, p *pending) error {
	p.turn = make(chan bool, 1)
	c.mu.Lock()
	c.queue = append(c.queue, p)
	lead := !c.busy
	if lead {
		c.busy, p.state = true, leader
	}
	c.mu.Unlock()
	if !lead {
		select {
		case lead = <-p.turn:
		case <-ctx.Done():
			if gone := c.leave(p); gone {
				return call.Stopped(ctx, "budget: waiting for the store")
			}
			lead = <-p.turn
		}
	}
	if lead {
		c.lead(p)
	}
	return p.err
}

// leave takes p's caller out, and reports false when p has been answered or
// told to lead meanwhile: then there is a message, and others depend on it.
func (c *combiner) leave(p *pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.state == answered || p.state == leader {
		return false
	}
	// Still queued: take skips it. In a batch: answer gives it back.
	p.state = left
	return true
}

// lead serves batches until p is answered, normally one, and hands over.
func (c *combiner) lead(p *pending) {
	defer c.handOver() // also when the store ends the goroutine
	for {
		batch := c.take()
		c.serve(batch)
		if p.state == answered { // by this goroutine
			return
		}
	}
}

func (c *combiner) take() []*pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	var batch []*pending
	i := 0
	for ; i < len(c.queue) && len(batch) < maxBatch; i++ {
		if p := c.queue[i]; p.state != left {
			p.state = taken
			batch = append(batch, p)
		}
	}
	n := copy(c.queue, c.queue[i:])
	clear(c.queue[n:])
	c.queue = c.queue[:n]
	return batch
}

func (c *combiner) handOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.queue {
		if p.state == queued && p.turn != nil {
			p.state = leader
			p.turn <- true
			return
		}
	}
	c.busy = false // what is left in the queue is nobody's: give-backs
}

// serve applies a batch and answers everybody in it, whatever the store does.
func (c *combiner) serve(batch []*pending) {
	err := errors.New("the store ended the goroutine")
	defer func() { c.answer(batch, err) }()
	changes := make([]*Change, len(batch))
	for i, p := range batch {
		changes[i] = &p.change
	}
	err = c.apply(changes)
}

func (c *combiner) apply(changes []*Change) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the store panicked: %s", hook.Text(r))
		}
	}()
	// Not the leader's context: the batch is everybody's.
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	return c.store.Apply(ctx, changes)
}

func (c *combiner) answer(batch []*pending, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range batch {
		p.err = err
		if p.state == left {
			if p.undo && err == nil && p.change.OK {
				c.queue = append(c.queue, p.giveBack())
			}
			continue
		}
		p.state = answered
		if p.turn != nil {
			p.turn <- false // the leader's own is never read
		}
	}
}

// giveBack is the change that undoes p's. Nobody waits for it.
func (p *pending) giveBack() *pending {
	g := &pending{}
	for _, op := range p.change.Ops {
		g.change.Ops = append(g.change.Ops, Op{Key: op.Key, Delta: -op.Delta, Max: op.Max})
	}
	return g
}
