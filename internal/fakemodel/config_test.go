package fakemodel_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

func TestNewReportsAllBadFields(t *testing.T) {
	t.Parallel()
	bad := fakemodel.Config{
		Limits: fakemodel.Limits{
			RPM: -1, Burst: 100_000_001, TokenBurst: 5, WindowCalls: -1, DailyTokens: -1,
			Steps: []fakemodel.Step{{At: 2}, {At: 1, TPM: 7}},
		},
		Latency: fakemodel.Latency{Sigma: 1, SlowShare: 2, SlowFactor: 0.5, Reject: -1, Chunk: -1, Scale: math.Inf(1)},
		Hints:   fakemodel.Hints{Seconds: true, Date: true, Wait: -1},
		Faults: fakemodel.Faults{
			Always:  fakemodel.Failure{Status: 200},
			Outages: []fakemodel.Outage{{From: -1, To: -1, Status: 302}},
			Every:   -1, Nth: fakemodel.Failure{Status: 600},
			Poison: fakemodel.Pick{Share: 1.5}, Hang: fakemodel.Pick{Share: math.NaN()}, Cut: fakemodel.Pick{Share: -0.1},
		},
	}
	m, err := fakemodel.New(bad)
	if m != nil || err == nil {
		t.Fatalf("New: got (%v, %v), want an error", m, err)
	}
	var got []string
	for line := range strings.Lines(err.Error()) {
		field, _, _ := strings.Cut(strings.TrimPrefix(line, "fakemodel: "), ": ")
		got = append(got, field)
	}
	want := []string{
		"Limits.RPM", "Limits.Burst", "Limits.TokenBurst", "Limits.WindowCalls", "Limits.DailyTokens",
		"Limits.Steps[1].At", "Limits.Steps[1].TPM",
		"Latency.Sigma", "Latency.SlowShare", "Latency.SlowShare", "Latency.SlowFactor", "Latency.Reject", "Latency.Chunk", "Latency.Scale",
		"Hints.Date", "Hints.Wait",
		"Faults.Always.Status", "Faults.Outages[0].From", "Faults.Outages[0].To", "Faults.Outages[0].Status",
		"Faults.Every", "Faults.Nth.Status", "Faults.Poison.Share", "Faults.Hang.Share", "Faults.Cut.Share",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("fields (-got +want):\n%s", diff)
	}
}

func TestNewReportsFieldsWithoutTheirPartner(t *testing.T) {
	t.Parallel()
	tests := []struct {
		field  string
		config fakemodel.Config
	}{
		{"Limits.Burst", fakemodel.Config{Limits: fakemodel.Limits{Burst: 1}}},
		{"Limits.Window", fakemodel.Config{Limits: fakemodel.Limits{Window: time.Second}}},
		{"Limits.Steps[0].RPM", fakemodel.Config{Limits: fakemodel.Limits{TPM: 1, Steps: []fakemodel.Step{{RPM: 1}}}}},
		{"Faults.Always.Code", fakemodel.Config{Faults: fakemodel.Faults{Always: fakemodel.Failure{Code: "x"}}}},
		{"Faults.Nth", fakemodel.Config{Faults: fakemodel.Faults{Nth: fakemodel.Failure{Status: 500}}}},
	}
	for _, tt := range tests {
		_, err := fakemodel.New(tt.config)
		if err == nil || !strings.HasPrefix(err.Error(), "fakemodel: "+tt.field+": ") {
			t.Errorf("New: got %v, want an error about %s", err, tt.field)
		}
	}
}

// What the caller does to its slices afterwards is not the model's affair.
func TestNewCopiesConfig(t *testing.T) {
	t.Parallel()
	outages := []fakemodel.Outage{{From: time.Hour, To: 2 * time.Hour}}
	m := newModel(t, fakemodel.Config{Faults: fakemodel.Faults{Outages: outages}})
	if outages[0].Status != 0 {
		t.Errorf("New wrote to the caller's slice: %+v", outages[0])
	}
	outages[0].From = 0
	if got := post(t.Context(), m, ask("hello")).outcome(); got != ok {
		t.Errorf("got %q, want %q", got, ok)
	}
}
