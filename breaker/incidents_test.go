package breaker_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
)

// Incidents of others that are not in cases_test.go already. What is there:
// cancelled callers (TestCallersCancelIsNeutral), client errors
// (TestClientErrorsAreNotTheUpstreams), an unreadable file
// (TestDamageIsSetAside).

// Refused for six days by a probe that a panicking caller had taken.
func TestProbeThatNeverReports(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	cfg.Store = newFile(t, t.TempDir())
	b := newBreaker(t, cfg)
	fail(t, b, 3)
	clk.Add(10 * time.Second)
	forgotten := probe(t, b)
	clk.Add(15 * time.Minute)
	// Any process may take over, and only one does.
	other := newBreaker(t, cfg)
	if got := race(t, 50, b, other); got != 1 {
		t.Fatalf("%d calls went out after the lease, want one", got)
	}
	forgotten.Success()
	wantState(t, b, breaker.HalfOpen)
	wantState(t, other, breaker.HalfOpen)
}

func TestPanicLeavesHalfOpen(t *testing.T) {
	t.Parallel()
	clk := newClock()
	b := newBreaker(t, plain(clk))
	fail(t, b, 3)
	clk.Add(10 * time.Second)
	func() {
		defer func() {
			if got := recover(); got != "mine" {
				t.Errorf("recovered %v, want the caller's own value", got)
			}
		}()
		_ = b.Do(t.Context(), func(context.Context) error { panic("mine") })
	}()
	wantState(t, b, breaker.Open)
}

// In half-open the whole queue went through.
func TestOneProbeOfTwoProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 10 {
		clk := newClock()
		cfg := plain(clk)
		cfg.Store = newFile(t, dir)
		one := newBreaker(t, cfg)
		cfg.Store = newFile(t, dir)
		two := newBreaker(t, cfg)
		fail(t, one, 3)
		clk.Add(10 * time.Second)
		if got := race(t, 200, one, two); got != 1 {
			t.Fatalf("%d calls went out, want one probe", got)
		}
		if err := one.Reset(t.Context(), "next round"); err != nil {
			t.Fatal(err)
		}
	}
}

// Cron restarted the job, the breaker began closed and hammered on.
func TestRestartKeepsTheTrip(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	dir := t.TempDir()
	restart := func() *breaker.Breaker {
		cfg.Store = newFile(t, dir)
		return newBreaker(t, cfg)
	}
	fail(t, restart(), 3)
	clk.Add(4 * time.Second)
	if got := refusal(t, restart()).Until.Sub(clk.Now()); got != 6*time.Second {
		t.Errorf("after a restart %v are left, want 6s", got)
	}
	clk.Add(6 * time.Second)
	probe(t, restart()).Failure(errUp)
	b := restart()
	if got := refusal(t, b).Until.Sub(clk.Now()); got != 20*time.Second {
		t.Errorf("the second cooldown is %v, want the doubled one", got)
	}
	if got := b.Stats().TripsTotal; got != 1 {
		t.Errorf("TripsTotal = %d, want 1", got)
	}
	// A record that was forgotten for hours is no reason for long cooldowns.
	clk.Add(5 * time.Hour)
	probe(t, restart()).Failure(errUp)
	if got := refusal(t, restart()).Until.Sub(clk.Now()); got != 10*time.Second {
		t.Errorf("hours later the cooldown is %v, want the base", got)
	}
}

// A job that makes one call per process must trip as well.
func TestFailuresOfManyProcesses(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	dir := t.TempDir()
	for range 3 {
		cfg.Store = newFile(t, dir)
		allow(t, newBreaker(t, cfg)).Failure(errUp)
	}
	cfg.Store = newFile(t, dir)
	refusal(t, newBreaker(t, cfg))
}

// One broken model shut the provider, and one provider another.
func TestGroupKeepsUpstreamsApart(t *testing.T) {
	t.Parallel()
	g, err := breaker.NewGroup(plain(newClock()), breaker.ByHostAndModel)
	if err != nil {
		t.Fatal(err)
	}
	rt := breaker.NewTransport(trip(func(req *http.Request) (*http.Response, error) {
		if modelOf(req) == "broken" {
			return answer(500, `{}`), nil
		}
		return answer(200, good), nil
	}), g)
	for range 3 {
		_, _ = send(t, rt, "https://api.example.com/v1/chat/completions", `{"model":"broken"}`)
		_, _ = send(t, rt, "https://api.example.com/v1/chat/completions", `{"model":"fine"}`)
	}
	var got []string
	for key, b := range g.All() {
		got = append(got, fmt.Sprint(key, " ", b.State()))
	}
	want := []string{"api.example.com/fine closed", "api.example.com/broken open"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("breakers (-got +want):\n%s", diff)
	}
	if got := g.Stats(); got.State != breaker.Open || got.Trips != 1 || got.Admitted != 6 {
		t.Errorf("group: %v, %d trips, %d admitted; want open, 1, 6", got.State, got.Trips, got.Admitted)
	}
}

