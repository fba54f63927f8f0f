package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// sized are items of rising size, the first the cheapest.
func sized(ids ...string) []batch.Item {
	var its []batch.Item
	for i, id := range ids {
		its = append(its, batch.Item{ID: id, Input: make([]byte, i+1)})
	}
	return its
}

// upstream is one behind a breaker that opens at once and outlives the runs, with
// a retry inside or without. What it is asked for it notes.
type upstream struct {
	fuse
	retried bool
	down    bool
	poison  string // the item that always fails
	asked   []string
}

func newUpstream(retried bool, poison string) *upstream {
	return &upstream{fuse: fuse{after: 1, cooldown: time.Minute}, retried: retried, poison: poison}
}

func (u *upstream) ask(ctx context.Context, it batch.Item) ([]byte, error) {
	once := func() error {
		return u.do(ctx, it.ID, func() error {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.asked = append(u.asked, it.ID)
			if u.down || it.ID == u.poison {
				return statusError(503)
			}
			return nil
		})
	}
	err := once()
	if u.retried && errors.Is(err, statusError(503)) {
		err = once()
	}
	return []byte("fine"), err
}

// night returns what was asked for since the last, one after the other. An hour
// goes by.
func (u *upstream) night() []string {
	asked := u.asked
	u.asked = nil
	time.Sleep(time.Hour)
	return asked
}

// With Hold 0 each run makes one probe while the breaker is open. An item that
// always fails, or an outage, does not make it the same one each night: every other
// item is done first.
func TestFailedProbeIsLastInTheNextRun(t *testing.T) {
	t.Parallel()
	for _, retried := range []bool{false, true} {
		t.Run(fmt.Sprintf("retried=%v", retried), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.cfg.Workers = 1
				u := newUpstream(retried, "poison")
				u.down = true
				its := sized("poison", "b", "c")
				for i, want := range [][]string{{"poison"}, {"b"}, {"c"}, {"poison"}} {
					u.down = i < 3
					rep, _ := e.run(list(its...), u.ask)
					if diff := cmp.Diff(u.night(), want); diff != "" || rep.StoppedBy != "breaker" || rep.Exit != batch.ExitStopped {
						t.Errorf("night %d, %v: asked (-got +want):\n%s", i, rep, diff)
					}
				}
				// Two more are new: they are done before it as well.
				rep, _ := e.run(list(append(sized("x", "y"), its...)...), u.ask)
				if diff := cmp.Diff(u.night(), []string{"x", "y", "b", "c", "poison"}); diff != "" || rep.Done != 4 {
					t.Errorf("%v, asked (-got +want):\n%s", rep, diff)
				}
				// Its failure is its own now, but a retry meets the breaker again.
				if want := int64(1); retried && rep.Pending != want || !retried && rep.Dead != want {
					t.Errorf("%v", rep)
				}
			})
		})
	}
}

// In one run the probes after holds take turns too.
func TestFailedProbesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Workers, e.cfg.Hold = 1, 10*time.Minute
		u := newUpstream(true, "poison")
		u.down = true
		time.AfterFunc(170*time.Second, func() {
			u.mu.Lock()
			u.down = false
			u.mu.Unlock()
		})
		rep, _ := e.run(list(sized("poison", "b", "c")...), u.ask)
		asked := u.night()
		if diff := cmp.Diff(asked[:min(len(asked), 6)], []string{"poison", "b", "c", "poison", "b", "c"}); diff != "" || rep.Done != 2 || rep.Pending != 1 {
			t.Errorf("%v, asked (-got +want):\n%s", rep, diff)
		}
	})
}

