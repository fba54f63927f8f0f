package call

import (
	"context"
	"sync/atomic"
)

// Lazy is the context of the first attempt of an item that nobody has begun
// above. Its Box is made when somebody below asks for one, since most functions
// and transports do not.
type Lazy struct {
	context.Context
	Wire  bool  // the attempt belongs to one round trip
	Timer Timer // its time limit; nil = none
	box   atomic.Pointer[Box]
}

// Value returns the Box for this package's key.
func (l *Lazy) Value(key any) any {
	if key == (boxKey{}) {
		return l.Box()
	}
	return l.Context.Value(key)
}

// Box returns the attempt's Box, whose retry owns the attempts.
func (l *Lazy) Box() *Box {
	if b := l.box.Load(); b != nil {
		return b
	}
	b := &Box{Context: l.Context, Retried: true}
	b.Item = &b.item
	b.begin(1, l.Wire)
	b.attempt.Timer = l.Timer
	if !l.box.CompareAndSwap(nil, b) {
		return l.box.Load()
	}
	return b
}

// Asked returns the Box if anybody has asked for it, else nil: then nothing is
// noted in it.
func (l *Lazy) Asked() *Box { return l.box.Load() }
