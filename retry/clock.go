package retry

import "time"

// Clock tells the time and waits. benbjohnson's clock.New() and *clock.Mock
// satisfy it as they are. Both methods must be safe for concurrent use.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// wall is the real time.
type wall struct{}

func (wall) Now() time.Time                         { return time.Now() }
func (wall) After(d time.Duration) <-chan time.Time { return time.After(d) }

// tick returns the time since the Retrier was made, for what is measured and
// not told: from the monotonic clock, which is twice as quick to read as the
// wall and does not jump when that is set.
func (r *Retrier) tick() time.Duration {
	if r.ownClock {
		return r.clock.Now().Sub(r.epoch)
	}
	return time.Since(r.epoch)
}
