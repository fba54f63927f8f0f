package chain_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/fakemodel"
	"github.com/nightfuse/nightfuse/retry"
)

// night is a batch through the README's chain against an upstream, in virtual time: 32
// workers, nothing known of the limit.
type night struct {
	model    fakemodel.Config
	items    int
	patience time.Duration // without a success; then the run stops. 0 = never
}

// morning is what the night has left.
type morning struct {
	fakemodel.Stats
	done, dead, pending int
	took                time.Duration
	sent                []time.Time // of each call, in order
	letters             map[string]deadletter.Record
	budgeted, open      int64 // units charged, reservations that nobody has ended
}

func (n night) run(t *testing.T) (m morning) {
	t.Helper()
	n.model.Latency = fakemodel.Latency{Median: 2 * time.Second, Sigma: 0.5, SlowShare: 0.01, Reject: 50 * time.Millisecond}
	n.model.SinceFirstCall = true
	model, err := fakemodel.New(n.model)
	must(t, model, err)
	day, err := budget.New(budget.Config{Limit: budget.MaxAmount, Window: budget.Monthly(time.UTC)})
	must(t, day, err)
	up, err := breaker.New(breaker.Config{})
	must(t, up, err)
	pace, err := budget.NewPacer(budget.PacerConfig{Adapt: true})
	must(t, pace, err)
	again, err := retry.New(retry.Config{Hold: time.Hour})
	must(t, again, err)
	store := deadletter.NewMemory()
	letters, err := deadletter.New(deadletter.Config{Name: "nightly", Store: store})
	must(t, letters, err)

	var mu sync.Mutex
	var rt http.RoundTripper = noted(func(req *http.Request) (*http.Response, error) {
		mu.Lock()
		m.sent = append(m.sent, time.Now())
		mu.Unlock()
		return model.RoundTrip(req)
	})
	rt = budget.NewTransport(rt, day)
	rt = breaker.NewTransport(rt, up)
	rt = budget.NewPacedTransport(rt, pace)
	rt = retry.NewTransport(rt, again)
	rt = deadletter.NewTransport(rt, letters)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	last := time.Now()
	if n.patience > 0 {
		go func() {
			for {
				mu.Lock()
				left := n.patience - time.Since(last)
				mu.Unlock()
				if left <= 0 {
					stop()
				}
				select {
				case <-time.After(max(left, 1)):
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	start := time.Now()
	next := 0
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || next == n.items {
			return 0, false
		}
		next++
		return next, true
	}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for {
				k, ok := take()
				if !ok {
					return
				}
				if summarise(ctx, rt, fmt.Sprint("item ", k)) == nil {
					mu.Lock()
					last = time.Now()
					m.done++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	m.took = time.Since(start)
	m.Stats = model.Stats()
	m.letters = map[string]deadletter.Record{}
	for r, err := range store.List(t.Context(), deadletter.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		m.letters[r.ItemID] = r
	}
	m.dead = len(m.letters)
	m.pending = n.items - m.done - m.dead
	m.budgeted, m.open = day.Stats().SettledUnits, day.Stats().Outstanding
	t.Logf("%d calls, %.3f per done: %d done, %d dead, %d pending in %v; status %v; %v", m.Calls, float64(m.Calls)/math.Max(float64(m.done), 1),
		m.done, m.dead, m.pending, m.took, m.Status, pace)
	return m
}

type noted func(*http.Request) (*http.Response, error)

func (f noted) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// summarise does one item; the letter is its transport's business.
func summarise(ctx context.Context, rt http.RoundTripper, item string) error {
	req, err := http.NewRequestWithContext(deadletter.WithItem(ctx, item), http.MethodPost, "http://model/v1/chat/completions",
		strings.NewReader(fmt.Sprintf(`{"model":"fake-1","max_tokens":20,"messages":[{"role":"user","content":%q}]}`, item)))
	if err != nil {
		return err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(resp.Status))
	}
	return errors.Join(err, resp.Body.Close())
}

// nights runs one night in a bubble of its own.
func nights(t *testing.T, n night, judge func(t *testing.T, m morning)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := n.run(t)
		// The night's end cuts off what is in flight, which may be billed: its
		// estimate stays charged.
		const estimate = 50
		if over, cut := m.budgeted-m.Tokens, int64(m.Status[0]); over < 0 || over > cut*estimate {
			t.Errorf("the budget was charged %d, the upstream billed %d, with %d calls cut off", m.budgeted, m.Tokens, cut)
		}
		if m.OpenBodies != 0 || m.InFlight != 0 || m.open != 0 {
			t.Errorf("left behind: %d open bodies, %d calls in flight, %d reservations", m.OpenBodies, m.InFlight, m.open)
		}
		judge(t, m)
	})
}

// want compares what came of the items.
func (m morning) want(t *testing.T, done, dead, pending int) {
	t.Helper()
	if d := cmp.Diff([]int{m.done, m.dead, m.pending}, []int{done, dead, pending}); d != "" {
		t.Errorf("done, dead, pending (-got +want):\n%s", d)
	}
}

// third is 3 to the power of retry's default attempts: of so many items one meets
// nothing but refusals.
const third = 81

var limited = fakemodel.Limits{RPM: 600, Burst: 10}

// A limit that nobody has told: next to nothing is refused, nothing lost.
func TestNightUnderALimit(t *testing.T) {
	nights(t, night{model: fakemodel.Config{Limits: limited}, items: items}, func(t *testing.T, m morning) {
		m.want(t, items, 0, 0)
		if ideal := items * time.Minute / 600; m.Calls > items*102/100 || m.took > ideal*105/100 {
			t.Errorf("%d calls in %v, want at most 1.02 per item and 1.05 x %v", m.Calls, m.took, ideal)
		}
	})
}

// Night two: an upstream that only says 429. It made 61,000 calls.
func TestNightOf429(t *testing.T) {
	model := fakemodel.Config{Faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 429}}}
	nights(t, night{model: model, items: items, patience: 5 * time.Minute}, func(t *testing.T, m morning) {
		m.want(t, 0, 0, items)
		if m.Calls > 15 {
			t.Errorf("%d calls, want at most 15", m.Calls)
		}
	})
}

