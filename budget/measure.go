package budget

import "math"

// volume is what passed in a time.
type volume struct{ passed, took float64 }

func (v volume) rate() float64 { return v.passed / v.took }

const (
	agreeShare  = 0.25 // gaps this near to each other are measured together
	agreeEnough = 60.0 // calls
	leanCuts    = 3    // in a row, that say how small the bucket is
	leanSame    = 0.05 // nearer than this what was seen is the same
	leanAbove   = 1.2  // of it, above which the first refusal came
	leanGone    = 0.2  // further off than this it is another limit
	leanFloor   = 0.97 // of the rate at a refusal
	floorShare  = 0.85
)

// agree returns the rate of the gap v together with those before it, as far as
// they agree: one of eight calls alone may be wrong by an eighth.
func (c *curve) agree(v volume) float64 {
	a := c.agreed
	if a.took > 0 && math.Abs(v.rate()-a.rate()) <= agreeShare*a.rate() {
		if a.passed > agreeEnough {
			a.passed, a.took = a.passed/2, a.took/2
		}
		v.passed, v.took = v.passed+a.passed, v.took+a.took
	}
	c.agreed = v
	return v.rate()
}

// floor is what the limit is at least, when refusals begin at the rate r. After
// a long stay below the limit the bucket has run over, and what was seen is too
// little. A bucket that holds a call or two runs over all the time: then what
// is seen stays the same far below the rate at which it refuses, which is the
// limit itself.
func (c *curve) floor(r, seen float64) float64 {
	off := math.Abs(seen/c.limit - 1)
	switch {
	case c.spare:
	case c.lean >= leanCuts:
		if off > leanGone {
			c.lean = 0
		}
	case off <= leanSame && r > leanAbove*c.limit:
		c.lean++
	default:
		c.lean = 0
	}
	if c.lean >= leanCuts {
		return leanFloor * min(r, c.meter)
	}
	return floorShare * min(r, c.meter)
}
