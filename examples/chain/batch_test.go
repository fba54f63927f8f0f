package chain_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/deadletter/fixture"
)

// summary is an answer that nobody has reason to doubt.
const summary = `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Sorts a slice in place."}}],"usage":{"prompt_tokens":12,"completion_tokens":6,"total_tokens":18}}`

// documents are n items.
func documents(n int) iter.Seq[batch.Item] {
	return func(yield func(batch.Item) bool) {
		for i := range n {
			id := fmt.Sprintf("doc-%04d", i)
			if !yield(batch.Item{ID: id, Input: []byte(`{"messages":[{"role":"user","content":"` + id + `"}]}`)}) {
				return
			}
		}
	}
}

// results keeps results in memory.
type results struct{ sync.Map }

func (r *results) Load(_ context.Context, item string) (batch.Result, bool, error) {
	res, ok := r.Map.Load(item)
	if !ok {
		return batch.Result{}, false, nil
	}
	return res.(batch.Result), true, nil
}

func (r *results) Store(_ context.Context, res batch.Result) error {
	r.Map.Store(res.Item, res)
	return nil
}

func (*results) Sync(context.Context) error { return nil }

// run is a batch of one worker through the desk.
func (d *desk) run(t *testing.T, kept *results, n int, signals <-chan os.Signal) (batch.Report, error) {
	t.Helper()
	letters, err := deadletter.New(deadletter.Config{Name: "q", Store: d.store})
	must(t, letters, err)
	client := &http.Client{Transport: d}
	c := batch.Config{Dir: filepath.Join(t.TempDir(), "run"), Letters: letters, Results: kept, Workers: 1, Signals: signals}
	return batch.Run(t.Context(), c, documents(n),
		func(ctx context.Context, it batch.Item) ([]byte, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model.test/v1/chat/completions", strings.NewReader(string(it.Input)))
			if err != nil {
				return nil, err
			}
			resp, err := client.Do(req)
			if err != nil {
				return nil, err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
			}
			return body, err
		})
}

// Empty answers are no successes, whatever their status (spinje/pflow#149): two
// of ten items get nothing else, and are dead.
func TestEmptyAnswersAreDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults, err := fixture.NewFaults(fixture.FaultsConfig{
			Base: says(200, "application/json", summary),
			Faults: []fixture.Fault{{
				When: fixture.Match(func(c fixture.Call) bool { return c.Item == "doc-0003" || c.Item == "doc-0007" }),
				Do:   fixture.EmptyContent(),
			}},
		})
		must(t, faults, err)
		d := newDesk(t, faults.RoundTrip)
		rep, err := d.run(t, new(results), 10, make(chan os.Signal))
		if err == nil || rep.Exit != batch.ExitDead || rep.Done != 8 || rep.Dead != 2 || rep.Complete {
			t.Errorf("%v, %v: want 8 done, 2 dead, exit %d", rep, err, batch.ExitDead)
		}
		for _, r := range d.letters(t) {
			if r.ItemID != "doc-0003" && r.ItemID != "doc-0007" || !strings.Contains(r.Err, "empty") {
				t.Errorf("a letter of %s: %s", r.ItemID, r.Err)
			}
		}
	})
}

// A run of which nothing was done is no success, and says what it died of
// (ProjectTech4DevAI/kaapi-backend#723).
func TestNothingDoneIsNoSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		d := newDesk(t, func(req *http.Request) (*http.Response, error) {
			n++
			code := "context_length_exceeded"
			if n%3 == 0 {
				code = "unknown_field"
			}
			return says(400, "application/json", `{"error":{"message":"no","type":"invalid_request_error","code":"`+code+`"}}`)(req)
		})
		rep, err := d.run(t, new(results), 4, make(chan os.Signal))
		if err == nil || rep.Exit != batch.ExitDead || rep.Done != 0 || rep.Dead != 4 || rep.Complete || rep.CallsPerDone != nil {
			t.Errorf("%v, %v: want 4 dead, exit %d", rep, err, batch.ExitDead)
		}
		if len(rep.Signatures) == 0 || !strings.Contains(fmt.Sprint(rep.Signatures[0]), "context_length_exceeded") {
			t.Errorf("the commonest failure is told as %v", rep.Signatures)
		}
	})
}

// A run that is stopped keeps what it has, and the next one does the rest and
// not a call more (bespokelabsai/curator#226).
func TestStoppedRunGoesOn(t *testing.T) {
	t.Parallel()
	const items, stopAt = 4000, 900
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 1)
		calls := 0
		d := newDesk(t, func(req *http.Request) (*http.Response, error) {
			if calls++; calls == stopAt {
				signals <- os.Interrupt
			}
			time.Sleep(time.Second)
			return says(200, "application/json", summary)(req)
		})
		kept := new(results)
		first, err := d.run(t, kept, items, signals)
		if err == nil || first.Exit != 130 || first.Done < stopAt || first.Done > stopAt+1 || calls != int(first.Done) {
			t.Fatalf("%v, %v after %d calls: want %d done, exit 130", first, err, calls, stopAt)
		}
		second, err := d.run(t, kept, items, make(chan os.Signal))
		if err != nil || second.Exit != 0 || second.Done != items || second.Skipped != first.Done || second.Calls != items-first.Done || calls != items {
			t.Errorf("%v, %v after %d calls: want all done, and a call for each", second, err, calls)
		}
	})
}

// While the breaker is open nothing is sent and nothing is dead
// (Azure/kafka-sink-azure-kusto#130).
func TestOpenBreakerKeepsNoLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, says(200, "application/json", summary))
		if err := d.up.Trip(t.Context(), "maintenance"); err != nil {
			t.Fatal(err)
		}
		rep, err := d.run(t, new(results), 50, make(chan os.Signal))
		if err == nil || rep.Exit != batch.ExitStopped || rep.Pending != 50 || rep.Dead != 0 || rep.StoppedBy != "breaker" {
			t.Errorf("%v, %v: want 50 pending, exit %d", rep, err, batch.ExitStopped)
		}
		if n := len(d.letters(t)); n != 0 || d.calls != 0 {
			t.Errorf("%d letters, %d calls", n, d.calls)
		}
	})
}
