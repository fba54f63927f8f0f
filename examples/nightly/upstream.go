package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// The demo's upstream is a fake on loopback, so that the night costs nothing,
// fits a minute and is the same for both loops.

// demoKey is what the fake accepts.
const demoKey = "demo-key"

// demoRPM is the fake's limit: the night's 4,000 items fit into some 12 s.
const demoRPM = 24_000

var upstreams = []string{"night", "ok", "429", "401", "outage"}

// demoUpstream returns the fake called name, with a daily quota in tokens.
func demoUpstream(name string, seed uint64, quota int64, clk clock) (*fakemodel.Model, error) {
	if !slices.Contains(upstreams, name) {
		return nil, fmt.Errorf("-upstream: %q is none of %v", name, upstreams)
	}
	cfg := fakemodel.Config{
		Seed:    seed,
		Key:     demoKey,
		Limits:  fakemodel.Limits{RPM: demoRPM, Burst: demoRPM / 600, DailyTokens: quota},
		Latency: fakemodel.Latency{Median: 40 * time.Millisecond, Sigma: 0.5, SlowShare: 0.01, Reject: 5 * time.Millisecond},
		Hints:   fakemodel.Hints{Millis: true},

		SinceFirstCall: true,
		Clock:          clk,
	}
	switch name {
	case "night":
		cfg.Faults = fakemodel.Faults{
			Outages:   []fakemodel.Outage{{From: 3 * time.Second, To: 5 * time.Second}},
			Poison:    fakemodel.Pick{Share: 0.02},
			Empty:     fakemodel.Pick{Share: 0.002},
			EmptyOnce: fakemodel.Pick{Share: 0.005},
			Flaky:     fakemodel.Pick{Share: 0.005},
		}
		// A real outage does not say when it ends.
		cfg.Hints = fakemodel.Hints{}
	case "429":
		cfg.Faults.Always = fakemodel.Failure{Status: 429}
		cfg.Hints = fakemodel.Hints{}
	case "401":
		cfg.Faults.Always = fakemodel.Failure{Status: 401}
	case "outage":
		cfg.Faults.Outages = []fakemodel.Outage{{From: 2 * time.Second, To: 24 * time.Hour}}
		cfg.Hints = fakemodel.Hints{}
	}
	return fakemodel.New(cfg)
}
