package budget_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// night is a batch against an upstream, in virtual time.
type night struct {
	model   fakemodel.Config
	pacers  []budget.PacerConfig // one per process
	late    time.Duration        // by which each further process starts
	items   int                  // of each process
	size    func(i int) int      // tokens of an item; nil = all the same
	reject  time.Duration        // latency of a refusal; 0 = 50ms
	human   time.Duration        // between the calls of a person on the key; 0 = nobody
	retries int                  // per item; 0 = 30
}

// result is what came of it.
type result struct {
	perDone float64 // calls per item done, of the batch
	done    int
	took    []time.Duration // per process
	elapsed time.Duration
	people  fakemodel.User
	stats   []budget.PacerStats
	peak    int
}

func (n night) run(t *testing.T) result {
	t.Helper()
	n.model.SinceFirstCall = true
	model, err := fakemodel.New(n.model)
	if err != nil {
		t.Fatal(err)
	}
	if n.retries == 0 {
		n.retries = 30
	}
	start := time.Now()
	res := result{took: make([]time.Duration, len(n.pacers))}
	ctx, cancel := context.WithCancel(t.Context())
	var people sync.WaitGroup
	if n.human > 0 {
		people.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				people.Go(func() { ask(ctx, model, fmt.Sprint("human ", i), "human", 16) })
				select {
				case <-time.After(n.human):
				case <-ctx.Done():
				}
			}
		})
	}
	var wg sync.WaitGroup
	var done atomic.Int64
	pacers := make([]*budget.Pacer, len(n.pacers))
	for i, c := range n.pacers {
		pacers[i] = mustPacer(t, c)
		wg.Go(func() {
			time.Sleep(time.Duration(i) * n.late)
			began := time.Now()
			client := budget.NewPacedTransport(model, pacers[i])
			var next atomic.Int64
			var workers sync.WaitGroup
			for range 32 {
				workers.Go(func() {
					for {
						k := int(next.Add(1))
						if k > n.items {
							return
						}
						prompt := fmt.Sprint("item ", i, " ", k)
						if n.size != nil { // a token is four bytes
							prompt += strings.Repeat(" abc", max(n.size(k)-16-len(prompt)/4, 0))
						}
						for range n.retries {
							if ask(t.Context(), client, prompt, "batch", 16) == 200 {
								done.Add(1)
								break
							}
						}
					}
				})
			}
			workers.Wait()
			res.took[i] = time.Since(began)
		})
	}
	wg.Wait()
	res.elapsed = time.Since(start)
	cancel()
	people.Wait()
	st := model.Stats()
	res.done, res.people, res.peak = int(done.Load()), st.Users["human"], st.PeakPerSecond
	res.perDone = float64(st.Users["batch"].Calls) / float64(res.done)
	for _, p := range pacers {
		res.stats = append(res.stats, p.Stats())
	}
	return res
}

// ask makes one call and returns its status, 0 for an error.
func ask(ctx context.Context, rt http.RoundTripper, prompt, user string, maxTokens int) int {
	body := fmt.Sprintf(`{"model":"fake-1","user":%q,"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, user, maxTokens, prompt)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

var slowModel = fakemodel.Latency{Median: 2 * time.Second, Sigma: 0.5, SlowShare: 0.01, Reject: 50 * time.Millisecond}

// limited is an upstream with these limits that nobody has told the batch.
func limited(l fakemodel.Limits) fakemodel.Config { return fakemodel.Config{Limits: l} }

// seed is the night's; another one is another night.
func seed() uint64 {
	n, _ := strconv.ParseUint(os.Getenv("NIGHTFUSE_SEED"), 10, 64)
	return n
}

// What is known of the limit does not change by idling: neither forgotten nor
// run up.
func TestPacerIdles(t *testing.T) {
	t.Parallel()
	for _, idle := range []time.Duration{time.Second, time.Minute, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			model, err := fakemodel.New(fakemodel.Config{Limits: fakemodel.Limits{RPM: 600, Burst: 10}, Latency: slowModel})
			if err != nil {
				t.Fatal(err)
			}
			p := mustPacer(t, budget.PacerConfig{Adapt: true})
			client := budget.NewPacedTransport(model, p)
			batch := func(items int) {
				var wg sync.WaitGroup
				var next atomic.Int64
				for range 32 {
					wg.Go(func() {
						for next.Add(1) <= int64(items) {
							ask(t.Context(), client, "item", "batch", 16)
						}
					})
				}
				wg.Wait()
			}
			batch(600)
			before, refused := p.Stats(), model.Stats().Rejected
			time.Sleep(idle)
			after := p.Stats()
			equal(t, "rate after idling for "+idle.String(), after.Rate, before.Rate)
			start := time.Now()
			batch(100)
			st := model.Stats()
			if sending := st.Last.Sub(start).Seconds(); st.Rejected-refused > 3 || sending > 12 {
				t.Errorf("after idling for %v: %d refused, 100 calls sent in %v s", idle, st.Rejected-refused, sending)
			}
		})
	}
}

// An upstream that only refuses is closed, not slow: the rate is not cut to
// nothing, the pause grows, and the first answer finds everything as it was.
func TestPacerAgainstAClosedUpstream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model, err := fakemodel.New(fakemodel.Config{
			Limits: fakemodel.Limits{RPM: 600, Burst: 10}, Latency: slowModel, SinceFirstCall: true,
			Faults: fakemodel.Faults{Outages: []fakemodel.Outage{{From: time.Minute, To: 11 * time.Minute, Status: 429}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		p := mustPacer(t, budget.PacerConfig{Adapt: true})
		client := budget.NewPacedTransport(model, p)
		start := time.Now()
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for time.Since(start) < 12*time.Minute {
					ask(t.Context(), client, "item", "batch", 16)
				}
			})
		}
		time.Sleep(11 * time.Minute)
		during := model.Stats()
		if n := during.Status[429]; n > 150 {
			t.Errorf("%d calls while nothing passes", n)
		}
		wg.Wait()
		if n := model.Stats().Status[200] - during.Status[200]; n < 480 {
			t.Errorf("%d answers in the minute after, want about 600", n)
		}
	})
}
