package budget_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

// A thousand waiters of whom every second gives up on the way, often the one
// whose turn is next and that has collected a part of its tokens: no turn is
// lost or late, and nothing is left of those who went.
func TestPacerWaitersLeaveOnTheWay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pacer  budget.PacerConfig
		tokens int64
		turn   time.Duration
		most   time.Duration // between two turns; 0 = turn
	}{
		"requests": {budget.PacerConfig{Requests: 600}, 0, 100 * ms, 0},
		// Parts of a bucket: what a leaver gives back above the bucket is lost.
		"tokens": {budget.PacerConfig{Tokens: 60_000}, 20_000, 20 * time.Second, 30 * time.Second},
		"adapt":  {budget.PacerConfig{Adapt: true}, 0, 50 * ms, 500 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := mustPacer(t, c.pacer)
				mustWait(t, p, t.Context(), c.tokens)
				last := time.Now()
				var mu sync.Mutex
				left := 0
				var wg sync.WaitGroup
				for i := range 1000 {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if i%2 == 0 { // shortly before one of the turns
						time.AfterFunc(time.Duration(i/2+1)*c.turn-c.turn/3, cancel)
					}
					wg.Go(func() {
						s, err := p.Wait(ctx, c.tokens)
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							left++
							if !errors.Is(err, context.Canceled) {
								t.Error(err)
							}
							return
						}
						d := s.At().Sub(last)
						last = s.At()
						if d <= 0 || c.most == 0 && (d-c.turn).Abs() > time.Microsecond || c.most > 0 && d > c.most {
							t.Errorf("waiter %d came %v after the one before", i, d)
						}
					})
					synctest.Wait()
				}
				wg.Wait()
				st := p.Stats()
				if left < 200 || st.Abandoned != int64(left) || st.Sent != int64(1001-left) || st.Waiting != 0 {
					t.Errorf("%d left: %+v", left, st)
				}
			})
		})
	}
}
