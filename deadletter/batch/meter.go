package batch

import (
	"math"
	"time"
)

// histogram counts durations in buckets two per cent wide: what is read off it
// is at most so much too high, whatever the number of items.
type histogram struct {
	n       int
	buckets map[int]int
}

const bucketWidth = 0.02

func (h *histogram) add(d time.Duration) {
	if h.buckets == nil {
		h.buckets = map[int]int{}
	}
	h.n++
	h.buckets[bucketOf(d)]++
}

func bucketOf(d time.Duration) int {
	if d < time.Microsecond {
		return -1
	}
	return int(math.Log(float64(d)/float64(time.Microsecond)) / math.Log1p(bucketWidth))
}

// quantile returns the upper end of the bucket that holds the q-th share.
func (h *histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	low, high := math.MaxInt, math.MinInt
	for b := range h.buckets {
		low, high = min(low, b), max(high, b)
	}
	rank := max(1, int(math.Ceil(q*float64(h.n))))
	for b := low; b <= high; b++ {
		if rank -= h.buckets[b]; rank <= 0 {
			high = b
			break
		}
	}
	if high < 0 {
		return time.Microsecond
	}
	return time.Duration(float64(time.Microsecond) * math.Pow(1+bucketWidth, float64(high+1)))
}

// Stuck says that the slowest items of a window became slower while the rest
// did not: some items are stuck.
type Stuck struct {
	Items int     `json:"items"` // in the window
	P50   float64 `json:"p50_ms"`
	P95   float64 `json:"p95_ms"`

	FirstP50 float64 `json:"first_p50_ms"` // of the first full window
	FirstP95 float64 `json:"first_p95_ms"`
}

// The rules of the alerts.
const (
	window        = 15 * time.Minute
	minItems      = 100 // a window with fewer says nothing about its slowest
	stuckP95      = 2.0
	stuckP50      = 1.25
	maxPerDone    = 1.2
	minAlertCalls = 20 // of a run that ends before its first window is full
)

// meter watches a run's numbers. Its methods take the time; one goroutine uses
// it.
type meter struct {
	began time.Time
	all   histogram

	winBegan   time.Time
	win, first histogram

	slots   [16]slot // a minute each; the sixteenth is the one before the window
	minute  int64
	current slot
}

type slot struct{ calls, done int64 }

func newMeter(now time.Time) *meter { return &meter{began: now, winBegan: now} }

// item notes how long an item took that is done.
func (m *meter) item(d time.Duration) {
	m.all.add(d)
	m.win.add(d)
}

// stuck closes the windows that have ended by now, and compares.
func (m *meter) stuck(now time.Time) *Stuck {
	if now.Sub(m.winBegan) < window {
		return nil
	}
	m.winBegan = now
	w := m.win
	m.win = histogram{}
	if w.n < minItems {
		return nil
	}
	if m.first.n == 0 {
		m.first = w
		return nil
	}
	s := &Stuck{
		Items: w.n, P50: millis(w.quantile(0.5)), P95: millis(w.quantile(0.95)),
		FirstP50: millis(m.first.quantile(0.5)), FirstP95: millis(m.first.quantile(0.95)),
	}
	if s.P95 >= stuckP95*s.FirstP95 && s.P50 <= stuckP50*s.FirstP50 {
		return s
	}
	return nil
}

func millis(d time.Duration) float64 { return math.Round(float64(d)/1e4) / 100 }

// perDone notes the run's calls and items done by now, and returns those of the
// last 15 minutes once so many have passed.
func (m *meter) perDone(now time.Time, calls, done int64) (s slot, full bool) {
	minute := int64(now.Sub(m.began) / time.Minute)
	for m.minute < minute {
		m.slots[m.minute%16] = m.current // as it was at the end of that minute
		m.minute++
	}
	m.current = slot{calls, done}
	if minute < 15 {
		return m.current, false
	}
	old := slot{}
	if minute > 15 {
		old = m.slots[(minute-16)%16]
	}
	return slot{calls - old.calls, done - old.done}, true
}

// tooMany reports whether the calls of s were too many for what they got done.
func (s slot) tooMany() bool { return float64(s.calls) > maxPerDone*float64(s.done) }
