package retry

import (
	"math"
	"time"
)

// ceiling returns min(longest, base*2^(n-1)), the longest wait of our own
// after failure number n, which counts from 1.
func ceiling(base, longest time.Duration, n int) time.Duration {
	d := base
	for ; n > 1 && d < longest; n-- {
		if d > longest/2 {
			return longest
		}
		d *= 2
	}
	return min(d, longest)
}

// jitter returns the share u of d: full jitter for a uniform u. Values outside
// [0, 1] are cut, so a foolish source of randomness breaks no bound.
func jitter(d time.Duration, u float64) time.Duration {
	switch {
	case !(u > 0):
		return 0
	case u >= 1:
		return d
	}
	return min(time.Duration(u*float64(d)), d)
}

// plus adds what both are not negative, and saturates.
func plus(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
