package budget

import (
	"math"
	"time"
)

// curve finds a limit that nobody knows: it measures it at refusals, stays a
// little below for a while, passes it, and learns from the next refusal
// whether it has changed. The shape is that of a congestion control (CUBIC):
// long near the measured limit, fast far above it. It is pure: time is an
// argument, and the pacer's lock guards it.
//
// Its own clock stands still while nobody waits and while the key is held:
// idle time proves nothing about a limit, but would run the curve up.
type curve struct {
	begin float64 // share of the limit at which the curve begins: 0.9, or 1 - Headroom
	spare bool    // with Headroom: longer stays below

	last    time.Time // when run was called last
	act     float64   // seconds in which somebody waited
	climb   float64   // of these, those in which the key was not held
	left    time.Time // the last departure
	everCut bool
	cutAt   time.Time // wall time of the last cut: earlier calls' refusals are of the past
	cutSeen float64   // climb at the last cut, less what a pause has stood in for
	limit   float64   // as measured, in calls of mean size per second
	start   float64   // the rate before the first cut
	length  float64   // seconds from begin to the limit
	flat    float64   // seconds at begin before that
	seen    float64   // what passed between the last refusals, per second
	steady  int       // cuts in a row that have seen about the same

	agreed volume // of gaps that agree with each other
	lean   int    // cuts in a row at which the bucket had run over

	share  float64 // of refusals among the last calls, a moving mean by sending: answers are slower
	before float64 // share at the last cut
	vain   int     // cuts in a row that left the share as it was
	deaf   bool    // refusals are not about the rate
	free   float64 // the rate while deaf
	fooled int     // how often it was the rate, after all: then it takes more cuts

	cum    float64 // cost of all calls that were sent while somebody waited
	gap    mark    // since the last refusal
	epoch  mark    // since the last cut
	passes int     // answers since the last cut
	meter  float64 // sends per second, decaying

	size sizes
}

// mark is a point from which sent calls are counted.
type mark struct {
	act, cum float64
	out      float64 // of the calls sent since, those that were refused or not sent
}

const (
	startRate   = 2.0 // calls per second
	startDouble = 2.0 // seconds
	meterTau    = 5.0 // seconds
	enough      = 8.0 // calls in a gap that make a measurement
	cubic       = 0.001
	lowest      = 1e-3 // calls per second
	minLength   = 10.0
	maxLength   = 40.0 // with Headroom
	flatTime    = 300.0
	flatEnough  = 30.0 // calls in a gap that a long stay may rest on
	sameShare   = 0.1  // measurements this near to each other are the same
	sameCuts    = 3
)

func newCurve(headroom float64) *curve {
	c := &curve{begin: 0.9, start: startRate}
	if headroom > 0 {
		c.begin, c.spare = 1-headroom, true
	}
	return c
}

// run brings the clocks to now. waiting says whether anybody has waited since
// the last call.
func (c *curve) run(now time.Time, waiting bool, hold time.Time) {
	last := c.last
	c.last = now
	d := now.Sub(last).Seconds()
	if last.IsZero() || d <= 0 {
		return
	}
	c.meter *= math.Exp(-d / meterTau)
	if !waiting {
		return
	}
	c.act += d
	if hold.After(last) {
		d = max(now.Sub(hold).Seconds(), 0)
	}
	c.climb += d
	switch {
	case c.deaf:
		c.free = min(c.free*math.Exp2(d/freeDouble), c.cap())
	case !c.everCut:
		c.start = min(c.start*math.Exp2(d/startDouble), c.cap())
	}
}

// cap bounds the rate by what is sent: without load nothing proves that more
// would pass.
func (c *curve) cap() float64 { return 4 * max(startRate, c.meter) }

// rate is calls of mean size per second.
func (c *curve) rate(time.Time) float64 {
	switch {
	case c.deaf:
		return c.free
	case !c.everCut:
		return c.start
	}
	t := c.climb - c.cutSeen - c.flat
	x := max(t, 0)/c.length - 1
	return c.limit * (1 + (1-c.begin)*x*x*x)
}

