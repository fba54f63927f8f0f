package budget

import "time"

// waiter is one caller in a pacer's queue.
type waiter struct {
	tokens int64
	taken  int64 // of tokens, already
	since  time.Time
	first  chan struct{} // closed when it has become the first

	next, prev *waiter
}

// queue is first come, first served; whoever leaves does so from anywhere.
type queue struct {
	first, last *waiter
	n           int
	tokens      int64 // still to be taken by all, saturating
}

func (q *queue) push(w waiter) *waiter {
	p := &w
	p.first = make(chan struct{})
	if p.prev = q.last; p.prev != nil {
		p.prev.next = p
	} else {
		q.first = p
	}
	q.last = p
	q.n++
	q.tokens = min(q.tokens+p.tokens, MaxAmount<<9)
	return p
}

func (q *queue) remove(p *waiter) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		q.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		q.last = p.prev
	}
	p.next, p.prev = nil, nil
	q.n--
	q.tokens = max(q.tokens-p.tokens, 0)
}