// A breaker's refusal was retried with backoff, and the cause never logged.
func TestRefusalTellsTheCause(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	cfg.RepeatTrip = 3
	b := newBreaker(t, cfg)
	fail(t, b, 3)
	calls := 0
	err := b.Do(t.Context(), func(context.Context) error { calls++; return nil })
	if calls != 0 || err == nil {
		t.Fatalf("fn was called %d times, error %v", calls, err)
	}
	want := fmt.Sprintf("breaker: up is open until 2026-03-01T22:00:10Z (signature %s): 3 failures with one signature since the last success, the last: upstream says no",
		refusal(t, b).Signature)
	if diff := cmp.Diff(err.Error(), want); diff != "" {
		t.Errorf("error (-got +want):\n%s", diff)
	}
}

// An NTP step set the clock back, and the cooldown never ended.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]breaker.Store{"none": nil, "memory": breaker.Memory(), "file": newFile(t, t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clk := newClock()
			cfg := plain(clk)
			cfg.Store = store
			b := newBreaker(t, cfg)
			fail(t, b, 3)
			clk.Set(start.Add(-2 * time.Hour))
			refusal(t, b)
			clk.Add(10*time.Second - 1)
			refusal(t, b)
			clk.Add(1)
			p := probe(t, b)
			clk.Set(start.Add(-24 * time.Hour))
			refusal(t, b)
			clk.Add(15 * time.Minute)
			probe(t, b) // the lease has ended as well
			p.Success()
			wantState(t, b, breaker.HalfOpen)
		})
	}
}

// One lucky success wiped all memory, and short outages repeated for hours.
func TestFlapping(t *testing.T) {
	t.Parallel()
	clk := newClock()
	b := newBreaker(t, plain(clk))
	calls := 0
	for end := start.Add(time.Hour); clk.Now().Before(end); {
		p, err := b.Allow(t.Context())
		if err != nil {
			clk.Set(err.(*breaker.OpenError).Until)
			continue
		}
		calls++
		if p.Probe() {
			p.Success() // lucky
		} else {
			p.Failure(errUp)
		}
	}
	// Four calls per opening of 80 seconds once doubled to the cap: 45 openings
	// in the hour. With no memory of the last one there would be 360.
	if calls > 4*(45+4) {
		t.Errorf("%d calls in an hour, want the capped doubling", calls)
	}
}

// Later than one MaxCooldown after closing it is a new outage.
func TestLateTripStartsAtTheBase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pause, want time.Duration }{
		{80 * time.Second, 20 * time.Second},
		{80*time.Second + 1, 10 * time.Second},
	} {
		clk := newClock()
		b := newBreaker(t, plain(clk))
		fail(t, b, 3)
		clk.Add(10 * time.Second)
		probe(t, b).Success()
		clk.Add(c.pause)
		fail(t, b, 3)
		if got := refusal(t, b).Until.Sub(clk.Now()); got != c.want {
			t.Errorf("a trip %v after closing opens for %v, want %v", c.pause, got, c.want)
		}
	}
}

// A record that another configuration wrote, or a hand, refuses nobody for
// longer than this configuration would.
func TestNoRecordRefusesForEver(t *testing.T) {
	t.Parallel()
	for _, state := range []string{
		`"state":"open","opened_at":"2026-03-01T22:00:00Z","open_for":"87600h"`,
		`"state":"half-open","probe":{"token":"x","granted_at":"2026-03-01T22:00:00Z","lease":"87600h"}`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "up.json"), []byte(`{"v":1,"name":"up","epoch":7,`+state+`}`), 0o600); err != nil {
			t.Fatal(err)
		}
		clk := newClock()
		cfg := plain(clk)
		cfg.Store = newFile(t, dir)
		b := newBreaker(t, cfg)
		longest := 15 * time.Minute // the default lease; the default hint is 10m
		if left := refusal(t, b).Until.Sub(start); left > longest {
			t.Errorf("%s: refused for %v", state, left)
		}
		clk.Add(longest)
		probe(t, b).Success()
	}
}
