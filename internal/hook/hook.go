// Package hook calls the functions that users give to be told of something: one
// call at a time and in order, with no lock held and on no goroutine of its
// own. A hook that panics or ends its goroutine loses nothing but its own call.
package hook

import (
	"fmt"
	"sync"

	"github.com/nightfuse/nightfuse/internal/redact"
)

// textLimit bounds what is kept of the value of a panic, in bytes.
const textLimit = 512

// Queue is the events of one hook, which may be nil. Its fields are set before
// the first use. Its methods are safe for concurrent use, and a hook may tell
// events itself: they come after the one in hand.
type Queue[E any] struct {
	Hook func(E)
	// Lost is told what came out of a hook that panicked, scrubbed and short, or
	// that it ended its goroutine. nil = nobody is told.
	Lost func(text string)

	mu      sync.Mutex
	waiting []E
	busy    bool
}

// Add has e told by the next Run. It calls nothing, so locks may be held.
func (q *Queue[E]) Add(e E) {
	if q.Hook == nil {
		return
	}
	q.mu.Lock()
	q.waiting = append(q.waiting, e)
	q.mu.Unlock()
}

// Tell is Add and Run.
func (q *Queue[E]) Tell(e E) {
	q.Add(e)
	q.Run()
}

// Waits reports whether there is anything for Run to tell.
func (q *Queue[E]) Waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0
}

// Run tells what waits, unless another call is at it, which then tells that too.
func (q *Queue[E]) Run() {
	q.mu.Lock()
	if q.busy || len(q.waiting) == 0 {
		q.mu.Unlock()
		return
	}
	q.busy = true
	q.mu.Unlock()
	defer func() {
		// Too early only where the goroutine ends: nothing but deferred calls
		// runs any more, so the rest is told from here.
		q.mu.Lock()
		q.busy = false
		q.mu.Unlock()
		q.Run()
	}()
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.waiting = nil
			q.mu.Unlock()
			return
		}
		e := q.waiting[0]
		var none E
		q.waiting[0] = none
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		Call(func() { q.Hook(e) }, q.Lost)
	}
}

// Call runs fn and tells lost, which may be nil, if it panics or ends its
// goroutine.
func Call(fn func(), lost func(text string)) {
	returned := false
	defer func() {
		if returned {
			return
		}
		text := "it ended its goroutine"
		if p := recover(); p != nil {
			text = Text(p)
		}
		if lost != nil {
			lost(text)
		}
	}()
	fn()
	returned = true
}

// Text returns what a panic's value says, as it may be logged.
func Text(p any) string { return redact.Err(fmt.Errorf("%v", p), textLimit) }