// wait returns how long after the last departure a call of that size leaves.
func (c *curve) wait(now time.Time, tokens int64) time.Duration {
	if c.left.IsZero() {
		return 0
	}
	next := c.left.Add(seconds(c.size.cost(tokens) / c.rate(now)))
	return max(next.Sub(now), 0)
}

// sent counts a departure. counted says that somebody waited.
func (c *curve) sent(now time.Time, s *Slot, counted bool) {
	c.left = now
	c.share -= c.share / shareMean
	s.act, s.cum, s.cost, s.counted = c.act, c.cum, c.size.cost(s.tokens), counted
	c.meter += s.cost / meterTau
	c.size.all(s.tokens)
	if counted {
		c.cum += s.cost
	}
}

func (c *curve) passed(s Slot) {
	if s.at.After(c.cutAt) || !c.everCut {
		c.passes++
	}
}

// unsent takes a call out of the counts that never left.
func (c *curve) unsent(s Slot) {
	c.meter = max(c.meter-s.cost/meterTau, 0)
	if !s.counted {
		return
	}
	for _, m := range []*mark{&c.gap, &c.epoch} {
		if s.cum >= m.cum {
			m.out += s.cost
		}
	}
}

// since returns what passed and how long it took from m to the call s.
func (m *mark) since(s Slot) (passed, took float64) {
	return s.cum - m.cum - m.out, s.act - m.act
}

// refused learns from a refusal, and reports whether the rate was cut. pause
// is what the server asked for, 0 if it did not.
func (c *curve) refused(now time.Time, s Slot, pause time.Duration) bool {
	c.size.refused(s.tokens)
	c.share += 1.0 / shareMean
	if c.deaf {
		return c.hears(now, s, pause)
	}
	if c.everCut && !s.at.After(c.cutAt) {
		return false
	}
	r := c.rate(now)
	gap, took := c.gap.since(s)
	epoch, lasted := c.epoch.since(s)
	c.emptied(s)
	var measured, seen float64
	switch {
	case !c.everCut:
		measured = 0.7 * min(r, 2*c.meter)
		seen = measured
	case c.passes == 0:
		return false // closed, not slow
	case gap >= enough && took > 0:
		seen = c.agree(volume{gap, took})
		measured = max(seen, c.floor(r, seen))
	case lasted >= max(1, 4/r):
		seen = epoch / lasted
		measured = max(seen, r/2)
	default:
		return false
	}
	if c.inVain(r) {
		return false
	}
	if c.everCut && math.Abs(seen-c.seen) <= sameShare*c.seen {
		c.steady++
	} else {
		c.steady = 0
	}
	c.seen = seen
	c.cut(now, max(measured, lowest), gap, pause)
	return true
}

// emptied takes a refused call out of the counts, and begins a new gap
// behind it.
func (c *curve) emptied(s Slot) {
	cost := 0.0
	if s.counted {
		cost = s.cost
	}
	if s.cum >= c.epoch.cum {
		c.epoch.out += cost
	}
	if s.cum >= c.gap.cum {
		c.gap = mark{act: s.act, cum: s.cum + cost}
	}
}

func (c *curve) cut(now time.Time, measured, gap float64, pause time.Duration) {
	c.everCut, c.cutAt, c.limit, c.passes = true, now, measured, 0
	c.epoch = mark{act: c.act, cum: c.cum}
	c.length = c.stay()
	c.flat = 0
	if c.spare && gap >= flatEnough {
		c.flat = flatTime
	}
	c.cutSeen = c.climb
	if pause > 0 {
		// The pause is the decrease: the curve begins further on.
		c.cutSeen -= c.length * min(1, pause.Seconds()/((1-c.begin)*c.length/4))
	}
}

// stay is the time from begin to the limit. Short for a low limit that nothing
// has confirmed: an estimate that has collapsed would otherwise last for hours.
func (c *curve) stay() float64 {
	switch {
	case c.spare:
		return min(max(30/c.limit, minLength), maxLength)
	case c.steady >= sameCuts-1:
		return max(30/c.limit, minLength)
	}
	return math.Cbrt(c.limit * (1 - c.begin) / cubic)
}
