package retry

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

const (
	minutes = 15

	// Times are counted in classes of 1/16 octave from 1 µs to about 4 days.
	octaves = 38
	perOct  = 16
	classes = octaves * perOct
)

// window keeps the last 15 minutes, a bucket for each. Its times are those of
// tick.
type window struct {
	mu      sync.Mutex
	buckets [minutes]bucket
}

type bucket struct {
	minute              int64 // far in the past when never used
	done, failed, calls uint64
	took                []uint32 // by class; nil until needed
}

func (w *window) init() {
	for i := range w.buckets {
		w.buckets[i].minute = math.MinInt64
	}
}

// at returns the bucket of now. A clock that goes back adds to the bucket in
// place.
func (w *window) at(now time.Duration) *bucket {
	m := minuteOf(now)
	b := &w.buckets[(uint64(m)+1<<63)%minutes]
	if m > b.minute {
		clear(b.took)
		*b = bucket{minute: m, took: b.took}
	}
	return b
}

// minuteOf rounds down also before zero.
func minuteOf(t time.Duration) int64 {
	m := int64(t / time.Minute)
	if t < 0 {
		m--
	}
	return m
}

// call counts one sent call.
func (w *window) call(now time.Duration) {
	w.mu.Lock()
	w.at(now).calls++
	w.mu.Unlock()
}

// end counts an item that ended, and its last call with it where that was sent.
func (w *window) end(now time.Duration, done bool, took time.Duration, calls uint64) {
	w.mu.Lock()
	b := w.at(now)
	b.calls += calls
	if done {
		b.done++
	} else {
		b.failed++
	}
	if b.took == nil {
		b.took = make([]uint32, classes)
	}
	b.took[classOf(took)]++
	w.mu.Unlock()
}

func (w *window) read(now time.Duration) Recent {
	w.mu.Lock()
	defer w.mu.Unlock()
	var r Recent
	var sum [classes]uint32
	m := minuteOf(now)
	for i := range w.buckets {
		b := &w.buckets[i]
		if b.minute <= m-minutes || b.minute == math.MinInt64 {
			continue
		}
		r.Done += b.done
		r.Failed += b.failed
		r.Calls += b.calls
		for i, n := range b.took {
			sum[i] += n
		}
	}
	n := r.Done + r.Failed
	r.P50, r.P95 = quantile(&sum, n, 0.50), quantile(&sum, n, 0.95)
	return r
}

// quantile returns the middle of the class in which the share q is reached.
func quantile(sum *[classes]uint32, n uint64, q float64) time.Duration {
	if n == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(n)))
	for i, c := range sum {
		if uint64(c) >= rank {
			return middle(i)
		}
		rank -= uint64(c)
	}
	return middle(classes - 1)
}

// classOf returns the class of d.
func classOf(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	if us == 0 {
		return 0
	}
	oct := bits.Len64(us) - 1
	// The share of the octave by linear steps: no logarithm on the way of a
	// good call.
	part := int((us << 4 >> oct) & (perOct - 1))
	return min(oct*perOct+part, classes-1)
}

// middle returns the middle of class i.
func middle(i int) time.Duration {
	oct, part := i/perOct, i%perOct
	low := math.Ldexp(1+float64(part)/perOct, oct)
	return time.Duration((low + math.Ldexp(0.5/perOct, oct)) * float64(time.Microsecond))
}
