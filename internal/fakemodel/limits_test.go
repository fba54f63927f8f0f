package fakemodel_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

func TestLimitsTimelines(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	// 24 bytes are 6 tokens, the message 4 more, the answer
	// "In short: aaaaaaaaaaaaaaaaaaaaaaaa." of 35 bytes 9: 19 in all.
	body := ask(strings.Repeat("a", 24))
	minute := time.Minute
	tests := []struct {
		name   string
		limits fakemodel.Limits
		first  bool
		steps  []step
	}{
		{name: "none", steps: []step{{0, ok}, {0, ok}, {0, ok}}},
		{
			name: "burst, then one every 100 ms to the nanosecond", limits: fakemodel.Limits{RPM: 600, Burst: 2},
			steps: []step{
				{0, ok},
				{0, ok},
				{0, limited},
				{100*ms - 1, limited},
				{100 * ms, ok},
				{100 * ms, limited},
				{200*ms - 1, limited},
				{200 * ms, ok},
				{300 * ms, ok},
				{300 * ms, limited},
				{time.Second, ok},
				{time.Second, ok},
				{time.Second, limited},
			},
		},
		{
			name: "a rate that does not divide a minute", limits: fakemodel.Limits{RPM: 7, Burst: 2},
			// A seventh of a minute is 8571428571.43 ns; seven are a minute.
			steps: []step{
				{0, ok},
				{0, ok},
				{8571428571, limited},
				{8571428572, ok},
				{17142857142, limited},
				{17142857143, ok},
				{25714285714, limited},
				{25714285715, ok},
				{34285714286, ok},
				{42857142858, ok},
				{51428571429, ok},
				{minute - 1, limited},
				{minute, ok},
			},
		},
		{
			name: "burst of nothing said is a second's worth", limits: fakemodel.Limits{RPM: 180},
			steps: []step{{0, ok}, {0, ok}, {0, ok}, {0, limited}},
		},
		{
			name: "rejected calls are free", limits: fakemodel.Limits{RPM: 600, Burst: 1},
			steps: []step{{0, ok}, {60 * ms, limited}, {99 * ms, limited}, {100 * ms, ok}},
		},
		{
			name: "rejected calls cost", limits: fakemodel.Limits{RPM: 600, Burst: 1, ChargeRejected: true},
			steps: []step{{0, ok}, {60 * ms, limited}, {120 * ms, limited}, {219 * ms, limited}, {319 * ms, ok}},
		},
		{
			name: "tokens", limits: fakemodel.Limits{TPM: 1140, TokenBurst: 38},
			steps: []step{
				{0, ok}, {0, ok}, {0, limitedTPM}, {time.Second - 1, limitedTPM}, {time.Second, ok}, {time.Second, limitedTPM},
			},
		},
		{
			name: "more tokens than the bucket holds", limits: fakemodel.Limits{TPM: 1140, TokenBurst: 18},
			steps: []step{{0, limitedTPM}, {time.Hour, limitedTPM}},
		},
		{
			name: "a call that one limit refuses costs the other nothing", limits: fakemodel.Limits{RPM: 60, Burst: 2, TPM: 114, TokenBurst: 19},
			steps: []step{{0, ok}, {0, limitedTPM}, {10 * time.Second, ok}, {20 * time.Second, ok}},
		},
		{
			name: "fixed window", limits: fakemodel.Limits{WindowCalls: 2},
			steps: []step{
				{59 * time.Second, ok},
				{minute - 1, ok},
				{minute - 1, limited},
				{minute, ok},
				{minute, ok},
				{minute, limited},
				{5*minute - 1, ok},
				{5 * minute, ok},
			},
		},
		{
			name: "fixed window of its own length from the first call", limits: fakemodel.Limits{WindowCalls: 1, Window: time.Second}, first: true,
			steps: []step{{1700 * ms, ok}, {2699 * ms, limited}, {2700 * ms, ok}},
		},
		{
			name: "quota until midnight in UTC", limits: fakemodel.Limits{DailyTokens: 20},
			// The bubble's first day begins at 2000-01-01 00:00 UTC.
			steps: []step{
				{0, ok}, {0, ok}, {0, noQuota}, {24*time.Hour - 1, noQuota}, {24 * time.Hour, ok}, {24 * time.Hour, ok}, {24 * time.Hour, noQuota},
			},
		},
		{
			name: "steps", limits: fakemodel.Limits{RPM: 600, Burst: 1, Steps: []fakemodel.Step{{At: 250 * ms, RPM: 300}, {At: 2 * time.Second, RPM: 6000}}},
			// From 200 ms on half a token is earned at the old rate, the
			// second half takes 100 ms at the new one.
			steps: []step{
				{0, ok},
				{100 * ms, ok},
				{200 * ms, ok},
				{349 * ms, limited},
				{350 * ms, ok},
				{549 * ms, limited},
				{550 * ms, ok},
				{2 * time.Second, ok},
				{2*time.Second + 9*ms, limited},
				{2*time.Second + 10*ms, ok},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				timeline(t, fakemodel.Config{Limits: tt.limits, SinceFirstCall: tt.first}, body, tt.steps)
			})
		})
	}
}

