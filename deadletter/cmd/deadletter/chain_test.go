package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/retry"
)

// counting is an upstream that counts what each item's letter was sent.
type counting struct {
	mu     sync.Mutex
	sent   map[string]int // by idempotency key
	calls  int
	answer func(call int) int // the status of a call, from 1
}

func (c *counting) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	c.mu.Lock()
	c.calls++
	c.sent[req.Header.Get("Idempotency-Key")]++
	status := c.answer(c.calls)
	c.mu.Unlock()
	body := goodAnswer
	if status != 200 {
		body = `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// whole is the chain of a batch around an upstream: the same breaker and budget
// for all who replay.
func whole(t *testing.T, base http.RoundTripper, limit int64, q *deadletter.Queue) deadletter.HTTPSender {
	t.Helper()
	day, err1 := budget.New(budget.Config{Limit: limit, Headroom: -1})
	up, err2 := breaker.New(breaker.Config{})
	pace, err3 := budget.NewPacer(budget.PacerConfig{Requests: 10_000_000})
	again, err4 := retry.New(retry.Config{Attempts: 1})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	rt := deadletter.NewTransport(retry.NewTransport(budget.NewPacedTransport(breaker.NewTransport(budget.NewTransport(base, day), up), pace), again), q)
	if err := rt.Err(); err != nil {
		t.Fatal(err)
	}
	return deadletter.HTTPSender{Client: &http.Client{Transport: rt}}
}

// fillNight opens a journal with n letters.
func fillNight(t *testing.T, n int) (*deadletter.Journal, *deadletter.Queue) {
	t.Helper()
	j, err := deadletter.OpenJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	q, err := deadletter.New(deadletter.Config{Name: "nightly", Store: j})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < n; i += 64 {
				r := deadletter.Record{
					ItemID: fmt.Sprint("doc-", i), Method: http.MethodPost, URL: "https://api.example/v1/chat/completions", EstTokens: 100,
					Payload: []byte("{}"), Header: http.Header{"Content-Type": {"application/json"}},
				}
				if err := q.Put(t.Context(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return j, q
}

// replayers run several replays at once and add their reports up.
func replayers(t *testing.T, n int, j *deadletter.Journal, send deadletter.Send) (sum deadletter.Report, errs []error) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			rep, err := deadletter.Replay(t.Context(), j, send, deadletter.Options{})
			mu.Lock()
			defer mu.Unlock()
			sum.Sent += rep.Sent
			sum.Acked += rep.Acked
			sum.Returned += rep.Returned
			sum.Released += rep.Released
			sum.Quarantined += rep.Quarantined
			sum.Lost += rep.Lost
			if rep.StoppedBy != "" {
				sum.StoppedBy = rep.StoppedBy
			}
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return sum, errs
}

// A night's 4,400 letters, eight replayers at once, the whole chain: each is
// sent once (sidekiq/sidekiq#3436).
func TestEightReplayersThroughTheWholeChain(t *testing.T) {
	t.Parallel()
	const letters = 4400
	j, q := fillNight(t, letters)
	before := q.Stats()
	up := &counting{sent: map[string]int{}, answer: func(int) int { return 200 }}
	sum, errs := replayers(t, 8, j, whole(t, up, 1_000_000, q).Send)
	for _, err := range errs {
		// Who comes last to the last letters finds them claimed by others.
		if err != nil && !errors.Is(err, deadletter.ErrPartial) {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(sum, deadletter.Report{Sent: letters, Acked: letters}); diff != "" {
		t.Error(diff)
	}
	if len(up.sent) != letters || up.calls != letters {
		t.Errorf("%d calls for %d letters, want %d", up.calls, len(up.sent), letters)
	}
	s, err := j.Stats(t.Context(), deadletter.Filter{})
	if err != nil || s.Letters(deadletter.Acked) != letters {
		t.Errorf("%v, %v", s.States, err)
	}
	if st := q.Stats().Sub(before); st.Items != 0 {
		t.Errorf("the chain's own queue kept letters: %+v", st)
	}
}

// An upstream that came back for twenty letters and went again: the replay
// stops with its breaker, and what was not sent is as it was.
func TestReplayWithBrakes(t *testing.T) {
	t.Parallel()
	const letters = 500
	for _, tt := range []struct {
		name     string
		limit    int64
		answer   func(call int) int
		by       string
		min, max int // calls
	}{
		{"the breaker", 1_000_000, func(call int) int {
			if call > 20 {
				return 429
			}
			return 200
		}, "breaker", 20, 20 + 5 + 8*4},
		// Each costs 8 of the 100 it reserves: the last 99 are too few for one.
		{"the budget", 1000, func(int) int { return 200 }, "budget", 80, 120},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			j, q := fillNight(t, letters)
			up := &counting{sent: map[string]int{}, answer: tt.answer}
			sum, errs := replayers(t, 8, j, whole(t, up, tt.limit, q).Send)
			for _, err := range errs {
				if err == nil {
					t.Error("a replay that was stopped says that all is done")
				}
			}
			if sum.StoppedBy != tt.by || up.calls < tt.min || up.calls > tt.max {
				t.Errorf("stopped by %q after %d calls, want %q after %d to %d", sum.StoppedBy, up.calls, tt.by, tt.min, tt.max)
			}
			if sum.Acked+sum.Returned != up.calls || sum.Lost+sum.Quarantined != 0 {
				t.Errorf("%d calls: %+v", up.calls, sum)
			}
			untouched, dead := 0, 0
			for r, err := range j.List(context.WithoutCancel(t.Context()), deadletter.Filter{States: []deadletter.State{deadletter.Dead}}) {
				if err != nil {
					t.Fatal(err)
				}
				dead++
				if r.Replays == 0 && r.Failures == 1 {
					untouched++
				}
			}
			if dead != letters-sum.Acked || untouched != letters-up.calls {
				t.Errorf("%d letters are dead and %d of them untouched, want %d and %d", dead, untouched, letters-sum.Acked, letters-up.calls)
			}
			for id, n := range up.sent {
				if n != 1 {
					t.Errorf("letter %s was sent %d times", id, n)
				}
			}
		})
	}
}

// sdkError is what an SDK makes of an answer.
type sdkError struct {
	StatusCode int
	raw        string
}

func (e *sdkError) Error() string   { return fmt.Sprint("API error: ", e.StatusCode) }
func (e *sdkError) RawJSON() string { return e.raw }

// cut is an upstream that breaks off.
type cut struct{}

func (cut) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

// The letter of a function that calls through an SDK tells what the retry met,
// not the answer that the retry made up for the SDK.
func TestLetterThroughAnSDK(t *testing.T) {
	t.Parallel()
	again, err1 := retry.New(retry.Config{Attempts: 1})
	q, err2 := deadletter.New(deadletter.Config{Name: "nightly", Store: deadletter.NewMemory()})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: retry.NewTransport(cut{}, again)}
	_ = q.Do(deadletter.WithItem(t.Context(), "item"), []byte("p"), func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://model.test/v1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Stainless-Retry-Count", "0")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return &sdkError{resp.StatusCode, string(body)}
	})
	r, err := q.Get(t.Context(), "item")
	if want := deadletter.FailureOf(io.ErrUnexpectedEOF).Signature; err != nil || r.Signature != want || r.Status != 0 || r.Attempts != 1 {
		t.Errorf("%v, %v", r, err)
	}
}
