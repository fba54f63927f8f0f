package fakemodel_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

func TestFaultsTimelines(t *testing.T) {
	t.Parallel()
	second := time.Second
	outages := fakemodel.Faults{Outages: []fakemodel.Outage{{From: 2 * second, To: 3 * second}, {From: 5 * second, To: 6 * second, Status: 500}}}
	tests := []struct {
		name   string
		config fakemodel.Config
		steps  []step
	}{
		{
			"outages since New",
			fakemodel.Config{Faults: outages},
			[]step{{second, ok}, {2*second - 1, ok}, {2 * second, overloaded}, {3*second - 1, overloaded}, {3 * second, ok}, {5 * second, flaky}, {6 * second, ok}},
		},
		{
			"outages since the first call",
			fakemodel.Config{Faults: outages, SinceFirstCall: true},
			[]step{{second, ok}, {3*second - 1, ok}, {3 * second, overloaded}, {4 * second, ok}, {6 * second, flaky}, {7 * second, ok}},
		},
		{
			"every third is a 429",
			fakemodel.Config{Faults: fakemodel.Faults{Every: 3}},
			[]step{{0, ok}, {0, ok}, {0, limited}, {0, ok}, {0, ok}, {0, limited}, {0, ok}},
		},
		{
			"every second another status",
			fakemodel.Config{Faults: fakemodel.Faults{Every: 2, Nth: fakemodel.Failure{Status: 503}}},
			[]step{{0, ok}, {0, overloaded}, {0, ok}},
		},
		{
			"only 429",
			fakemodel.Config{Faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 429}}},
			[]step{{0, limited}, {time.Hour, limited}},
		},
		{
			"only 429 for lack of credit",
			fakemodel.Config{Faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 429, Code: "insufficient_quota"}}},
			[]step{{0, noQuota}},
		},
		{
			"only 401",
			fakemodel.Config{Faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 401}}},
			[]step{{0, badKey}},
		},
		{
			"an outage costs no token of the bucket",
			fakemodel.Config{Limits: fakemodel.Limits{RPM: 1}, Faults: fakemodel.Faults{Outages: []fakemodel.Outage{{To: second}}}},
			[]step{{0, overloaded}, {second, ok}, {second, limited}},
		},
		{
			"poison costs one",
			fakemodel.Config{Limits: fakemodel.Limits{RPM: 1}, Faults: fakemodel.Faults{Poison: fakemodel.Pick{Share: 1}}},
			[]step{{0, poisoned}, {0, limited}},
		},
		{
			"empty for ever",
			fakemodel.Config{Faults: fakemodel.Faults{Empty: fakemodel.Pick{Share: 1}}},
			[]step{{0, empty}, {0, empty}, {0, empty}},
		},
		{
			"one retry cures",
			fakemodel.Config{Faults: fakemodel.Faults{EmptyOnce: fakemodel.Pick{Share: 1}}},
			[]step{{0, empty}, {0, ok}, {0, ok}},
		},
		{
			"a refused call is no attempt",
			fakemodel.Config{Limits: fakemodel.Limits{RPM: 60}, Faults: fakemodel.Faults{
				Outages: []fakemodel.Outage{{To: second}}, EmptyOnce: fakemodel.Pick{Share: 1},
			}},
			[]step{{0, overloaded}, {second, empty}, {second, limited}, {2 * second, ok}},
		},
		{
			"error under 200",
			fakemodel.Config{Faults: fakemodel.Faults{ErrorIn200: fakemodel.Pick{Share: 1}}},
			[]step{{0, "OK: server_error/overloaded"}},
		},
		{
			"named attempts",
			fakemodel.Config{Faults: fakemodel.Faults{
				Flaky: fakemodel.Pick{If: func(c fakemodel.Call) bool { return c.Attempt == 2 }},
			}},
			[]step{{0, ok}, {0, flaky}, {0, ok}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { timeline(t, tt.config, ask("hello"), tt.steps) })
		})
	}
}

