package sqltest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
	"github.com/nightfuse/nightfuse/retry"
)

// fill puts n letters by 16 writers.
func fill(t *testing.T, s *sqlstore.Store, n int, with func(i int) deadletter.Record) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < n; i += 16 {
				r := with(i)
				r.Queue, r.ItemID = "q", fmt.Sprintf("item-%04d", i)
				if err := s.Put(t.Context(), r); err != nil {
					t.Errorf("put %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// seen counts how often something was met.
type seen struct {
	mu sync.Mutex
	n  map[string]int
}

func (s *seen) add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = map[string]int{}
	}
	s.n[what]++
}

// want checks that n things were met, each once.
func (s *seen) want(t *testing.T, n int) {
	t.Helper()
	if len(s.n) != n {
		t.Errorf("%d letters, want %d", len(s.n), n)
	}
	for what, k := range s.n {
		if k != 1 {
			t.Errorf("%s: %d times", what, k)
		}
	}
}

// Why: a night's dead letters, replayed by a fleet.
func TestEachLetterHasOneClaimer(t *testing.T) {
	t.Parallel()
	const letters, claimers, batch = 4400, 8, 50
	each(t, true, func(t *testing.T, b database) {
		fill(t, b.store(t, nil), letters, func(i int) deadletter.Record {
			if i%10 > 0 {
				return deadletter.Record{}
			}
			return deadletter.Record{Payload: fmt.Append(nil, i)}
		})
		var got, numbers seen
		var wg sync.WaitGroup
		for c := range claimers {
			s := b.store(t, nil)
			wg.Go(func() {
				for {
					claims, err := s.Claim(t.Context(), deadletter.ClaimReq{N: batch, By: fmt.Sprint(c)})
					if err != nil {
						t.Error(err)
						return
					}
					if len(claims) == 0 {
						return
					}
					numbers.add(fmt.Sprint(claims[0].Token.Seq))
					for _, c := range claims {
						got.add(c.Record.ItemID)
					}
				}
			})
		}
		wg.Wait()
		got.want(t, letters)
		numbers.want(t, len(numbers.n))
		st, err := b.store(t, nil).Stats(t.Context(), deadletter.Filter{})
		if err != nil || st.States[deadletter.Claimed] != letters {
			t.Errorf("%v claimed at the end, want %d; %v", st.States, letters, err)
		}
	})
}

// Why: every letter is paid for, so three replays at once must not send one
// twice; and they send through the same guards as the night.
func TestReplayThroughTheChain(t *testing.T) {
	t.Parallel()
	const letters = 60
	each(t, true, func(t *testing.T, b database) {
		var got seen
		fails := sync.Map{}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Some need the retry of the chain.
			id := r.Header.Get("Idempotency-Key")
			if _, again := fails.LoadOrStore(id, true); !again && len(id) > 0 && id[0] == '0' {
				w.Header().Set("Retry-After-Ms", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			got.add(id)
			_, _ = w.Write([]byte(`{"choices":[{"message":{"content":"done"},"finish_reason":"stop"}]}`))
		}))
		defer srv.Close()
		fill(t, b.store(t, nil), letters, func(i int) deadletter.Record {
			return deadletter.Record{
				Method: http.MethodPost, URL: srv.URL, Status: 503, EstTokens: int64(i % 7),
				Header: http.Header{"Content-Type": {"application/json"}}, Payload: []byte(`{"model":"m"}`),
			}
		})
		day, err := budget.New(budget.Config{Limit: 1_000_000, Estimate: func(*http.Request, []byte) int64 { return 10 }})
		if err != nil {
			t.Fatal(err)
		}
		up, err := breaker.New(breaker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := retry.New(retry.Config{})
		if err != nil {
			t.Fatal(err)
		}
		rt := budget.NewTransport(srv.Client().Transport, day)
		client := &http.Client{Transport: retry.NewTransport(breaker.NewTransport(rt, up), again)}
		var acked sync.Map
		var wg sync.WaitGroup
		for i := range 3 {
			s := b.store(t, nil)
			wg.Go(func() {
				report, err := deadletter.Replay(t.Context(), s, deadletter.HTTPSender{Client: client}.Send, deadletter.Options{
					By: fmt.Sprint(i), Concurrency: 8,
				})
				// Another may hold what is left when this one ends.
				if err != nil && !errors.Is(err, deadletter.ErrPartial) {
					t.Error(err)
				}
				acked.Store(i, report.Acked)
			})
		}
		wg.Wait()
		got.want(t, letters)
		sum := 0
		for _, n := range acked.Range {
			sum += n.(int)
		}
		st, err := b.store(t, nil).Stats(t.Context(), deadletter.Filter{})
		if sum != letters || st.States[deadletter.Acked] != letters || err != nil {
			t.Errorf("the replays acked %d, the store holds %v, %v", sum, st.States, err)
		}
	})
}

// Why: every change waits behind others on the same letter, and each counts.
func TestContention(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, b database) {
		s := b.store(t, nil)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				// Two payloads: each change replaces the other's.
				err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a", Attempts: 1, Payload: []byte{byte(i % 2)}})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r, err := s.Get(t.Context(), deadletter.ID("q", "a"))
		if err != nil || r.Failures != 40 || r.TotalCalls != 40 {
			t.Errorf("%d failures, %d calls after 40 puts at once, %v", r.Failures, r.TotalCalls, err)
		}
		if n := b.count(t, "_payload"); n != 1 {
			t.Errorf("%d payloads are left, want 1", n)
		}
	})
}
