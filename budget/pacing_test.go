package budget_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// pacing is a night and what it may take. ideal is the time a client would need
// that knows everything, in seconds.
type pacing struct {
	name    string
	night   night
	ideal   float64
	perDone float64 // calls per item done
	time    float64 // over ideal
	raced   bool    // also under the race detector, which makes the others too slow
}

var (
	adapt = budget.PacerConfig{Adapt: true}
	rpm   = fakemodel.Limits{RPM: 600, Burst: 10}
)

// steady are the nights under one unchanging limit of 600 calls a minute, in
// every form in which an upstream may tell of it.
func steady() (list []pacing) {
	const items = 4000
	for _, hint := range []struct {
		name  string
		hints fakemodel.Hints
	}{{"", fakemodel.Hints{}}, {", told in seconds", fakemodel.Hints{Seconds: true}}, {", told in ms", fakemodel.Hints{Millis: true}}} {
		for _, counted := range []bool{false, true} {
			add := func(name string, l fakemodel.Limits, ideal, perDone, time float64) {
				if name += hint.name; counted {
					name += ", refused calls count"
				}
				l.ChargeRejected = counted
				list = append(list, pacing{
					name: name, night: night{model: fakemodel.Config{Limits: l, Hints: hint.hints}, items: items},
					ideal: ideal, perDone: perDone, time: time, raced: name == "burst 10",
				})
			}
			add("burst 10", rpm, 399, 1.02, 1.05)
			add("burst 1", fakemodel.Limits{RPM: 600, Burst: 1}, 400, 1.03, 1.26)
			add("burst 100", fakemodel.Limits{RPM: 600, Burst: 100}, 390, 1.02, 1.05)
			add("fixed window", fakemodel.Limits{WindowCalls: 600}, 400, 1.02, 1.05)
		}
	}
	return list
}

// changing are the others: other limits, limits that change, and others on the
// key.
func changing() []pacing {
	halved, doubled := rpm, fakemodel.Limits{RPM: 300, Burst: 10}
	halved.Steps = []fakemodel.Step{{At: 200 * time.Second, RPM: 300}}
	doubled.Steps = []fakemodel.Step{{At: 200 * time.Second, RPM: 600}}
	slow := fakemodel.Limits{RPM: 60, Burst: 10}
	window := fakemodel.Limits{WindowCalls: 600}
	// Sizes far apart: what binds are tokens, and the small calls must not
	// wait for the large.
	rnd := rand.New(rand.NewPCG(1, 2))
	sizes := make([]int, 4001)
	tokens := 0
	for i := range sizes {
		sizes[i] = int(400 * math.Exp(0.8*rnd.NormFloat64()-0.32))
		tokens += sizes[i]
	}
	byTokens := night{model: limited(fakemodel.Limits{TPM: 260_000, TokenBurst: 9000}), items: 4000, size: func(i int) int { return sizes[i] }}
	share := func(n int, l fakemodel.Limits, items int, late time.Duration) night {
		night := night{model: limited(l), items: items, late: late}
		for range n {
			night.pacers = append(night.pacers, adapt)
		}
		return night
	}
	faulty := func(l fakemodel.Limits, f fakemodel.Faults) night {
		return night{model: fakemodel.Config{Limits: l, Faults: f}, items: 4000}
	}
	return []pacing{
		{"60 a minute", night{model: limited(slow), items: 1500}, 1490, 1.03, 1.02, true},
		{"tokens", byTokens, float64(tokens) / 260_000 * 60, 1.02, 1.07, false},
		{"halved on the way", night{model: limited(halved), items: 4000}, 599, 1.02, 1.05, false},
		{"doubled on the way", night{model: limited(doubled), items: 4000}, 499, 1.02, 1.05, false},
		{"slow refusals", night{model: limited(rpm), items: 4000, reject: 2 * time.Second}, 399, 1.03, 1.05, false},
		{"every third is refused", faulty(fakemodel.Limits{}, fakemodel.Faults{Every: 3}), 375, 1.52, 1.3, false},
		{"every 20th fails", faulty(rpm, fakemodel.Faults{Flaky: fakemodel.Pick{Share: 0.05}}), 420, 1.07, 1.05, false},
		{"a person on the key", night{model: limited(rpm), items: 8000, human: time.Second, pacers: []budget.PacerConfig{{Adapt: true, Headroom: 0.15}}}, 889, 1.02, 1.22, false},
		{"two processes", share(2, rpm, 4000, time.Minute), 799, 1.02, 1.10, false},
		{"four processes", share(4, rpm, 3000, 30*time.Second), 1199, 1.045, 1.10, false},
		{"fixed window, two processes", share(2, window, 4000, time.Minute), 799, 1.05, 1.10, false},
		{"fixed window, four processes", share(4, window, 3000, 30*time.Second), 1199, 1.1, 1.10, false},
		{"60 a minute, two processes", share(2, slow, 700, time.Minute), 1390, 1.3, 1.1, false},
		{"60 a minute, four processes", share(4, slow, 400, 30*time.Second), 1590, 1.7, 1.1, false},
	}
}

// Nothing is known of the limit, and 32 workers want more than there is. With
// -v the table of all nights is printed:
//
//	go test -v -run TestPacerAdapts ./budget
func TestPacerAdapts(t *testing.T) {
	t.Parallel()
	list := append(steady(), changing()...)
	rows := make([]string, len(list))
	t.Run("nights", func(t *testing.T) {
		for i, c := range list {
			if raced && !c.raced {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { rows[i] = c.judge(t) })
			})
		}
	})
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "\tcalls/done\tat most\tx ideal\tat most\tpeak/s\tshares\tpeople refused\t")
	for i, c := range list {
		if rows[i] != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\t\n", c.name, rows[i])
		}
	}
	_ = w.Flush()
	t.Logf("what the nights took:\n%s", &text)
}

// judge plays the night, in a bubble, and returns its row of the table.
func (c pacing) judge(t *testing.T) string {
	c.night.model.Seed = seed()
	c.night.model.Latency = slowModel
	if c.night.reject > 0 {
		c.night.model.Latency.Reject = c.night.reject
	}
	if c.night.pacers == nil {
		c.night.pacers = []budget.PacerConfig{adapt}
	}
	r := c.night.run(t)
	over := r.elapsed.Seconds() / c.ideal
	if want := c.night.items * len(c.night.pacers); r.done != want {
		t.Errorf("%d done, want %d", r.done, want)
	}
	if r.perDone > c.perDone || over > c.time {
		t.Errorf("%.3f calls per done and %.3f x ideal, want at most %v and %v", r.perDone, over, c.perDone, c.time)
	}
	people := "-"
	if c.night.human > 0 {
		people = fmt.Sprintf("%d of %d", r.people.Rejected, r.people.Calls)
		if r.people.Rejected*200 > r.people.Calls {
			t.Errorf("%s calls of the person were refused, want at most 0.5 %%", people)
		}
	}
	return fmt.Sprintf("%.3f\t%v\t%.3f\t%v\t%d\t%.2f\t%s", r.perDone, c.perDone, over, c.time, r.peak, r.fairness(), people)
}

// fairness is Jain's index over the processes' speeds: 1 is all the same.
func (r result) fairness() float64 {
	var sum, squares float64
	for _, d := range r.took {
		speed := 1 / d.Seconds()
		sum += speed
		squares += speed * speed
	}
	return sum * sum / squares / float64(len(r.took))
}
