package fakemodel

import (
	"context"
	"time"
)

// Clock is the time a Model lives by. *clock.Mock of benbjohnson/clock is one.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// pause waits for d, or until ctx or stop ends; only the first is no error.
// stop may be nil.
func pause(ctx context.Context, clk Clock, d time.Duration, stop <-chan struct{}) error {
	// After is never asked for nothing: a mock clock would run its timers on
	// this goroutine, or go back in time.
	if d <= 0 {
		return context.Cause(ctx)
	}
	select {
	case <-clk.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-stop:
		return errStopped
	}
}

// hang waits until ctx or stop ends.
func hang(ctx context.Context, stop <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-stop:
		return errStopped
	}
}
