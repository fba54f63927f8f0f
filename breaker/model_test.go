package breaker_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
)

// model is the table of the package guide in its plainest form: one caller's
// view, no store, no wall clock, limits as in plain.
type model struct {
	state          breaker.State
	epoch, streak  int
	trips          int
	cooldown, last time.Duration
	anchor, closed time.Time
	span           time.Duration // of the opening or the lease, from anchor
	holder         int           // the permit that is the probe, 0 = none
	ignored        int
	calls          map[int]int // permit -> epoch
	slack          int
	older          map[int]bool // out since before the streak
}

func newModel() *model { return &model{calls: map[int]int{}, older: map[int]bool{}} }

const (
	modelThreshold = 3
	modelCooldown  = 10 * time.Second
	modelMax       = 80 * time.Second
	modelLease     = time.Minute
)

// allow returns whether permit id goes out, and as a probe.
func (m *model) allow(now time.Time, id int) (passes, probe bool) {
	if m.state != breaker.Closed {
		if now.Before(m.anchor) {
			m.anchor = now // the clock was set back
		}
		age := now.Sub(m.anchor)
		if age < m.span {
			return false, false
		}
		if m.state == breaker.Open && age-m.span > modelMax {
			m.cooldown = 0
		}
		m.state, m.anchor, m.span, m.holder = breaker.HalfOpen, now, modelLease, id
		m.epoch++
		m.older = map[int]bool{}
		probe = true
	}
	m.calls[id] = m.epoch
	return true, probe
}

func (m *model) open(now time.Time, cooldown time.Duration) {
	m.state, m.cooldown, m.anchor, m.span = breaker.Open, cooldown, now, cooldown
	m.holder, m.ignored, m.streak, m.slack = 0, 0, 0, 0
	m.epoch++
	m.older = map[int]bool{}
}

func (m *model) double(d time.Duration) time.Duration {
	if d == 0 {
		return modelCooldown
	}
	return min(2*d, modelMax)
}

func (m *model) check(now time.Time) {
	slack := m.slack
	if len(m.older) == 0 {
		slack = 0
	}
	if m.streak < modelThreshold+slack {
		return
	}
	m.trips++
	if m.last > 0 && now.Sub(m.closed) <= modelMax {
		m.open(now, m.double(m.last))
	} else {
		m.open(now, modelCooldown)
	}
}

// done takes the result of permit id: 's', 'f' or 'i'.
func (m *model) done(now time.Time, id int, result byte) {
	epoch := m.calls[id]
	delete(m.calls, id)
	switch {
	case epoch != m.epoch:
	case m.state == breaker.Closed && result == 's':
		m.streak, m.slack, m.older = 0, 0, map[int]bool{}
	case m.state == breaker.Closed && result == 'f':
		if m.streak == 0 {
			for other, e := range m.calls {
				if e == m.epoch {
					m.older[other] = true
				}
			}
			m.slack = len(m.older)
		}
		delete(m.older, id)
		m.streak++
		m.check(now)
	case m.state == breaker.Closed:
		delete(m.older, id)
		if m.streak > 0 {
			m.check(now)
		}
	case id != m.holder:
	case result == 's':
		m.closed, m.last = now, m.cooldown
		if m.last == 0 {
			m.last = modelCooldown
		}
		m.state, m.cooldown, m.holder, m.ignored = breaker.Closed, 0, 0, 0
		m.epoch++
	case result == 'f':
		m.open(now, m.double(m.cooldown))
	default:
		if m.ignored++; m.ignored == 3 {
			m.open(now, max(m.cooldown, modelCooldown))
			return
		}
		m.holder, m.anchor, m.span = 0, now, 0
		m.epoch++
	}
}

// Random scripts of 32 callers: every form of the store does what the model
// does, there is one live probe at most, and nothing is refused for longer than
// one cooldown or lease, though the clock jumps both ways.
func TestModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	forms := map[string]func(seed uint64) breaker.Store{
		"none":       func(uint64) breaker.Store { return nil },
		"memory":     func(uint64) breaker.Store { return breaker.Memory() },
		"unnumbered": func(uint64) breaker.Store { return unnumbered{breaker.Memory()} },
		"file":       func(seed uint64) breaker.Store { return newFile(t, fmt.Sprint(dir, "/", seed)) },
	}
	// In a bubble the naps of the mock cost nothing.
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(150) {
			for name, form := range forms {
				if name == "file" && seed >= 15 {
					continue // each change is a sync
				}
				if diff := script(t, seed, form(seed)); diff != "" {
					t.Fatalf("seed %d, store %s: breaker and model differ:\n%s", seed, name, diff)
				}
			}
		}
	})
}

func script(t *testing.T, seed uint64, store breaker.Store) (diff string) {
	rng := rand.New(rand.NewPCG(seed, 7))
	clk := clock.NewMock()
	clk.Set(start)
	cfg := plain(clk)
	cfg.ProbeLease, cfg.Store = modelLease, store
	b := newBreaker(t, cfg)
	m := newModel()
	held := map[int]*breaker.Permit{}
	var order []int
	var log strings.Builder
	for id := 1; id <= 150; id++ {
		now := clk.Now()
		switch op := rng.IntN(10); {
		case op < 4:
			if len(held) == 32 {
				break
			}
			p, err := b.Allow(t.Context())
			passes, probe := m.allow(now, id)
			fmt.Fprintf(&log, "%d: allow: %v %v\n", id, passes, probe)
			if (err == nil) != passes || p.Probe() != probe {
				return fmt.Sprintf("%sgot %v, probe %v", &log, err, p.Probe())
			}
			if err == nil {
				held[id] = p
				order = append(order, id)
			} else if left := err.(*breaker.OpenError).Until.Sub(now); left > modelMax {
				return fmt.Sprintf("%srefused for %v", &log, left)
			}
		case op < 9:
			if len(order) == 0 {
				break
			}
			i := rng.IntN(len(order))
			who := order[i]
			order = append(order[:i:i], order[i+1:]...)
			p, result := held[who], "ssffffffi"[rng.IntN(9)]
			delete(held, who)
			fmt.Fprintf(&log, "%d: permit %d: %c\n", id, who, result)
			m.done(now, who, result)
			switch result {
			case 's':
				p.Success()
			case 'f':
				p.Failure(errUp)
			default:
				p.Ignore()
			}
		default:
			d := time.Duration(rng.IntN(40)) * time.Second
			if rng.IntN(8) == 0 {
				d = -time.Duration(rng.IntN(7200)) * time.Second
			}
			fmt.Fprintf(&log, "%d: clock %+v\n", id, d)
			clk.Set(now.Add(d))
		}
		s := b.Stats()
		got := fmt.Sprint(s.State, s.Streak, s.TripsTotal, s.InFlight)
		want := fmt.Sprint(m.state, m.streak, m.trips, len(m.calls))
		if m.state == breaker.Open {
			got, want = fmt.Sprint(got, s.Until), fmt.Sprint(want, m.anchor.Add(m.span))
		}
		if d := cmp.Diff(got, want); d != "" {
			return log.String() + d
		}
	}
	return ""
}
