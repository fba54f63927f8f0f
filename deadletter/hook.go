package deadletter

import (
	"fmt"
	"sync"
)

// hooks runs the callers' hooks one at a time and in order, with no lock held.
// Whoever finds none running runs those that wait: there is no goroutine.
type hooks struct {
	mu      sync.Mutex
	waiting []func()
	running bool
}

// tell runs fn after all that were told before it.
func (q *Queue) tell(fn func()) {
	h := &q.hooks
	h.mu.Lock()
	h.waiting = append(h.waiting, fn)
	if h.running {
		h.mu.Unlock()
		return
	}
	h.running = true
	for len(h.waiting) > 0 {
		next := h.waiting[0]
		h.waiting[0] = nil
		h.waiting = h.waiting[1:]
		h.mu.Unlock()
		q.hook(next)
		h.mu.Lock()
	}
	h.running = false
	h.mu.Unlock()
}

// hook runs fn and survives it, also when it ends its goroutine: then the rest
// is told from here, since the goroutine runs only its deferred calls any more.
func (q *Queue) hook(fn func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		what := "it ended its goroutine"
		p := recover()
		if p != nil {
			what = fmt.Sprint(p)
		}
		q.count.hookPanics.Add(1)
		q.cfg.Logger.Error("deadletter: hook panicked", "queue", q.cfg.Name, "panic", what)
		if p == nil {
			q.hooks.mu.Lock()
			q.hooks.running = false
			left := len(q.hooks.waiting) > 0
			q.hooks.mu.Unlock()
			if left {
				q.tell(func() {})
			}
		}
	}()
	fn()
	returned = true
}
