package batch

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 5000 {
		d := time.Duration(math.Exp(rng.NormFloat64()*2+14)) * time.Microsecond / 1000
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
		exact := all[int(math.Ceil(q*float64(len(all))))-1]
		if got := h.quantile(q); got < exact || float64(got) > 1.021*float64(max(exact, time.Microsecond)) {
			t.Errorf("quantile %v = %v, want %v or at most two per cent more", q, got, exact)
		}
	}
	if (&histogram{}).quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
}

func TestStuckRule(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	window15 := func(m *meter, i, items int, fast, slow time.Duration) *Stuck {
		for k := range items {
			d := fast
			if k%10 == 0 {
				d = slow
			}
			m.item(d)
		}
		return m.stuck(start.Add(time.Duration(i) * window))
	}
	for _, c := range []struct {
		name       string
		items      int
		fast, slow time.Duration // of the second window; the first has 1 s and 2 s
		want       bool
	}{
		{"the slow are slower", 200, time.Second, 5 * time.Second, true},
		{"just twice as slow", 200, time.Second, 4100 * time.Millisecond, true},
		{"all are slower", 200, 3 * time.Second, 9 * time.Second, false},
		{"a little slower", 200, time.Second, 3 * time.Second, false},
		{"too few to tell", 99, time.Second, 5 * time.Second, false},
	} {
		m := newMeter(start)
		if window15(m, 1, 200, time.Second, 2*time.Second) != nil {
			t.Errorf("%s: the first window has nothing to be compared with", c.name)
		}
		if got := window15(m, 2, c.items, c.fast, c.slow) != nil; got != c.want {
			t.Errorf("%s: stuck = %v, want %v", c.name, got, c.want)
		}
		if m.stuck(start.Add(2*window+time.Second)) != nil {
			t.Errorf("%s: told in the middle of a window", c.name)
		}
	}
}

func TestCallsPerDoneOver15Minutes(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	m := newMeter(start)
	// An hour in which each call gets its item done, then a storm.
	calls, done := int64(0), int64(0)
	var first time.Duration
	for s := range 2 * 3600 {
		at := time.Duration(s) * time.Second
		calls++
		if at < time.Hour || s%2 == 0 {
			done++
		}
		w, full := m.perDone(start.Add(at), calls, done)
		if full != (at >= window) {
			t.Fatalf("after %v: full = %v", at, full)
		}
		if at >= 16*time.Minute && (w.calls < 899 || w.calls > 961) {
			t.Fatalf("after %v: %d calls in the window, want those of 15 to 16 minutes", at, w.calls)
		}
		if full && w.tooMany() && first == 0 {
			first = at - time.Hour
		}
	}
	// 1.2 is reached when a third of the window has two calls an item.
	if first < 4*time.Minute || first > 7*time.Minute {
		t.Errorf("told %v into the storm", first)
	}
	if (slot{0, 0}).tooMany() || !(slot{1, 0}).tooMany() || (slot{12, 10}).tooMany() {
		t.Error("the rule is more than 1.2")
	}
}

// However many kinds of failures a night has, so many are counted.
func TestSignaturesAreBounded(t *testing.T) {
	t.Parallel()
	r := &run{signatures: map[string]*SignatureCount{}, alarms: alarms{repeats: map[string]int{}}}
	for i := range maxSignatures + 5 {
		r.failed(strconv.Itoa(i), "")
	}
	r.failed("0", "")
	if len(r.signatures) != maxSignatures || len(r.alarms.repeats) != maxSignatures || r.signatures["0"].Count != 2 {
		t.Errorf("%d signatures, %d rows, the first counted %d times", len(r.signatures), len(r.alarms.repeats), r.signatures["0"].Count)
	}
}
