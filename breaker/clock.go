package breaker

import "time"

// Clock tells the time. *clock.Mock and clock.New() of benbjohnson/clock
// satisfy it as they are.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// realClock is what a nil Clock stands for.
type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
