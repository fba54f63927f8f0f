package budget

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world drives a curve without goroutines: somebody waits always, refusals
// come after 50 ms and answers after two seconds.
type world struct {
	curve *curve
	now   time.Time
	hold  time.Time
	out   []event

	sent, done, refused int
}

type event struct {
	at   time.Time
	slot Slot
	ok   bool
}

func newWorld(c *curve) *world { return &world{curve: c, now: time.Unix(0, 0)} }

func (w *world) to(t time.Time) {
	w.now = t
	w.curve.run(w.now, true, w.hold)
}

// answers delivers what has come until t.
func (w *world) answers(t time.Time) {
	for len(w.out) > 0 && !w.out[0].at.After(t) {
		e := w.out[0]
		w.out = w.out[1:]
		w.to(e.at)
		if e.ok {
			w.curve.passed(e.slot)
			w.done++
			continue
		}
		w.refused++
		w.curve.refused(w.now, e.slot, 0)
		if !w.curve.deaf {
			w.hold = w.now.Add(seconds(2 / w.curve.rate(w.now)))
		}
	}
}

// call makes the next call when the curve lets it.
func (w *world) call(tokens int64, takes func(now time.Time, tokens int64) bool) {
	for {
		w.curve.run(w.now, true, w.hold)
		d := max(w.curve.wait(w.now, tokens), w.hold.Sub(w.now), 0)
		if len(w.out) > 0 && !w.out[0].at.After(w.now.Add(d)) {
			w.answers(w.out[0].at)
			continue
		}
		if d == 0 {
			break
		}
		w.to(w.now.Add(d))
	}
	w.sent++
	s := Slot{n: uint64(w.sent), at: w.now, tokens: tokens}
	w.curve.sent(w.now, &s, true)
	e := event{w.now.Add(2 * time.Second), s, true}
	if !takes(w.now, tokens) {
		e = event{w.now.Add(50 * time.Millisecond), s, false}
	}
	i, _ := slices.BinarySearchFunc(w.out, e, func(a, b event) int { return a.at.Compare(b.at) })
	w.out = slices.Insert(w.out, i, e)
}

// bucket is an upstream's limit per second.
type bucket struct {
	rate, size, level float64
	last              time.Time
}

func (b *bucket) take(now time.Time, n float64) bool {
	if !b.last.IsZero() {
		b.level = min(b.level+now.Sub(b.last).Seconds()*b.rate, b.size)
	}
	b.last = now
	if b.level < n {
		return false
	}
	b.level -= n
	return true
}

func TestCurveMeasures(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.5, 1, 10, 100} {
		for _, headroom := range []float64{0, 0.15} {
			w := newWorld(newCurve(headroom))
			b := &bucket{rate: rate, size: max(10, rate), level: max(10, rate)}
			take := func(now time.Time, _ int64) bool { return b.take(now, 1) }
			for range 2000 {
				w.call(0, take)
			}
			before, start := w.refused, w.now
			for range 4000 {
				w.call(0, take)
			}
			share := float64(w.refused-before) / 4000
			speed := 4000 * (1 - share) / w.now.Sub(start).Seconds() / rate
			wantSpeed := 0.95
			if headroom > 0 {
				wantSpeed = 0.80
			}
			if share > 0.03 || speed < wantSpeed {
				t.Errorf("%v/s, headroom %v: %.3f refused at %.3f of the limit", rate, headroom, share, speed)
			}
			if off := w.curve.limit / rate; off < 0.85 || off > 1.15 {
				t.Errorf("%v/s, headroom %v: measured %v", rate, headroom, w.curve.limit)
			}
		}
	}
}

// Large calls are refused more often where tokens are counted, and only there.
func TestCurveFindsOutWhatIsCounted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		for _, byTokens := range []bool{true, false} {
			rnd := rand.New(rand.NewPCG(seed, 4))
			w := newWorld(newCurve(0))
			b := &bucket{rate: 10, size: 20, level: 20}
			for range 4000 {
				size := math.Exp(0.8*rnd.NormFloat64() - 0.32)
				w.call(int64(1000*size)+1, func(now time.Time, _ int64) bool {
					if byTokens {
						return b.take(now, size)
					}
					return b.take(now, 1)
				})
			}
			if w.curve.size.tokens != byTokens {
				t.Errorf("seed %d: counted are tokens: %v, found: %v", seed, byTokens, w.curve.size.tokens)
			}
		}
	}
}

