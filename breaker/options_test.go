package breaker_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/benbjohnson/clock"
	"github.com/nightfuse/nightfuse/breaker"
)

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	_, err := breaker.New(breaker.Config{
		Name: "caf\u00e9", Threshold: -1, Cooldown: -1, MaxCooldown: -2, Jitter: math.NaN(), ProbeLease: -3,
		Ratio: 2, RatioCalls: -4, RatioWindow: -5, StoreTimeout: -6, Refresh: -7,
		Store: (*watched)(nil), Clock: (*clock.Mock)(nil),
	})
	if err == nil {
		t.Fatal("nonsense was accepted")
	}
	for field := range strings.FieldsSeq("Name Threshold Cooldown MaxCooldown Jitter ProbeLease Ratio RatioCalls RatioWindow StoreTimeout Refresh Store Clock") {
		if !strings.Contains("\n"+err.Error(), "\nbreaker: Config."+field+" ") {
			t.Errorf("the error does not name %s: %v", field, err)
		}
	}
	for _, cfg := range []breaker.Config{
		{Name: strings.Repeat("n", 151)},
		{Cooldown: time.Minute, MaxCooldown: time.Second},
		{Jitter: 1.5},
	} {
		if _, err := breaker.New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
		if _, err := breaker.NewGroup(cfg, nil); err == nil {
			t.Errorf("%+v was accepted for a group", cfg)
		}
	}
	b := newBreaker(t, breaker.Config{Cooldown: time.Hour, Jitter: -1})
	if err := b.Trip(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(refusal(t, b).Until); left < 59*time.Minute || left > time.Hour {
		t.Errorf("a Cooldown above the default maximum lasts %v", left)
	}
}

func TestTripAndReset(t *testing.T) {
	t.Parallel()
	clk := newClock()
	var got []string
	cfg := plain(clk)
	cfg.Store = newFile(t, t.TempDir())
	cfg.OnChange = func(c breaker.Change) { got = append(got, fmt.Sprintf("%v>%v %s", c.From, c.To, c.Reason)) }
	b := newBreaker(t, cfg)
	for _, want := range []time.Duration{10, 20, 40, 80, 80} {
		if err := b.Trip(t.Context(), "maintenance"); err != nil {
			t.Fatal(err)
		}
		open := refusal(t, b)
		if d := open.Until.Sub(clk.Now()); d != want*time.Second || open.Reason != "maintenance" {
			t.Errorf("open for %v because of %q, want %v, maintenance", d, open.Reason, want*time.Second)
		}
	}
	if err := b.Reset(t.Context(), "all clear"); err != nil {
		t.Fatal(err)
	}
	allow(t, b).Success()
	s := b.Stats()
	if s.TripsTotal != 5 || s.LastTrip.Reason != "maintenance" || !s.LastTrip.At.Equal(start) {
		t.Errorf("after Reset: %d trips, last %+v; want both kept", s.TripsTotal, s.LastTrip)
	}
	want := []string{
		"closed>open maintenance", "open>open maintenance", "open>open maintenance", "open>open maintenance", "open>open maintenance",
		"open>closed all clear",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("changes (-got +want):\n%s", diff)
	}
	// A probe that was out when the operator decided changes nothing.
	if err := b.Trip(t.Context(), "again"); err != nil {
		t.Fatal(err)
	}
	clk.Add(10 * time.Second)
	p := probe(t, b)
	if err := b.Reset(t.Context(), "sure"); err != nil {
		t.Fatal(err)
	}
	p.Failure(errUp)
	wantState(t, b, breaker.Closed)
}

func TestWait(t *testing.T) {
	t.Parallel()
	forms := map[string]func() breaker.Store{
		"none":       func() breaker.Store { return nil },
		"memory":     breaker.Memory,
		"unnumbered": func() breaker.Store { return unnumbered{breaker.Memory()} },
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := breaker.Config{Store: form(), Jitter: -1}
				b := newBreaker(t, cfg)
				begin := time.Now()
				if err := b.Wait(t.Context()); err != nil || time.Since(begin) != 0 {
					t.Fatalf("Wait on a closed breaker: %v after %v", err, time.Since(begin))
				}
				fail(t, b, 5)
				err := refusal(t, b).Await(t.Context())
				if d := time.Since(begin); err != nil || d != 30*time.Second {
					t.Fatalf("Await: %v after %v, want the end of the cooldown", err, d)
				}
				p := probe(t, b)
				done := make(chan time.Duration)
				for range 31 {
					go func() {
						_ = refusal(t, b).Await(t.Context())
						done <- time.Since(begin)
					}()
				}
				synctest.Wait()
				if got := b.Stats().Waiting; got != 31 {
					t.Errorf("Waiting = %d, want 31", got)
				}
				time.Sleep(5 * time.Second)
				p.Success()
				for range 31 {
					if d := <-done; d != 35*time.Second {
						t.Fatalf("woken after %v, want when the probe succeeded", d)
					}
				}

				// Another process's word is heard within Refresh.
				if cfg.Store != nil {
					if err := b.Trip(t.Context(), "test"); err != nil {
						t.Fatal(err)
					}
					begin = time.Now()
					go func() {
						time.Sleep(3500 * time.Millisecond)
						if err := newBreaker(t, cfg).Reset(t.Context(), "other"); err != nil {
							t.Error(err)
						}
					}()
					if err := b.Wait(t.Context()); err != nil || time.Since(begin) > 4500*time.Millisecond {
						t.Errorf("Wait: %v after %v, want at most Refresh after the reset", err, time.Since(begin))
					}
				}

				if err := b.Trip(t.Context(), "test"); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errUp)
				defer cancel()
				if err := b.Wait(ctx); !errors.Is(err, errUp) {
					t.Errorf("Wait = %v, want the context's cause", err)
				}
			})
		})
	}
}