// A replay does not begin with the letter that has ended the one before, nor with
// an item that was a run's failed probe.
func TestFailedProbeIsLastInTheNextReplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Workers = 1
		e.run(list(sized("poison", "b", "c", "d")...), func(_ context.Context, it batch.Item) ([]byte, error) {
			if it.ID == "poison" {
				return nil, statusError(503)
			}
			return nil, statusError(400)
		})
		time.Sleep(time.Hour)
		// The letter of the run's probe comes last, whatever it costs.
		if got := failedProbes(t, e); !slices.Equal(got, []string{"poison"}) {
			t.Fatalf("the run has noted %v", got)
		}
		u := newUpstream(true, "poison")
		for i, want := range [][]string{{"b"}, {"c"}, {"d"}, {"poison"}, {"b", "c", "d", "poison"}} {
			u.down = i < 3
			rep, _ := e.replay(u.ask, deadletter.Options{})
			if diff := cmp.Diff(u.night(), want); diff != "" || rep.StoppedBy != "breaker" || rep.Exit != batch.ExitStopped || rep.Total != 4 {
				t.Errorf("night %d, %v: asked (-got +want):\n%s", i, rep, diff)
			}
		}
		if got := failedProbes(t, e); !slices.Equal(got, []string{"poison"}) {
			t.Errorf("left are %v", got)
		}
		// It alone: with Max, in its turn, and never twice.
		u.poison = ""
		rep, _ := e.replay(u.ask, deadletter.Options{Max: 1})
		if diff := cmp.Diff(u.night(), []string{"poison"}); diff != "" || rep.Exit != 0 {
			t.Errorf("%v, asked (-got +want):\n%s", rep, diff)
		}
		if got := failedProbes(t, e); len(got) != 0 {
			t.Errorf("left are %v", got)
		}
	})
}

// failedProbes is what the folder says.
func failedProbes(t *testing.T, e *env) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(e.cfg.Dir, "probes.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var f struct {
		V      int
		Failed []string
	}
	if err := errors.Join(err, json.Unmarshal(b, &f)); err != nil || f.V != 1 {
		t.Fatalf("%s: %v", b, err)
	}
	return f.Failed
}

// The file has only items that are still to be done, and not too many. Without it
// nothing but the order is lost.
func TestFailedProbesFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		file := filepath.Join(e.cfg.Dir, "probes.json")
		var its []batch.Item
		for i := range 70 {
			its = append(its, sized(fmt.Sprintf("item-%02d", i))...)
		}
		u := newUpstream(true, "")
		u.down = true
		for range its {
			e.run(list(its...), u.ask)
			u.night()
		}
		if got := failedProbes(t, e); len(got) != 64 || len(slices.Compact(slices.Sorted(slices.Values(got)))) != 64 {
			t.Errorf("%d are kept: %v", len(got), got)
		}
		// What is no item any more is forgotten, also by a run that has stopped.
		u.down = false
		u.poison = "item-67"
		e.run(list(its[67:]...), u.ask)
		u.night()
		if got := failedProbes(t, e); !slices.Equal(got, []string{"item-67"}) {
			t.Errorf("left are %v", got)
		}
		for _, content := range []string{"", "{", `{"v":2,"failed":["x"]}`, `{"v":1,"failed":"x"}`, "folder"} {
			_ = os.Remove(file)
			var err error
			if content == "folder" {
				err = os.Mkdir(file, 0o700)
			} else {
				err = os.WriteFile(file, []byte(content), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			u.poison = ""
			rep, _ := e.run(list(its[:5]...), u.ask)
			u.night()
			if rep.Exit != 0 || !strings.Contains(strings.Join(rep.Warnings, "\n"), "forgotten") {
				t.Errorf("%q: %v, %v", content, rep, rep.Warnings)
			}
		}
		// It cannot be written, and one is to be kept.
		u.poison = "new"
		u.open = true
		rep, _ := e.run(list(sized("new")...), u.ask)
		if rep.Pending != 1 || !strings.Contains(strings.Join(rep.Warnings, "\n"), "the next run chooses") {
			t.Errorf("%v, %v", rep, rep.Warnings)
		}
	})
}
