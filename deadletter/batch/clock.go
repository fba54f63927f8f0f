package batch

import "time"

// Clock tells the time. *clock.Mock and clock.New of
// github.com/benbjohnson/clock satisfy it.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func orReal(c Clock) Clock {
	if c == nil {
		return realClock{}
	}
	return c
}
