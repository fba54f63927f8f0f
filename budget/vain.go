package budget

import (
	"math"
	"time"
)

// When refusals are not about the rate.
const (
	shareMean  = 40  // calls
	vainShare  = 0.2 // of refusals, that cuts do not change
	vainChange = 0.1
	vainCuts   = 3   // in a row; doubled each time that it was the rate, after all
	mostFooled = 5   // times
	hopeless   = 0.6 // of refusals, above which they can hardly become more
	freeDouble = 4.0 // seconds
)

// inVain finds out that refusals are not about the rate: cuts leave their share
// as it was. Then they are not listened to as long as a rising rate leaves it
// so as well.
func (c *curve) inVain(r float64) bool {
	same := c.everCut && c.share > vainShare && c.share < hopeless && math.Abs(c.share-c.before) < vainChange
	c.before = c.share
	if !same {
		c.vain, c.free = 0, r
		return false
	}
	c.vain++
	c.deaf = c.vain >= vainCuts<<c.fooled
	return c.deaf
}

// hears ends the deafness when the refusals have become more with the rate. What
// has passed since the last cut is then the limit.
func (c *curve) hears(now time.Time, s Slot, pause time.Duration) bool {
	passed, took := c.epoch.since(s)
	c.emptied(s)
	if c.share < min(c.before+vainShare, hopeless) || took <= 0 {
		return false
	}
	c.deaf, c.vain = false, 0
	c.fooled = min(c.fooled+1, mostFooled)
	c.seen = passed / took
	c.cut(now, max(c.seen, lowest), 0, pause)
	return true
}
