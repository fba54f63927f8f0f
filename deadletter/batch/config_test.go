package batch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

func TestNothingStarted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, err := batch.Run(t.Context(), batch.Config{Workers: -1, Total: -1, Hold: -1, Grace: -1}, nil, nil)
	for _, want := range []string{"Dir", "Letters", "handle", "Workers", "Total", "Hold", "Grace", "items"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell %s", err, want)
		}
	}
	if rep, err := e.run(items(0), nil); rep.Exit != 1 || err == nil {
		t.Errorf("no items: %v, %v", rep, err)
	}
	e.cfg.AllowEmpty = true
	if rep, err := e.run(items(0), nil); rep.Exit != 0 {
		t.Errorf("no items, allowed: %v, %v", rep, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if rep, err := batch.Run(ended, e.cfg, items(1), e.handle(nil)); rep.Exit != 1 || !errors.Is(err, context.Canceled) || len(e.calls) != 0 {
		t.Errorf("%v, %v", rep, err)
	}
	if rep, err := e.run(list(batch.Item{Input: []byte("x")}), nil); rep.Exit != 1 || rep.Calls != 0 || rep.StoppedBy != "usage" || !strings.Contains(err.Error(), "item 1 has no ID") {
		t.Errorf("an item without a name: %v, %v", rep, err)
	}
}

// A nil pointer in a field is one that somebody meant to set. It is told before
// anything is started, not by a panic at the first result.
func TestNilPointersAreTold(t *testing.T) {
	t.Parallel()
	var (
		folder *batch.Folder
		out    *bytes.Buffer
		clk    *clock.Mock
		store  *deadletter.Memory
	)
	e := newEnv(t)
	e.cfg.Results, e.cfg.Progress, e.cfg.Clock = folder, out, clk
	_, ofRun := batch.Run(t.Context(), e.cfg, items(1), e.handle(nil))
	_, ofReplay := batch.Replay(t.Context(), e.cfg, store, e.handle(nil), deadletter.Options{})
	for _, field := range []string{"Results", "Progress", "Clock"} {
		if ofRun == nil || !strings.Contains(ofRun.Error(), field) {
			t.Errorf("%v does not tell %s", ofRun, field)
		}
	}
	if ofReplay == nil || !strings.Contains(ofReplay.Error(), "store") {
		t.Errorf("%v does not tell the store", ofReplay)
	}
}

// A Validate that looks for something else does not make a result of nothing.
func TestEmptyResultIsNone(t *testing.T) {
	t.Parallel()
	for _, nothing := range [][]byte{nil, {}, []byte(" \n")} {
		e := newEnv(t)
		e.cfg.Validate = func(batch.Item, []byte) error { return nil }
		rep, err := e.run(items(3), func(context.Context, batch.Item) ([]byte, error) { return nothing, nil })
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 3, Dead: 3, Calls: 6}); diff != "" {
			t.Errorf("%q: %v (-got +want):\n%s", nothing, err, diff)
		}
		// Nor is one believed that somebody has stored.
		stored := batch.Result{Item: "a", InputHash: fmt.Sprintf("%x", sha256.Sum256(nil)), Data: nothing}
		if err := results(t, e).Store(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		if rep, err := e.run(list(batch.Item{ID: "a"}), nil); rep.Done != 1 || rep.Skipped != 0 {
			t.Errorf("%q of an earlier run: %v, %v", nothing, rep, err)
		}
	}
}

// A run that cannot be started does not leave an older one's success, or its
// "running", for its own. What else the last run has told stays.
func TestUnstartedRunLeavesNoSuccess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state    string
		complete bool
		want     string
	}{
		"a success":     {"finished", true, "failed: nothing was started"},
		"a killed run":  {"running", false, "failed: nothing was started"},
		"a stopped run": {"stopped: the breaker refuses", false, "stopped: the breaker refuses"},
	} {
		for how, set := range map[string]func(*batch.Config){
			"a bad field":  func(c *batch.Config) { c.Workers = -1 },
			"no heartbeat": func(cfg *batch.Config) { cfg.Heartbeat = filepath.Join(cfg.Dir, "missing", "beat") },
			"no results":   func(cfg *batch.Config) { cfg.Results = nil },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				report := fmt.Sprintf(`{"v": 1, "state": %q, "complete": %v}`, c.state, c.complete)
				if err := errors.Join(os.Mkdir(e.cfg.Dir, 0o700), os.WriteFile(filepath.Join(e.cfg.Dir, "report.json"), []byte(report), 0o600),
					os.WriteFile(filepath.Join(e.cfg.Dir, "results"), nil, 0o600)); err != nil {
					t.Fatal(err)
				}
				if how != "no results" {
					e.cfg.Results = unsynced{}
				}
				set(&e.cfg)
				rep, err := batch.Run(t.Context(), e.cfg, items(1), e.handle(nil))
				want := c.want
				if how == "no heartbeat" {
					want = "failed: nothing was started" // its own said running
				}
				if w := e.written(); rep.Exit != batch.ExitUsage || err == nil || w.State != want || w.Complete {
					t.Errorf("%v, %v; written is %q, complete %v", rep, err, w.State, w.Complete)
				}
			})
		}
	}
}
