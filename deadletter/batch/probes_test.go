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
				if got := failedProbes(t, e); !slices.Equal(got, []string{"poison"}) {
					t.Errorf("left are %v", got)
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

// note writes failed probes into the folder.
func note(t *testing.T, e *env, ids ...string) {
	t.Helper()
	b, err := json.Marshal(map[string]any{"v": 1, "failed": ids})
	if err == nil {
		err = os.MkdirAll(e.cfg.Dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(e.cfg.Dir, "probes.json"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The letters of failed probes are sent once all others are through, whatever
// became of these and however long they took.
func TestReplaySendsFailedProbesAfterAHold(t *testing.T) {
	t.Parallel()
	for _, retried := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			e.run(list(sized("p", "q", "r")...), fails)
			note(t, e, "p", "q")
			time.Sleep(time.Hour)
			e.cfg.Hold, e.cfg.Workers = time.Hour, 1
			u := newUpstream(retried, "")
			u.open, u.until = true, time.Now().Add(time.Minute)
			rep, _ := e.replay(func(ctx context.Context, it batch.Item) ([]byte, error) {
				data, err := u.ask(ctx, it)
				if it.ID == "r" && err == nil {
					err = statusError(400)
				}
				return data, err
			}, deadletter.Options{})
			if diff := cmp.Diff(u.night(), []string{"r", "p", "q"}); diff != "" || rep.Done != 2 || rep.Dead != 1 {
				t.Errorf("%v, asked (-got +want):\n%s", rep, diff)
			}
		})
	}
	// The only one is tried again, or there would be nothing to hold for.
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(list(sized("a")...), fails)
		time.Sleep(time.Hour)
		e.cfg.Hold = time.Hour
		u := newUpstream(true, "")
		u.down = true
		time.AfterFunc(30*time.Second, func() {
			u.mu.Lock()
			u.down = false
			u.mu.Unlock()
		})
		rep, _ := e.replay(u.ask, deadletter.Options{})
		if diff := cmp.Diff(u.night(), []string{"a", "a"}); diff != "" || rep.Exit != 0 {
			t.Errorf("%v, asked (-got +want):\n%s", rep, diff)
		}
	})
}

// Whatever makes the first letters end the replay, the next begins with others: a
// failure of their own, or a refused key.
func TestEveryReplayBeginsWithOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status statusError
		want   [][]string
	}{
		{"their failure opens the breaker", 503, [][]string{{"p1"}, {"p2"}, {"p3"}, {"good", "p1"}}},
		{"their key is refused", 403, [][]string{{"p1", "p2", "p3"}, {"good", "p1", "p2", "p3"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.cfg.Workers = 1
				its := sized("p1", "p2", "p3", "good")
				e.run(list(its...), fails)
				time.Sleep(time.Hour)
				u := newUpstream(false, "")
				u.after = 1
				handle := func(ctx context.Context, it batch.Item) ([]byte, error) {
					return []byte("fine"), u.do(ctx, it.ID, func() error {
						u.asked = append(u.asked, it.ID)
						switch {
						case it.ID == "good":
							return nil
						case c.status == 403: // no breaker's business
							u.after++
						}
						return c.status
					})
				}
				for i, want := range c.want {
					rep, _ := e.replay(handle, deadletter.Options{MaxReplays: -1})
					if diff := cmp.Diff(u.night(), want); diff != "" {
						t.Errorf("night %d, %v: asked (-got +want):\n%s", i, rep, diff)
					}
				}
				// A complete run of other items does not forget them.
				before := failedProbes(t, e)
				if rep, _ := e.run(list(sized("new")...), nil); rep.Exit != 0 {
					t.Errorf("%v", rep)
				}
				if diff := cmp.Diff(failedProbes(t, e), before); diff != "" || len(before) != 3 {
					t.Errorf("(-got +want):\n%s", diff)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Workers = 1
		for i, want := range [][]string{{"p1", "p2", "p3"}, {"good", "p1", "p2", "p3"}} {
			rep, _ := e.run(list(sized("p1", "p2", "p3", "good")...), func(_ context.Context, it batch.Item) ([]byte, error) {
				if it.ID == "good" {
					return []byte("fine"), nil
				}
				return nil, statusError(403)
			})
			if diff := cmp.Diff(e.calls, want); diff != "" {
				t.Errorf("run %d, %v: asked (-got +want):\n%s", i, rep, diff)
			}
			e.calls = nil
		}
	})
}

// What a store cannot do ends a replay, also before failed probes have their turn.
func TestStoreErrorEndsARound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(list(sized("p", "b", "c")...), fails)
		note(t, e, "p")
		time.Sleep(time.Hour)
		e.calls = nil
		e.cfg.Workers = 1
		rep, err := batch.Replay(t.Context(), e.cfg, &ackless{Store: e.store}, e.handle(nil), deadletter.Options{})
		if rep.Exit != batch.ExitLost || !errors.Is(err, errDisk) || len(e.calls) != 1 {
			t.Errorf("%v, %v, asked %v", rep, err, e.calls)
		}
	})
}

// ackless is a store that acks no letter.
type ackless struct{ deadletter.Store }

func (a *ackless) Resolve(ctx context.Context, tok deadletter.Token, o deadletter.Outcome) error {
	if o.Verb == deadletter.Ack {
		return errDisk
	}
	return a.Store.Resolve(ctx, tok, o)
}