func TestFailureRatio(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	cfg.Threshold, cfg.Ratio, cfg.RatioCalls, cfg.RatioWindow = 1000, 0.5, 10, time.Minute
	b := newBreaker(t, cfg)
	pair := func() {
		allow(t, b).Success()
		allow(t, b).Failure(errUp)
	}
	for range 4 {
		pair()
	}
	clk.Add(time.Minute) // what is older than the window does not count
	for range 4 {
		pair()
		clk.Add(time.Second)
	}
	allow(t, b).Ignore()
	wantState(t, b, breaker.Closed)
	pair()
	if got := refusal(t, b).Reason; got != "failure ratio reached, the last: upstream says no" {
		t.Errorf("reason %q", got)
	}
	clk.Add(10 * time.Second)
	probe(t, b).Success()
	// The window begins anew.
	for range 4 {
		pair()
	}
	wantState(t, b, breaker.Closed)
}

func TestShadow(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	cfg.Shadow = true
	changes := 0
	cfg.OnChange = func(breaker.Change) { changes++ }
	b := newBreaker(t, cfg)
	fail(t, b, 10)
	if got := b.Stats(); got.State != breaker.Open || got.Shadowed != 7 || got.Refused != 0 || got.Trips != 1 {
		t.Errorf("%v, %d shadowed, %d refused, %d trips; want open, 7, 0, 1", got.State, got.Shadowed, got.Refused, got.Trips)
	}
	clk.Add(10 * time.Second)
	p := probe(t, b)
	allow(t, b).Failure(errUp)
	p.Success()
	wantState(t, b, breaker.Closed)
	if changes != 3 {
		t.Errorf("%d changes reported, want 3", changes)
	}
}

func TestPermitIsSettledOnce(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, plain(newClock()))
	p := allow(t, b)
	p.Failure(errUp)
	p.Failure(errUp)
	p.Success()
	p.Ignore()
	p.Done(breaker.Result{Err: errUp})
	if got := b.Stats(); got.Failures != 1 || got.Successes != 0 || got.Ignored != 0 || got.InFlight != 0 {
		t.Errorf("one permit counted as %+v", got)
	}
	var none *breaker.Permit
	none.Success()
	none.Failure(errUp)
	none.Ignore()
	none.Done(breaker.Result{})
	if none.Probe() {
		t.Error("no permit is no probe")
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	b := newBreaker(t, plain(newClock()))
	before := b.Stats()
	allow(t, b).Success()
	allow(t, b).Ignore()
	fail(t, b, 1)
	mid := b.Stats()
	fail(t, b, 2)
	refusal(t, b)
	got := maps.Collect(b.Stats().Sub(mid).All())
	want := map[string]float64{
		"state": 1, "streak": 0, "trips_total": 1, "in_flight": 0, "waiting": 0,
		"admitted": 2, "refused": 1, "shadowed": 0, "successes": 0, "failures": 2, "fatals": 0, "ignored": 0, "stale": 0,
		"probes": 0, "trips": 1, "store_errors": 0, "damaged": 0, "hook_panics": 0,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("difference (-got +want):\n%s", diff)
	}
	for name := range before.All() {
		if name == "admitted" {
			break // stopping early is allowed
		}
	}
	var _ expvar.Var = b
	var fromJSON map[string]any
	if err := json.Unmarshal([]byte(b.String()), &fromJSON); err != nil {
		t.Fatal(err)
	}
	for name := range want {
		if _, ok := fromJSON[name]; !ok {
			t.Errorf("String has no %q: %s", name, b)
		}
	}
	if fromJSON["state"] != "open" {
		t.Errorf("String says %v", fromJSON["state"])
	}
}