// Refusals that stay as many at every rate are not about the rate; when they
// become more as it grows, they are, after all.
func TestCurveGoesDeafAndHearsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(newCurve(0))
	n := 0
	every3 := func(time.Time, int64) bool { n++; return n%3 != 0 }
	for range 400 {
		w.call(0, every3)
	}
	if !w.curve.deaf || w.curve.rate(w.now) < 10 {
		t.Fatalf("deaf %v at %v calls/s, want a rising rate", w.curve.deaf, w.curve.rate(w.now))
	}
	b := &bucket{rate: 5, size: 10, level: 10}
	for range 400 {
		w.call(0, func(now time.Time, _ int64) bool { return b.take(now, 1) })
	}
	if w.curve.deaf {
		t.Error("deaf against a limit")
	}
	for range 2000 {
		w.call(0, func(now time.Time, _ int64) bool { return b.take(now, 1) })
	}
	if off := w.curve.limit / 5; off < 0.85 || off > 1.15 {
		t.Errorf("measured %v/s, want 5", w.curve.limit)
	}
}

// Calls that were never sent, such as those an open breaker refuses, prove
// nothing about the limit.
func TestCurveForgetsUnsentCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(newCurve(0))
	b := &bucket{rate: 10, size: 10, level: 10}
	take := func(now time.Time, _ int64) bool { return b.take(now, 1) }
	for range 2000 {
		w.call(0, take)
		if w.sent%4 != 0 {
			continue
		}
		// One in between that the breaker refuses at once.
		s := Slot{n: 1, at: w.now}
		w.curve.sent(w.now, &s, true)
		w.curve.unsent(s)
	}
	if off := w.curve.limit / 10; off < 0.85 || off > 1.15 {
		t.Errorf("measured %v/s, want 10", w.curve.limit)
	}
}

// A closed upstream is not a slow one, and an old refusal is of the past.
func TestCurveDoesNotCut(t *testing.T) {
	t.Parallel()
	w := newWorld(newCurve(0))
	b := &bucket{rate: 10, size: 10, level: 10}
	for range 1000 {
		w.call(0, func(now time.Time, _ int64) bool { return b.take(now, 1) })
	}
	w.answers(w.now.Add(time.Minute))
	limit := w.curve.limit
	// From here on nothing passes.
	old := Slot{n: 1, at: w.curve.cutAt}
	if w.curve.refused(w.now, old, 0) {
		t.Error("a call from before the last cut has cut")
	}
	for range 40 {
		w.call(0, func(time.Time, int64) bool { return false })
	}
	w.answers(w.now.Add(time.Minute))
	if w.curve.limit < limit/2 {
		t.Errorf("the limit fell from %v to %v/s while the upstream was closed", limit, w.curve.limit)
	}
}

// A limit that collapses to next to nothing refuses nearly all at every rate:
// that must not be taken for refusals that are not about the rate, or the rate
// runs up against a wall.
func TestCurveAgainstACollapse(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1, 0.3} {
		w := newWorld(newCurve(0))
		b := &bucket{rate: 10, size: 10, level: 10}
		take := func(now time.Time, _ int64) bool { return b.take(now, 1) }
		for range 2000 {
			w.call(0, take)
		}
		b.rate = rate
		start, sent, refused := w.now, w.sent, w.refused
		for w.now.Sub(start) < time.Hour {
			w.call(0, take)
		}
		n := w.sent - sent
		if passed := n - (w.refused - refused); n > 2*int(3600*rate) || passed < int(3000*rate) {
			t.Errorf("at %v/s: %d of %d calls passed in an hour, want about %v", rate, passed, n, 3600*rate)
		}
	}
}

// A bucket of one call loses whatever is not used at once: what passes on the
// way up to the limit is less than the limit.
func TestCurveAgainstABucketOfOne(t *testing.T) {
	t.Parallel()
	w := newWorld(newCurve(0))
	b := &bucket{rate: 10, size: 1, level: 1}
	take := func(now time.Time, _ int64) bool { return b.take(now, 1) }
	for range 4000 {
		w.call(0, take)
	}
	before, start := w.refused, w.now
	for range 4000 {
		w.call(0, take)
	}
	share := float64(w.refused-before) / 4000
	speed := 4000 * (1 - share) / w.now.Sub(start).Seconds() / 10
	if share > 0.02 || speed < 0.85 {
		t.Errorf("%.3f refused at %.3f of the limit", share, speed)
	}
}