// A share is drawn by the items or by the attempts, as the fault says, and
// comes out as large as it was ordered.
func TestShares(t *testing.T) {
	t.Parallel()
	pick := fakemodel.Pick{Share: 0.1}
	tests := []struct {
		name   string
		faults fakemodel.Faults
		want   string
		byItem bool
	}{
		{"poison", fakemodel.Faults{Poison: pick}, poisoned, true},
		{"empty", fakemodel.Faults{Empty: pick}, empty, true},
		{"flaky", fakemodel.Faults{Flaky: pick}, flaky, false},
		{"error in 200", fakemodel.Faults{ErrorIn200: pick}, "OK: server_error/overloaded", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const items, attempts = 500, 4
			m := newModel(t, fakemodel.Config{Seed: 3, Faults: tt.faults})
			calls, all := 0, 0
			for i := range items {
				hits := 0
				for range attempts {
					if post(t.Context(), m, ask(fmt.Sprint("item ", i))).outcome() == tt.want {
						hits++
					}
				}
				calls += hits
				if hits == attempts {
					all++
				}
				if tt.byItem && hits%attempts != 0 {
					t.Fatalf("item %d: %d of %d attempts, want all or none", i, hits, attempts)
				}
			}
			if share := float64(calls) / (items * attempts); math.Abs(share-pick.Share) > 0.03 {
				t.Errorf("share: got %v, want about %v", share, pick.Share)
			}
			if !tt.byItem && all > 5 {
				t.Errorf("%d items met it at every attempt, want next to none", all)
			}
		})
	}
}

func TestHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, fakemodel.Config{Faults: fakemodel.Faults{Hang: fakemodel.Pick{Share: 1}}})
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, gaveUp)
		defer cancel()
		start := time.Now()
		r := post(ctx, m, ask("hello"))
		if !errors.Is(r.err, gaveUp) || time.Since(start) != time.Hour {
			t.Errorf("got %v after %v, want %v after 1h", r.err, time.Since(start), gaveUp)
		}
		s := m.Stats()
		got := []int{s.Calls, s.Status[0], s.Fates[fakemodel.FateHang], s.InFlight, s.MaxInFlight, int(s.Tokens)}
		if diff := cmp.Diff(got, []int{1, 1, 1, 0, 1, 0}); diff != "" {
			t.Errorf("calls, unanswered, hangs, in flight, most, tokens (-got +want):\n%s", diff)
		}
	})
}

func TestLatency(t *testing.T) {
	t.Parallel()
	// times returns how long calls take, in ascending order.
	times := func(t *testing.T, l fakemodel.Latency, faults fakemodel.Faults) []time.Duration {
		m := newModel(t, fakemodel.Config{Seed: 1, Latency: l, Faults: faults})
		var out []time.Duration
		for i := range 1001 {
			start := time.Now()
			post(t.Context(), m, ask(fmt.Sprint("item ", i)))
			out = append(out, time.Since(start))
		}
		slices.Sort(out)
		return out
	}
	about := func(t *testing.T, what string, got, want time.Duration) {
		t.Helper()
		if r := float64(got) / float64(want); r < 0.9 || r > 1.1 {
			t.Errorf("%s: got %v, want about %v", what, got, want)
		}
	}
	exactly := func(t *testing.T, got []time.Duration, want time.Duration) {
		t.Helper()
		if got[0] != want || got[len(got)-1] != want {
			t.Errorf("got %v to %v, want %v", got[0], got[len(got)-1], want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		exactly(t, times(t, fakemodel.Latency{}, fakemodel.Faults{}), 0)
		exactly(t, times(t, fakemodel.Latency{Median: time.Second}, fakemodel.Faults{}), time.Second)

		got := times(t, fakemodel.Latency{Median: 2 * time.Second, Sigma: 0.5}, fakemodel.Faults{})
		about(t, "median", got[500], 2*time.Second)
		about(t, "one sigma up", got[841], time.Duration(2*math.Exp(0.5)*float64(time.Second)))
		about(t, "one sigma down", got[159], time.Duration(2*math.Exp(-0.5)*float64(time.Second)))

		scaled := times(t, fakemodel.Latency{Median: 2 * time.Second, Sigma: 0.5, Scale: 0.001}, fakemodel.Faults{})
		for i := range got {
			if d := scaled[i] - got[i]/1000; d < -time.Microsecond || d > time.Microsecond {
				t.Fatalf("scaled: got %v, want a thousandth of %v", scaled[i], got[i])
			}
		}

		slow := times(t, fakemodel.Latency{Median: time.Second, SlowShare: 0.1}, fakemodel.Faults{})
		at := slices.Index(slow, 5*time.Second)
		if at < 850 || at > 950 || slow[at-1] != time.Second {
			t.Errorf("slow ones begin at %d of 1001, want about 900", at)
		}

		failing := fakemodel.Faults{Always: fakemodel.Failure{Status: 429}}
		exactly(t, times(t, fakemodel.Latency{Median: time.Second, Reject: 50 * time.Millisecond}, failing), 50*time.Millisecond)
		exactly(t, times(t, fakemodel.Latency{Median: time.Second, Reject: 50 * time.Millisecond, Scale: 2}, failing), 100*time.Millisecond)
	})
}
