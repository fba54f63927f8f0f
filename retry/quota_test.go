package retry_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nightfuse/nightfuse/retry"
)

func mustQuota(t testing.TB, ratio float64, floor int) *retry.Quota {
	t.Helper()
	q, err := retry.NewQuota(ratio, floor)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// T67 tower-rs/tower#857: the ratio is an upper bound, whatever its value.
func TestTheQuotaIsAnUpperBoundForAnyRatio(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 25 {
		ratio := rnd.Float64() * math.Pow(10, float64(rnd.IntN(5)-3))
		if rnd.IntN(4) == 0 {
			ratio = float64(rnd.IntN(10)) / 10
		}
		floor := rnd.IntN(20)
		r := mustNew(t, noWait(retry.Config{Quota: mustQuota(t, ratio, floor), Attempts: 1 + rnd.IntN(20)}))
		bad := rnd.Float64()
		for range 1000 {
			_ = r.Do(t.Context(), func(context.Context) error {
				if rnd.Float64() < bad {
					return errUpstream
				}
				return nil
			})
		}
		s := r.Stats()
		if got, most := float64(s.Retries), ratio*float64(s.Items)+float64(floor); got > most {
			t.Errorf("ratio %v, floor %d: %v retries for %d items, want at most %v", ratio, floor, got, s.Items, most)
		}
	}
}

// T69 envoyproxy/envoy#30205: taken when it is decided, so sleepers count.
func TestSleepersAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := mustNew(t, retry.Config{Attempts: 2, Quota: mustQuota(t, 0.2, 10)})
		var wg sync.WaitGroup
		var mu sync.Mutex
		ended := 0
		for range 1000 {
			wg.Go(func() {
				err := r.Do(t.Context(), func(context.Context) error { return errUpstream })
				if errors.Is(err, retry.ErrQuota) {
					mu.Lock()
					ended++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		s := r.Stats()
		if s.Retries > 210 || s.Retries < 150 {
			t.Errorf("%d retries, want at most 210 and not much less", s.Retries)
		}
		equal(t, "ended by the quota", uint64(ended), 1000-s.Retries)
		equal(t, "counted so", s.QuotaEnds, 1000-s.Retries)
	})
}

// T65 aws/aws-sdk-go-v2#3550: calls that succeed refill a drained quota.
func TestSuccessRefillsTheQuota(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{Attempts: 2, Quota: mustQuota(t, 0.1, 0)}))
	for range 50 {
		_ = r.Do(t.Context(), func(context.Context) error { return errUpstream })
	}
	before := r.Stats().Retries
	for range 10 {
		_ = r.Do(t.Context(), func(context.Context) error { return nil })
	}
	_ = r.Do(t.Context(), func(context.Context) error { return errUpstream })
	equal(t, "retries", r.Stats().Retries, before+1)
}

// A retry that was decided and not made is given back.
func TestARetryThatIsNotMadeIsGivenBack(t *testing.T) {
	t.Parallel()
	r := mustNew(t, noWait(retry.Config{Attempts: 2, Quota: mustQuota(t, 0, 1)}))
	n := 0
	_ = r.Do(t.Context(), func(context.Context) error {
		if n++; n == 1 {
			return errUpstream
		}
		return refusal{}
	})
	n = 0
	_ = r.Do(t.Context(), func(context.Context) error { n++; return errUpstream })
	equal(t, "calls", n, 2)
}

func TestQuotaRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		ratio float64
		floor int
	}{{-1, 0}, {math.NaN(), 0}, {math.Inf(1), 0}, {0, -1}, {101, 0}, {0, math.MaxInt}} {
		if _, err := retry.NewQuota(x.ratio, x.floor); err == nil {
			t.Errorf("NewQuota(%v, %d) is taken", x.ratio, x.floor)
		}
	}
	r := mustNew(t, noWait(retry.Config{Quota: new(retry.Quota)}))
	n := 0
	_ = r.Do(t.Context(), func(context.Context) error { n++; return errUpstream })
	equal(t, "calls under a zero quota", n, 1)
}
