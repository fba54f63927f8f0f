package budget_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/budget"
)

func calibrator(t testing.TB, c budget.CalibratorConfig) *budget.Calibrator {
	t.Helper()
	cal, err := budget.NewCalibrator(c)
	if err != nil {
		t.Fatal(err)
	}
	return cal
}

// Compact JSON has 2.4 bytes per token and not 3 or 4: after some calls the
// estimate covers nearly all of them, without being far above.
func TestCalibratorLearns(t *testing.T) {
	t.Parallel()
	cal := calibrator(t, budget.CalibratorConfig{Output: true})
	rnd := rand.New(rand.NewPCG(1, 1))
	ctx := budget.WithOwner(t.Context(), "nightly")
	under, above, n := 0, 0.0, 0
	for i := range 400 {
		body := `{"model":"m-1","max_tokens":1000,"messages":[]}` + strings.Repeat(" ", 1000+rnd.IntN(9000))
		req := post(t, ctx, body)
		estimate := cal.Estimate(req, []byte(body))
		actual := budget.Usage{Input: int64(float64(len(body)) / (2.2 + 0.4*rnd.Float64())), Output: 100 + rnd.Int64N(100)}
		if i < 20 {
			equal(t, "before it is known", estimate, budget.EstimateBody(req, []byte(body)))
		}
		if i >= 100 {
			n++
			above += float64(estimate) / float64(actual.Total())
			if estimate < actual.Total() {
				under++
			}
		}
		got := cal.Charge(budget.Call{Request: req, Estimate: estimate, Sent: true, Status: 200, HasUsage: true, Complete: true, Usage: actual})
		equal(t, "charge", got, actual.Total())
	}
	if under*10 > n || above/float64(n) > 1.2 {
		t.Errorf("%d of %d calls cost more than estimated, estimates are %.2f x the cost", under, n, above/float64(n))
	}
	// Another owner, another model and a failed call have taught nothing.
	body := `{"model":"m-1","max_tokens":1000}` + strings.Repeat(" ", 3000)
	other := post(t, t.Context(), body)
	equal(t, "another owner", cal.Estimate(other, []byte(body)), budget.EstimateBody(other, []byte(body)))
	equal(t, "no body", cal.Estimate(other, nil), 1)
	if cal.Estimate(post(t, ctx, body), []byte(body)) <= 3000/4 {
		t.Error("what was learnt is not used")
	}
}

func TestCalibratorBounds(t *testing.T) {
	t.Parallel()
	for _, q := range []float64{-1, 1, 2} {
		if _, err := budget.NewCalibrator(budget.CalibratorConfig{Quantile: q}); err == nil {
			t.Errorf("a quantile of %v was taken", q)
		}
	}
	seen := ""
	cal := calibrator(t, budget.CalibratorConfig{Key: func(req *http.Request, owner, model string) string {
		seen = model
		return req.Header.Get("Task")
	}})
	body := `{"model":"m-2","max_tokens":10}` + strings.Repeat(" ", 4000-31)
	learn := func(task string, input int64, times int) {
		for range times {
			req := post(t, t.Context(), body)
			req.Header.Set("Task", task)
			cal.Charge(budget.Call{Request: req, Sent: true, Status: 200, HasUsage: true, Complete: true, Usage: budget.Usage{Input: input}})
		}
	}
	estimate := func(task string) int64 {
		req := post(t, t.Context(), body)
		req.Header.Set("Task", task)
		return cal.Estimate(req, []byte(body))
	}
	learn("images", 1, 30) // nobody's tokens are that cheap, or that dear
	learn("noise", 1_000_000, 30)
	learn("text", 1000, 500)
	equal(t, "model", seen, "m-2")
	equal(t, "estimates", []int64{estimate("images"), estimate("noise"), estimate("text")}, []int64{250 + 10, 4000 + 10, 1000 + 10})
	for i := range 300 { // the oldest make room
		learn(fmt.Sprint("task ", i), 1000, 1)
	}
	learn("text", 1000, 1)
	equal(t, "forgotten", estimate("images"), budget.EstimateBody(nil, []byte(body)))
}
