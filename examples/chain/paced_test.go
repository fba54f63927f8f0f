package chain_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/retry"
)

// 32 workers on a key that takes 2 calls a minute and never fails: a worker
// waits a quarter of an hour for its turn, longer than an attempt may take.
// Waiting consumes no attempt, so every item is one call and is done.
func TestWaitingForATurnConsumesNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const items, workers = 100, 32
		day, err := budget.New(budget.Config{Limit: 10_000_000})
		must(t, day, err)
		up, err := breaker.New(breaker.Config{})
		must(t, up, err)
		pace, err := budget.NewPacer(budget.PacerConfig{Requests: 2})
		must(t, pace, err)
		again, err := retry.New(retry.Config{})
		must(t, again, err)
		letters, err := deadletter.New(deadletter.Config{Name: "q", Store: deadletter.NewMemory()})
		must(t, letters, err)
		var hits atomic.Int64
		answer := sample(t, "openai-chat-200.json")
		rt := http.RoundTripper(upstream(func(req *http.Request) (*http.Response, error) {
			hits.Add(1)
			return answer(req)
		}))
		rt = budget.NewTransport(rt, day)
		rt = breaker.NewTransport(rt, up)
		rt = budget.NewPacedTransport(rt, pace)
		rt = retry.NewTransport(rt, again)
		client := &http.Client{Transport: deadletter.NewTransport(rt, letters)}

		queue := make(chan int)
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for i := range queue {
					ctx := deadletter.WithItem(t.Context(), fmt.Sprint(i))
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://upstream.test/", strings.NewReader(`{"max_tokens":5}`))
					if err != nil {
						t.Error(err)
						continue
					}
					resp, err := client.Do(req)
					if err != nil {
						t.Error(err)
						continue
					}
					_ = resp.Body.Close()
				}
			})
		}
		start := time.Now()
		for i := range items {
			queue <- i
		}
		close(queue)
		wg.Wait()
		if d := time.Since(start); d < 40*time.Minute {
			t.Errorf("all was done in %v, which tests nothing", d)
		}
		s, q := again.Stats(), letters.Stats()
		if hits.Load() != items || s.Calls != items || s.Done != items || q.Dead != 0 || pace.Stats().Abandoned != 0 {
			t.Errorf("%d hits, calls %d, done %d, dead %d, given up waiting %d", hits.Load(), s.Calls, s.Done, q.Dead, pace.Stats().Abandoned)
		}
	})
}

// The same for a function with a limit of its own, in the queue and behind a
// hold of the key.
func TestWaitingForATurnIsNotTheFunctionsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pace, err := budget.NewPacer(budget.PacerConfig{Requests: 60})
		must(t, pace, err)
		again, err := retry.New(retry.Config{AttemptTimeout: 5 * time.Second})
		must(t, again, err)
		slot, err := pace.Wait(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		pace.Observe(slot, http.StatusTooManyRequests, nil, 9*time.Minute)
		var wg sync.WaitGroup
		var hits atomic.Int64
		for range 32 {
			wg.Go(func() {
				if err := again.Do(t.Context(), func(ctx context.Context) error {
					hits.Add(1)
					time.Sleep(4 * time.Second)
					return ctx.Err()
				}, pace); err != nil {
					t.Error(err)
				}
			})
		}
		start := time.Now()
		wg.Wait()
		if s := again.Stats(); hits.Load() != 32 || s.Calls != 32 || s.Done != 32 || time.Since(start) < 9*time.Minute {
			t.Errorf("%d hits, calls %d, done %d in %v", hits.Load(), s.Calls, s.Done, time.Since(start))
		}
	})
}
