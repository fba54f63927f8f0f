package chain_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/retry"
)

// sample is a base that gives an answer of a provider, made by hand from its
// documents.
func sample(t *testing.T, name string) upstream {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "internal", "modelapi", "testdata", "samples", name))
	if err != nil {
		t.Fatal(err)
	}
	switch filepath.Ext(name) {
	case ".sse":
		return says(200, "text/event-stream", string(data))
	case ".json":
		return says(200, "application/json", string(data))
	}
	return func(req *http.Request) (*http.Response, error) {
		return http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), req)
	}
}

// desk is a chain with all that it counts.
type desk struct {
	http.RoundTripper
	up    *breaker.Breaker
	day   *budget.Budget
	store deadletter.Store
	calls int
}

// newDesk puts the chain around bases that answer in turn, the last for ever.
func newDesk(t *testing.T, bases ...upstream) *desk {
	t.Helper()
	d := &desk{store: deadletter.NewMemory()}
	var err error
	d.day, err = budget.New(budget.Config{Limit: 1_000_000, Estimate: func(*http.Request, []byte) int64 { return 5000 }})
	must(t, d.day, err)
	d.up, err = breaker.New(breaker.Config{})
	must(t, d.up, err)
	pace, err := budget.NewPacer(budget.PacerConfig{Adapt: true})
	must(t, pace, err)
	again, err := retry.New(retry.Config{})
	must(t, again, err)
	letters, err := deadletter.New(deadletter.Config{Name: "q", Store: d.store})
	must(t, letters, err)
	rt := http.RoundTripper(upstream(func(req *http.Request) (*http.Response, error) {
		d.calls++
		return bases[min(d.calls, len(bases))-1](req)
	}))
	rt = budget.NewTransport(rt, d.day)
	rt = breaker.NewTransport(rt, d.up)
	rt = budget.NewPacedTransport(rt, pace)
	rt = retry.NewTransport(rt, again)
	d.RoundTripper = deadletter.NewTransport(rt, letters)
	return d
}

func (d *desk) letters(t *testing.T) (list []deadletter.Record) {
	t.Helper()
	for r, err := range d.store.List(t.Context(), deadletter.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

func (d *desk) spent(t *testing.T) int64 {
	t.Helper()
	st, err := d.day.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st.Spent
}

// What single answers of the providers come to, through all layers.
func TestAnswersThroughTheChain(t *testing.T) {
	t.Parallel()
	hint := says(429, "application/json", `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`)
	days := upstream(func(req *http.Request) (*http.Response, error) {
		resp, err := hint(req)
		resp.Header.Set("Retry-After", "277403")
		return resp, err
	})
	for _, c := range []struct {
		name    string
		bases   []upstream
		calls   int
		least   time.Duration // that the item takes
		most    time.Duration
		err     string // in the letter; "" = done
		state   breaker.State
		spent   int64
		trouble int // failures the breaker has counted
	}{
		{"an answer", []upstream{sample(t, "openai-chat-200.json")}, 1, 0, 0, "", breaker.Closed, 1540, 0},
		// langchain-ai/langchainjs#1929
		{"no credit", []upstream{sample(t, "openai-429-insufficient-quota.http")}, 1, 0, 0, "insufficient_quota", breaker.Open, 0, 1},
		// UKGovernmentBEIS/inspect_ai#5526: after the named wait, once more
		{"the day's quota", []upstream{sample(t, "gemini-429-perday.http")}, 2, 22 * time.Second, 30 * time.Second, "free_tier_requests", breaker.Open, 0, 2},
		// earendil-works/pi#3671
		{"a wait of days", []upstream{days}, 1, 0, 0, "not before", breaker.Closed, 0, 1},
		// tashfeenahmed/freellmapi#158
		{"three short waits", []upstream{
			sample(t, "openai-429-tpm.http"), sample(t, "openai-429-tpm.http"), sample(t, "openai-429-tpm.http"), sample(t, "openai-chat-200.json"),
		}, 4, 3 * 1874 * time.Millisecond, time.Minute, "", breaker.Closed, 1540, 3},
		// kubernetes-sigs/inference-perf#713: it was streamed to the caller, so it is not sent again
		{"an error under 200", []upstream{sample(t, "anthropic-stream-overloaded-midway.sse")}, 1, 0, 0, "verloaded", breaker.Closed, 5000, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, c.bases...)
				start := time.Now()
				ask(t.Context(), d, "item")
				took := time.Since(start)
				if d.calls != c.calls || took < c.least || took > c.most {
					t.Errorf("%d calls in %v, want %d in %v to %v", d.calls, took, c.calls, c.least, c.most)
				}
				letters := d.letters(t)
				switch {
				case c.err == "" && len(letters) > 0:
					t.Errorf("a letter of an item that was done: %+v", letters[0])
				case c.err != "" && (len(letters) != 1 || !strings.Contains(letters[0].Err, c.err) || letters[0].Attempts != c.calls):
					t.Errorf("letters %+v, want one of %d calls that says %q", letters, c.calls, c.err)
				}
				if c.name == "a wait of days" && (len(letters) != 1 || !letters[0].RetryAfter.Equal(start.Add(277403*time.Second))) {
					t.Errorf("the letter does not say until when: %+v", letters)
				}
				st := d.up.Stats()
				if d.up.State() != c.state {
					t.Errorf("the breaker is %v, want %v", d.up.State(), c.state)
				}
				if n := int(st.Failures); n != c.trouble {
					t.Errorf("the breaker has counted %d failures, want %d", n, c.trouble)
				}
				if got := d.spent(t); got != c.spent {
					t.Errorf("spent %d, want %d", got, c.spent)
				}
				if n := d.day.Stats().Outstanding; n != 0 {
					t.Errorf("%d reservations are open", n)
				}
			})
		})
	}
}

// An SDK above the chain that retries by itself must not multiply the attempts
// (HKUDS/nanobot#2760): told by X-Should-Retry, it gives up with ours.
func TestSDKAboveTheChain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, says(429, "application/json", `{"error":{"code":"rate_limit_exceeded"}}`))
		requests := 0
		for n := range 3 { // as the Stainless SDKs do
			requests++
			req, err := http.NewRequestWithContext(deadletter.WithItem(t.Context(), "item"), http.MethodPost, "http://model.test/v1/chat/completions", strings.NewReader("{}"))
			must(t, req, err)
			req.Header.Set("X-Stainless-Retry-Count", strconv.Itoa(n))
			resp, err := d.RoundTrip(req)
			if err != nil {
				t.Fatal(err) // which the SDK would take for a broken connection, and retry
			}
			_, err = io.Copy(io.Discard, resp.Body)
			if err := errors.Join(err, resp.Body.Close()); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 429 || resp.Header.Get("X-Should-Retry") == "false" {
				break
			}
		}
		if requests != 1 || d.calls != 4 {
			t.Errorf("%d requests of the SDK, %d calls, want 1 and 4", requests, d.calls)
		}
	})
}
