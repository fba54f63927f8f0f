package retry

import "github.com/nightfuse/nightfuse/internal/call"

// error makes the item's Error.
func (l *loop) error(cause error) *Error {
	last := l.last
	e := &Error{
		Calls: l.calls, Elapsed: l.r.tick() - l.start, Cause: cause, Last: last.err,
		Status: last.status, Code: last.code, Header: last.header, Body: last.body,
	}
	if e.Last == nil && cause == errLimit {
		// A loop of somebody else above us has met it.
		if it := l.item(); it != nil {
			e.Last = it.Failure()
		}
	}
	if call.RefusedBy(cause) == "" {
		e.NotBefore = l.notBefore
	}
	return e
}

// end ends the item before an attempt was made.
func (l *loop) end(cause error) error {
	return l.finish(l.error(cause))
}

// item returns what the item's calls share, nil when no call was begun and
// nobody above has begun the item.
func (l *loop) item() *call.Item {
	if l.box != nil {
		return l.box.Item
	}
	if l.up != nil {
		return l.up.Item
	}
	return nil
}

// finish settles an item that failed, and returns e.
func (l *loop) finish(e *Error) error {
	l.settle(e)
	return e
}

func (l *loop) settle(e *Error) {
	if l.over {
		return
	}
	l.over = true
	l.giveBack()
	s := &l.r.stats
	if e.RefusedBy() != "" {
		s.refused.Add(1)
	} else {
		s.failed.Add(1)
		s.window.end(l.r.tick(), false, e.Elapsed, 0)
	}
	if it := l.item(); it != nil {
		it.Fail(e)
	}
	l.out.note(l.calls, e)
	l.gaveUp(e)
}

// giveBack returns what was taken for an attempt that is not made.
func (l *loop) giveBack() {
	if l.owed {
		l.limit.Give(nil)
	}
	if l.owedMore {
		l.r.cfg.Quota.give()
	}
	l.owed, l.owedMore = false, false
}
