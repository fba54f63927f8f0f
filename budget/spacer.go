package budget

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// A spacer is a known limit: a token bucket of which only as much is used at
// once as the call in hand needs, so that calls are spaced and not saved up.
// Only those methods of rate.Limiter are used that take the time.
type spacer struct {
	lim   *rate.Limiter
	burst int64
	scale int64 // bucket units per unit of the limit
}

// The bucket of a token limit holds what ten seconds refill: room for what
// estimates give back. That of a request limit holds one request, in
// thousandths, so that what a call did not wait for can be taken away.
const (
	tokenBurst   = 10.0 / 60
	requestScale = 1000
)

func newRequestSpacer(perMinute float64) *spacer {
	return newSpacer(perMinute, requestScale, requestScale)
}

func newTokenSpacer(perMinute float64) *spacer {
	return newSpacer(perMinute, perMinute*tokenBurst, 1)
}

func newSpacer(perMinute, burst float64, scale int64) *spacer {
	b := int64(min(max(burst, 1), math.MaxInt32)) // an int also where that has 32 bits
	return &spacer{
		lim:   rate.NewLimiter(rate.Limit(perMinute/60*float64(scale)), int(b)),
		burst: b, scale: scale,
	}
}

// almost allows for what floating point loses.
const almost = 1e-6

// wait returns how long n units, at most a burst, are away.
func (s *spacer) wait(now time.Time, n int64) time.Duration {
	lacks := float64(min(n*s.scale, s.burst)) - s.lim.TokensAt(now)
	if lacks <= almost {
		return 0
	}
	return time.Duration(math.Ceil(min(lacks/float64(s.lim.Limit())*float64(time.Second), math.MaxInt64/2)))
}

// take takes n units, whether they are there or not.
func (s *spacer) take(now time.Time, n int64) {
	for n *= s.scale; n > 0; n -= s.burst {
		c := int(min(n, s.burst))
		if !s.lim.AllowN(now, c) { // which, unlike ReserveN, makes no debt and no garbage
			s.lim.ReserveN(now, c)
		}
	}
}

// give gives n units back. A negative reservation is not in rate's
// documentation, but CancelAt gives back less than was taken once others have
// reserved. What exceeds the bucket is lost.
func (s *spacer) give(now time.Time, n int64) {
	for n = min(n*s.scale, 1<<50); n > 0; n -= math.MaxInt32 {
		s.lim.ReserveN(now, -int(min(n, math.MaxInt32)))
	}
}

// keep takes away what was saved beyond n units.
func (s *spacer) keep(now time.Time, n int64) {
	if saved := int(s.lim.TokensAt(now) - float64(min(n*s.scale, s.burst))); saved > 0 {
		s.lim.AllowN(now, saved)
	}
}

// perSecond is the limit in its own unit.
func (s *spacer) perSecond() float64 { return float64(s.lim.Limit()) / float64(s.scale) }