// A key that is refused: the first answer opens the breaker, then one probe
// each time.
func TestNightOf401(t *testing.T) {
	model := fakemodel.Config{Faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 401}}}
	nights(t, night{model: model, items: items, patience: 5 * time.Minute}, func(t *testing.T, m morning) {
		m.want(t, 0, m.Calls, items-m.Calls)
		if m.Calls > 8 {
			t.Errorf("%d calls, want a handful", m.Calls)
		}
	})
}

// A quota that ends in the middle of the night: no item pays for it but those
// that met it.
func TestNightOfAQuota(t *testing.T) {
	limits := limited
	limits.DailyTokens = items * 15 / 2
	nights(t, night{model: fakemodel.Config{Limits: limits}, items: items, patience: 5 * time.Minute}, func(t *testing.T, m morning) {
		refused := m.Fates[fakemodel.FateQuota]
		m.want(t, m.done, refused, items-m.done-refused)
		if m.done < items/4 || m.done > items*3/4 {
			t.Fatalf("%d done: the quota did not end in the middle", m.done)
		}
		if refused > 15 {
			t.Errorf("%d calls after the end of the quota, want at most 15", refused)
		}
	})
}

// Forty minutes of 503, and every item waits for its end uncharged.
func TestNightOfAnOutage(t *testing.T) {
	from, to := 15*time.Minute, 55*time.Minute
	model := fakemodel.Config{
		Limits: fakemodel.Limits{RPM: 300, Burst: 10},
		Faults: fakemodel.Faults{Outages: []fakemodel.Outage{{From: from, To: to}}},
	}
	nights(t, night{model: model, items: outageItems, patience: time.Hour}, func(t *testing.T, m morning) {
		m.want(t, outageItems, 0, 0)
		if n := m.Status[http.StatusServiceUnavailable]; n == 0 || n > 80 {
			t.Errorf("%d calls in the outage, want at most 80", n)
		}
		end := m.First.Add(to)
		i, _ := slices.BinarySearchFunc(m.sent, end, time.Time.Compare)
		if i == len(m.sent) {
			t.Fatal("no call after the outage")
		}
		// The longest opening is a minute with the jitter on top of it, and the
		// pacer has its turns.
		late := m.sent[i].Sub(end)
		if late > 67*time.Second {
			t.Errorf("the first call came %v after the outage's end, want at most 67 s", late)
		}
		ideal := outageItems * time.Minute / 300
		if over := m.took - (to - from) - late; over > ideal*105/100 {
			t.Errorf("the batch took %v beside the outage, want at most 1.05 x %v", over, ideal)
		}
	})
}

// Items that can never pass are letters, each called once, and open nothing.
func TestNightWithPoison(t *testing.T) {
	model := fakemodel.Config{Limits: limited, Faults: fakemodel.Faults{Poison: fakemodel.Pick{Share: 0.02}}}
	nights(t, night{model: model, items: items}, func(t *testing.T, m morning) {
		poisoned := 0
		for _, it := range m.Items {
			if it.Last != fakemodel.FatePoison {
				continue
			}
			poisoned++
			r, ok := m.letters[it.Prompt]
			if !ok || it.Attempts != 1 || r.Status != http.StatusBadRequest {
				t.Errorf("%s: admitted %d times, a letter %v with status %d", it.Prompt, it.Attempts, ok, r.Status)
			}
		}
		m.want(t, items-poisoned, poisoned, 0)
		if poisoned < items/100 {
			t.Errorf("%d poisoned items: nothing was tested", poisoned)
		}
	})
}

// Every third call refused, however slowly they are made: bad luck alone makes
// letters, and the breaker must not outvote the two thirds that pass.
func TestNightOfEveryThird(t *testing.T) {
	nights(t, night{model: fakemodel.Config{Faults: fakemodel.Faults{Every: 3}}, items: items, patience: 5 * time.Minute}, func(t *testing.T, m morning) {
		m.want(t, items-m.dead, m.dead, 0)
		if m.dead < items/third/2 || m.dead > items/third*2 {
			t.Errorf("%d dead, want about %d", m.dead, items/third)
		}
		for id, r := range m.letters {
			if r.Attempts != 4 || r.Status != http.StatusTooManyRequests {
				t.Errorf("%s: a letter of %d attempts and status %d", id, r.Attempts, r.Status)
			}
		}
		if m.Calls > items*152/100 {
			t.Errorf("%d calls, want about 1.5 per item", m.Calls)
		}
	})
}