// An iterator may wait for the result of an item that has failed as a probe, in
// this run or an earlier one.
func TestFailedProbeDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	for _, noted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			if noted {
				note(t, e, "a")
			}
			result := make(chan struct{})
			rep, _ := e.run(func(yield func(batch.Item) bool) {
				if yield(batch.Item{ID: "a"}) {
					<-result
					yield(batch.Item{ID: "b"})
				}
			}, func(_ context.Context, it batch.Item) ([]byte, error) {
				if !noted && len(e.calls) == 1 {
					return nil, statusError(503)
				}
				if it.ID == "a" {
					close(result)
				}
				return []byte("fine"), nil
			})
			if rep.Exit != 0 || rep.Seconds > 1300 {
				t.Errorf("%v after %v s", rep, rep.Seconds)
			}
		})
	}
}

// Those that are noted from before are not put back: another may still fail once.
func TestNotedProbesAreNotPutBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		var noted []string
		for i := range 256 {
			noted = append(noted, fmt.Sprintf("item-%03d", i))
		}
		note(t, e, noted...)
		begin := time.Now()
		rep, _ := e.run(items(300), func(context.Context, batch.Item) ([]byte, error) {
			time.Sleep(time.Second)
			if time.Since(begin) < 30*time.Second {
				return nil, statusError(503)
			}
			return []byte("fine"), nil
		})
		if rep.Done != 300 {
			t.Errorf("%v", rep)
		}
	})
}

// Letters that are put off use up nothing of Max, and of Rate what one letter does.
func TestPuttingOffCostsLittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(items(100), fails)
		var noted []string
		for i := range 90 {
			noted = append(noted, fmt.Sprintf("item-%03d", i))
		}
		note(t, e, noted...)
		time.Sleep(time.Hour)
		e.calls = nil
		rep, _ := e.replay(nil, deadletter.Options{Rate: 1, Max: 95})
		if rep.Done != 95 || rep.Seconds > 190 || e.calls[0] < "item-090" {
			t.Errorf("%v after %v s, %s first", rep, rep.Seconds, e.calls[0])
		}
	})
}

// In a replay each turn is one letter's, alone: what fails then does not take the
// next one along.
func TestEveryFailedProbeHasATurnAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(list(sized("good", "p", "q")...), fails)
		note(t, e, "p", "q")
		time.Sleep(time.Hour)
		u := newUpstream(true, "p")
		for i, want := range [][]string{{"good", "p"}, {"q", "p"}} {
			rep, _ := e.replay(u.ask, deadletter.Options{})
			if diff := cmp.Diff(u.night(), want); diff != "" {
				t.Errorf("night %d, %v: asked (-got +want):\n%s", i, rep, diff)
			}
		}
	})
}

// A round for failed probes sees fewer letters than the one before: it sends none
// again, and forgets none that stays.
func TestRoundsSeeDifferentLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Workers, e.cfg.Hold = 1, time.Hour
		e.run(list(sized("x", "p", "q", "k")...), fails)
		rec, err := e.letters.Get(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		rec.LastFailedAt = time.Now().Add(3 * time.Hour)
		if err := e.store.Put(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		note(t, e, "p", "q")
		time.Sleep(time.Hour)
		e.calls = nil
		refused := false
		rep, err := e.replay(func(_ context.Context, it batch.Item) ([]byte, error) {
			switch {
			case it.ID == "p":
				return nil, statusError(400)
			case it.ID == "k":
				return nil, statusError(403)
			case it.ID == "q" && !refused:
				refused = true
				return nil, &refusal{by: "pacer", until: time.Now().Add(time.Minute)}
			}
			return []byte("fine"), nil
		}, deadletter.Options{})
		if diff := cmp.Diff(e.calls, []string{"x", "k", "p", "q", "q"}); diff != "" || rep.Total != 4 || !errors.Is(err, deadletter.ErrPartial) {
			t.Errorf("%v, %v, asked (-got +want):\n%s", rep, err, diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(list(sized("p", "b", "k")...), fails)
		note(t, e, "p")
		time.Sleep(time.Hour)
		rep, err := e.replay(func(_ context.Context, it batch.Item) ([]byte, error) {
			if it.ID == "k" {
				return nil, statusError(403)
			}
			return []byte("fine"), nil
		}, deadletter.Options{})
		if rep.Done != 2 || rep.Pending != 1 || !errors.Is(err, deadletter.ErrPartial) {
			t.Errorf("%v, %v", rep, err)
		}
	})
}

// A turn stays behind those that came before it, whatever is done meanwhile.
func TestTurnsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Workers, e.cfg.Hold = 1, time.Hour
		note(t, e, "a", "b", "y", "z")
		refused := make(chan struct{})
		e.run(func(yield func(batch.Item) bool) {
			for _, id := range []string{"y", "a", "b"} {
				if !yield(batch.Item{ID: id}) {
					return
				}
			}
			<-refused
			yield(batch.Item{ID: "z"})
			time.Sleep(2 * time.Minute)
		}, func(_ context.Context, it batch.Item) ([]byte, error) {
			if it.ID == "y" && len(e.calls) == 3 {
				close(refused)
				return nil, &refusal{by: "pacer", until: time.Now().Add(time.Minute)}
			}
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(e.calls, []string{"a", "b", "y", "y", "z"}); diff != "" {
			t.Errorf("asked (-got +want):\n%s", diff)
		}
	})
}

// The file has not too many. Without it nothing but the order is lost.
func TestFailedProbesFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Workers = 1
		file := filepath.Join(e.cfg.Dir, "probes.json")
		var ids []string
		for i := range 300 {
			ids = append(ids, fmt.Sprintf("item-%03d", i))
		}
		note(t, e, ids...)
		u := newUpstream(true, "item-000")
		u.open = true
		e.run(list(sized("item-000", "item-001")...), u.ask)
		if got := failedProbes(t, e); len(got) != 256 || got[0] != "item-045" || got[255] != "item-000" {
			t.Errorf("%d are kept: %v", len(got), got)
		}
		u.poison = ""
		u.night()
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
			rep, _ := e.run(list(sized("item-000", "item-001")...), u.ask)
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