// A crowd that never leaves the bucket full gets its burst and its refill, no
// call more and none less.
func TestBucketUnderACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, fakemodel.Config{
			Limits:  fakemodel.Limits{RPM: 600, Burst: 10},
			Latency: fakemodel.Latency{Median: 13 * time.Millisecond, Sigma: 0.5, Reject: 7 * time.Millisecond},
		})
		end := time.Now().Add(4 * time.Second)
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for time.Now().Before(end) {
					post(t.Context(), m, ask("hello"))
				}
			})
		}
		wg.Wait()
		s := m.Stats()
		want := 10 + int(s.Last.Sub(s.First)/(100*time.Millisecond))
		if got := s.Status[http.StatusOK]; got != want {
			t.Errorf("passed in %v: got %d, want %d", s.Last.Sub(s.First), got, want)
		}
		if s.Calls != s.Status[http.StatusOK]+s.Rejected || s.Rejected != s.Status[http.StatusTooManyRequests] {
			t.Errorf("calls %d, rejected %d, status %v do not add up", s.Calls, s.Rejected, s.Status)
		}
	})
}

func TestQuotaCountsWhatIsBilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Poison and empties are billed less than a good answer; two of each
		// must not use up what the good ones may.
		m := newModel(t, fakemodel.Config{
			Limits: fakemodel.Limits{DailyTokens: 30},
			Faults: fakemodel.Faults{
				Poison: fakemodel.Pick{If: func(c fakemodel.Call) bool { return c.Prompt == "poison" }},
				Empty:  fakemodel.Pick{If: func(c fakemodel.Call) bool { return c.Prompt == "void" }},
			},
		})
		var got []string
		for _, prompt := range []string{"poison", "poison", "void", "good", "good", "good"} {
			got = append(got, post(t.Context(), m, ask(prompt)).outcome())
		}
		// void: 1+4 for the prompt; good: 5 and "In short: good." of 4.
		want := []string{poisoned, poisoned, empty, ok, ok, ok}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("outcomes (-got +want):\n%s", diff)
		}
		if got := m.Stats().Tokens; got != 5+3*9 {
			t.Errorf("billed: got %d, want 32", got)
		}
		if got := post(t.Context(), m, ask("good")).outcome(); got != noQuota {
			t.Errorf("after the quota: got %q, want %q", got, noQuota)
		}
	})
}

func TestPersonOnTheSameKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, fakemodel.Config{Limits: fakemodel.Limits{RPM: 60, Burst: 3}})
		for range 3 {
			post(t.Context(), m, ask("batch"))
		}
		post(t.Context(), m, ask("person", `"user":"ann"`))
		time.Sleep(time.Second)
		post(t.Context(), m, ask("person", `"user":"batch"`), fakemodel.UserHeader, "ann") // the header wins
		want := map[string]fakemodel.User{
			"":    {Calls: 3, OK: 3, Tokens: 3 * 10},
			"ann": {Calls: 2, OK: 1, Rejected: 1, Tokens: 11},
		}
		if diff := cmp.Diff(m.Stats().Users, want); diff != "" {
			t.Errorf("users (-got +want):\n%s", diff)
		}
	})
}
