package budget

import "time"

// Clock is where a [Budget] and a [Pacer] get the time from. A nil Clock in a
// Config is real time, which in a testing/synctest bubble is the bubble's.
// The clocks of github.com/benbjohnson/clock satisfy it as they are.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// clockOr returns c, or real time for nil.
func clockOr(c Clock) Clock {
	if c == nil {
		return realClock{}
	}
	return c
}
