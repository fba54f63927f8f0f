package budget_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

// Spend is reserved before it happens, settled when it is known, and refused
// beyond the soft cap; people may use what is kept back.
func ExampleNew() {
	day, err := budget.New(budget.Config{
		Name:   "day",
		Limit:  1_000_000, // tokens
		Owners: []budget.Owner{{Name: "nightly"}, {Name: "human", UseHeadroom: true}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	r, err := day.Reserve(ctx, "nightly", 800_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := r.Reconcile(ctx, 790_000); err != nil {
		fmt.Println(err)
	}
	_, err = day.Reserve(ctx, "nightly", 100_000)
	var refused *budget.RefusedError
	if errors.As(err, &refused) {
		fmt.Printf("refused: %d of %d are spent\n", refused.Spent, refused.Cap)
	}
	_, err = day.Reserve(ctx, "human", 100_000)
	fmt.Println("a person:", err)
	// Output:
	// refused: 790000 of 850000 are spent
	// a person: <nil>
}

// A job wraps its client once. Each request is estimated by its body and
// charged by the usage in its answer.
func ExampleNewTransport() {
	day, err := budget.New(budget.Config{Limit: 20_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: budget.NewTransport(upstream(), day)}
	for _, output := range []int{9000, 9000, 30_000} {
		resp, err := client.Post("http://upstream.test/v1/chat/completions", "application/json", strings.NewReader(fmt.Sprintf(
			`{"max_tokens":%d,"messages":[{"role":"user","content":"Summarise."}]}`, output)))
		if err != nil {
			fmt.Println("can never fit:", errors.Is(err, budget.ErrTooLarge))
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body) // a body closed unread keeps its estimate
		_ = resp.Body.Close()
		fmt.Println(resp.Status)
	}
	status, err := day.Status(context.Background())
	fmt.Println(status.Spent, "spent", err)
	// Output:
	// 200 OK
	// 200 OK
	// can never fit: true
	// 640 spent <nil>
}

// Whoever calls a model without HTTP reserves and settles around a function.
func ExampleBudget_Do() {
	day, err := budget.New(budget.Config{Limit: 20_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := budget.WithEstimate(context.Background(), 5000)
	err = day.Do(ctx, func(ctx context.Context) error {
		budget.Used(ctx, 1540) // what the answer says
		return nil
	})
	fmt.Println(err, day.Stats().SettledUnits)
	// Output: <nil> 1540
}

// What was spent outlives the program, and programs on one host share it.
func ExampleOpenFile() {
	dir, err := os.MkdirTemp("", "budget")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for range 2 { // two runs of a program
		store, err := budget.OpenFile(filepath.Join(dir, "spend"))
		if err != nil {
			fmt.Println(err)
			return
		}
		day, err := budget.New(budget.Config{Limit: 1000, Store: store})
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = day.Reserve(context.Background(), "", 500)
		fmt.Println("exhausted:", errors.Is(err, budget.ErrExhausted))
		_ = store.Close()
	}
	// Output:
	// exhausted: false
	// exhausted: true
}

// Several budgets in one process share a store.
func ExampleNewMemory() {
	store := budget.NewMemory()
	for _, name := range []string{"tokens", "requests"} {
		b, err := budget.New(budget.Config{Name: name, Limit: 1000, Window: budget.Hourly(time.UTC), Store: store})
		if err != nil {
			fmt.Println(err)
			return
		}
		_, err = b.Reserve(context.Background(), "", 850)
		fmt.Println(b.Name(), err)
	}
	// Output:
	// tokens <nil>
	// requests <nil>
}

// The provider resets at midnight in its own zone.
func ExampleDaily() {
	pacific := time.FixedZone("PST", -8*60*60) // time.LoadLocation("America/Los_Angeles")
	w := budget.Daily(pacific)
	t := time.Date(2026, 1, 15, 7, 30, 0, 0, time.UTC)
	fmt.Println(w.Key(t), w.End(t).UTC())
	// Output: 2026-01-14 2026-01-15 08:00:00 +0000 UTC
}

// The hour that clocks repeat in autumn is two windows.
func ExampleHourly() {
	kolkata := time.FixedZone("IST", 5*60*60+30*60)
	w := budget.Hourly(kolkata)
	t := time.Date(2026, 1, 15, 7, 40, 0, 0, time.UTC)
	fmt.Println(w.Key(t), w.End(t).UTC())
	// Output: 2026-01-15T13+0530 2026-01-15 08:30:00 +0000 UTC
}

// A month ends at midnight of its last day in the zone that is billed in.
func ExampleMonthly() {
	w := budget.Monthly(time.UTC)
	t := time.Date(2026, 2, 15, 0, 0, 0, 0, time.UTC)
	fmt.Println(w.Key(t), w.End(t))
	// Output: 2026-02 2026-03-01 00:00:00 +0000 UTC
}

func ExampleMinutely() {
	w := budget.Minutely(time.UTC)
	t := time.Date(2026, 2, 15, 10, 20, 30, 0, time.UTC)
	fmt.Println(w.Key(t), w.End(t))
	// Output: 2026-02-15T10:20+0000 2026-02-15 10:21:00 +0000 UTC
}

// While the store fails this process may spend a little, and says so.
func ExampleLocal() {
	day, err := budget.New(budget.Config{Limit: 1_000_000, Store: unreachable{}, OnStoreError: budget.Local(5000)})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		_, err := day.Reserve(context.Background(), "", 4000)
		fmt.Println("refused:", errors.Is(err, budget.ErrStore))
	}
	fmt.Println("to be booked:", day.Stats().Unbooked)
	// Output:
	// refused: false
	// refused: true
	// to be booked: 4000
}

// unreachable is a store that fails.
type unreachable struct{}

func (unreachable) Apply(context.Context, []*budget.Change) error { return errors.New("unreachable") }

func (unreachable) Load(context.Context, []string) ([]int64, error) {
	return nil, errors.New("unreachable")
}

// A lease makes few trips to a store that is far away.
func ExampleLeased() {
	ctx := context.Background()
	remote := budget.NewMemory() // stands for one that is
	leased, err := budget.Leased(remote, 50_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	day, err := budget.New(budget.Config{Limit: 10_000_000, Store: leased})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = day.Reserve(ctx, "", 1000)
	before, _ := day.Status(ctx)
	fmt.Println(err, before.Spent > 1000)
	err = leased.Close(ctx)
	after, _ := day.Status(ctx)
	fmt.Println(err, after.Spent)
	// Output:
	// <nil> true
	// <nil> 1000
}

// All workers of a credential wait for one pacer.
func ExampleNewPacer() {
	pace, err := budget.NewPacer(budget.PacerConfig{Requests: 6000, Headroom: 0.15})
	if err != nil {
		fmt.Println(err)
		return
	}
	slot, err := pace.Wait(context.Background(), 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The call goes here; its answer says how to go on.
	pace.Observe(slot, http.StatusTooManyRequests, http.Header{"Retry-After": {"30"}}, 0)
	fmt.Printf("everybody waits for %.0f s\n", pace.Stats().Held)
	// Output: everybody waits for 30 s
}

// The pacer goes around the budget: who waits has reserved nothing yet.
func ExampleNewPacedTransport() {
	day, err := budget.New(budget.Config{Limit: 1_000_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	pace, err := budget.NewPacer(budget.PacerConfig{Adapt: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	rt := budget.NewTransport(upstream(), day)
	client := &http.Client{Transport: budget.NewPacedTransport(rt, pace)}
	resp, err := client.Get("http://upstream.test/v1/chat/completions")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = resp.Body.Close()
	fmt.Println(resp.Status, pace.Stats().Passed)
	// Output: 200 OK 1
}

// A calibrator makes estimates as good as the documents are alike.
func ExampleNewCalibrator() {
	cal, err := budget.NewCalibrator(budget.CalibratorConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	day, err := budget.New(budget.Config{Limit: 1_000_000, Estimate: cal.Estimate, Charge: cal.Charge})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(day.Name())
	// Output: budget
}

func ExampleEstimateBody() {
	body := []byte(`{"model":"m-1","max_tokens":500,"messages":[{"role":"user","content":"Summarise this."}]}`)
	fmt.Println(budget.EstimateBody(nil, body))
	// Output: 530
}

// upstream is a model API that is not there.
func upstream() http.RoundTripper {
	return trip(func(req *http.Request) (*http.Response, error) {
		resp := answer(200, `{"choices":[{"message":{"content":"A summary."}}],"usage":{"prompt_tokens":300,"completion_tokens":20}}`, "Content-Type: application/json")
		resp.Status, resp.Request = "200 OK", req
		return resp, nil
	})
}
