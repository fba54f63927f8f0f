package batch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/call"
)

// A run ends green only when everything is done, and never counts a failure as
// done: every item refused by the upstream, every third, none.
func TestExitTellsWhatIsDone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		every int // 0 = none
		want  counts
	}{
		{"all", 1, counts{Exit: 4, Total: 30, Dead: 30, Calls: 60}}, // one by one, and once more: it may have been an outage
		{"every third", 3, counts{Exit: 4, Total: 30, Done: 20, Dead: 10, Calls: 30}},
		{"none", 0, counts{Total: 30, Done: 30, Calls: 30}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				rep, _ := e.run(items(30), func(_ context.Context, it batch.Item) ([]byte, error) {
					time.Sleep(time.Second)
					n := 0
					if _, err := fmt.Sscanf(it.ID, "item-%d", &n); err != nil {
						return nil, err
					}
					if c.every > 0 && n%c.every == c.every-1 {
						return nil, statusError(429)
					}
					return []byte("fine"), nil
				})
				if diff := cmp.Diff(of(rep), c.want); diff != "" {
					t.Errorf("report (-got +want):\n%s", diff)
				}
				if rep.Done == 0 && rep.CallsPerDone != nil || rep.Done > 0 && *rep.CallsPerDone != float64(rep.Calls)/float64(rep.Done) {
					t.Errorf("calls per done %v", rep.CallsPerDone)
				}
				s, err := e.store.Stats(t.Context(), deadletter.Filter{})
				if err != nil || s.Letters() != int(rep.Dead) {
					t.Errorf("%d letters, %d dead, %v", s.Letters(), rep.Dead, err)
				}

				// What is done is not done again, and what is dead is not tried
				// again.
				again, _ := e.run(items(30), nil)
				want := c.want
				want.Skipped, want.Calls = want.Done, 0
				if diff := cmp.Diff(of(again), want); diff != "" {
					t.Errorf("second report (-got +want):\n%s", diff)
				}
				if again.DeadBefore != again.Dead || again.CallsPerDone != nil {
					t.Errorf("dead before %d, calls per done %v", again.DeadBefore, again.CallsPerDone)
				}
				// But when asked to, it is.
				e.cfg.Again = true
				again, _ = e.run(items(30), nil)
				if s, err := e.store.Stats(t.Context(), deadletter.Filter{States: []deadletter.State{deadletter.Dead}}); again.Exit != 0 || again.Calls != rep.Dead || s.Letters() != 0 {
					t.Errorf("again: %v, %d letters, %v", again, s.Letters(), err)
				}
			})
		})
	}
}

func TestChangedInputIsDoneAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		a := batch.Item{ID: "a", Input: []byte("1")}
		b := batch.Item{ID: "b", Input: []byte("1")}
		fail := func(_ context.Context, it batch.Item) ([]byte, error) {
			if it.ID == "b" && string(it.Input) == "1" {
				return nil, statusError(400)
			}
			return []byte("of " + string(it.Input)), nil
		}
		e.run(list(a, b), fail)
		a.Input, b.Input = []byte("2"), []byte("2")
		rep, _ := e.run(list(a, b), fail)
		if diff := cmp.Diff(of(rep), counts{Total: 2, Done: 2, Calls: 2}); diff != "" {
			t.Errorf("with other inputs (-got +want):\n%s", diff)
		}
		if r, err := e.letters.Get(t.Context(), "b"); err != nil || r.State != deadletter.Acked {
			t.Errorf("the letter of b: %v, %v; want it acked", r.State, err)
		}
		e.cfg.Version = "prompt-2"
		if rep, _ := e.run(list(a, b), fail); rep.Skipped != 0 || rep.Done != 2 {
			t.Errorf("with another prompt: %v", rep)
		}
		// What the check of today refuses is not believed.
		e.cfg.Validate = func(it batch.Item, result []byte) error {
			if string(result) == "of 2" && it.ID == "a" {
				return errors.New("too short")
			}
			return nil
		}
		rep, _ = e.run(list(a, b), func(context.Context, batch.Item) ([]byte, error) { return []byte("of 2, at length"), nil })
		if rep.Skipped != 1 || rep.Calls != 1 || rep.Done != 2 {
			t.Errorf("with a stricter check: %v", rep)
		}
		e.cfg.Validate = nil
		// Half a file, another item's file, an empty one: none is a result.
		for _, content := range []string{`{"item":"a`, `{"item":"other","result":"x"}`, ""} {
			name := results(t, e).Path("a")
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if rep, _ := e.run(list(a, b), fail); rep.Skipped != 1 || rep.Done != 2 || rep.Calls != 1 {
				t.Errorf("with %q as a result: %v", content, rep)
			}
		}
	})
}

// A dead item is tried again when its input or Version is another, and then only.
func TestChangedDeadItemIsDoneAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		it := batch.Item{ID: "a", Input: []byte("1")}
		for i, c := range []struct {
			version, input string
			calls          int
		}{{"", "1", 2}, {"", "1", 0}, {"prompt-2", "1", 2}, {"prompt-2", "1", 0}, {"prompt-2", "2", 2}, {"prompt-2", "2", 0}} {
			e.cfg.Version, it.Input, e.calls = c.version, []byte(c.input), nil
			rep, _ := e.run(list(it), func(context.Context, batch.Item) ([]byte, error) { return nil, statusError(500) })
			// The first of a run is tried once more.
			if len(e.calls) != c.calls || rep.Dead != 1 || rep.Exit != 4 {
				t.Errorf("run %d: %d calls, want %d; %v", i, len(e.calls), c.calls, rep)
			}
		}
	})
}

func results(t *testing.T, e *env) *batch.Folder {
	t.Helper()
	f, err := batch.OpenFolder(filepath.Join(e.cfg.Dir, "results"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestPlaceholderIsTriedOnceMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		tries := map[string]int{}
		e.cfg.Workers = 1
		rep, _ := e.run(items(3), func(_ context.Context, it batch.Item) ([]byte, error) {
			tries[it.ID]++
			if it.ID == "item-001" || it.ID == "item-002" && tries[it.ID] == 1 {
				return []byte(" N/A "), nil
			}
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(tries, map[string]int{"item-000": 1, "item-001": 2, "item-002": 2}); diff != "" {
			t.Errorf("tries (-got +want):\n%s", diff)
		}
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 3, Done: 2, Dead: 1, Calls: 5}); diff != "" || rep.Retries != 2 {
			t.Errorf("retries %d, report (-got +want):\n%s", rep.Retries, diff)
		}
		r, err := e.letters.Get(t.Context(), "item-001")
		if err != nil || !strings.Contains(r.Err, "N/A") || string(r.Payload) != "item-001" || r.Labels["n"] != "1" {
			t.Errorf("letter %+v, %v", r, err)
		}
		if len(rep.Signatures) != 1 || rep.Signatures[0].Template != "placeholder" {
			t.Errorf("signatures %v", rep.Signatures)
		}
	})
}

func TestPanicIsAFailedItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(items(8), func(_ context.Context, it batch.Item) ([]byte, error) {
			switch it.ID {
			case "item-002", "item-003":
				panic("no such key 4711")
			case "item-004":
				runtime.Goexit()
			}
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 8, Done: 5, Dead: 3, Calls: 8}); diff != "" {
			t.Errorf("report (-got +want):\n%s", diff)
		}
		r, err := e.letters.Get(t.Context(), "item-002")
		if err != nil || !strings.HasPrefix(r.Err, "panic: no such key") || !strings.Contains(r.Err, "run_test.go") {
			t.Errorf("letter %q, %v: want the panic and its stack", r.Err, err)
		}
		if len(rep.Signatures) != 2 || rep.Signatures[0].Count != 2 {
			t.Errorf("signatures %v: want one for both panics", rep.Signatures)
		}
	})
}

func TestBadInputIsNotSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		bad := batch.Item{ID: "bad.json", Input: []byte("{"), Bad: errors.New("unexpected end of JSON input")}
		rep, _ := e.run(list(bad, batch.Item{ID: "good", Input: []byte("{}")}), nil)
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 2, Done: 1, Dead: 1, Calls: 1}); diff != "" || e.calls[0] != "good" {
			t.Errorf("calls %v, report (-got +want):\n%s", e.calls, diff)
		}
		r, err := e.letters.Get(t.Context(), "bad.json")
		if err != nil || r.Attempts != 0 || !strings.Contains(r.Err, "unexpected end") {
			t.Errorf("letter %+v, %v", r, err)
		}
		rep, _ = e.run(list(bad), nil)
		if rep.DeadBefore != 1 {
			t.Errorf("again: %v", rep)
		}
	})
}

// The second run says who has the folder, and leaves the first one's report.
func TestFolderLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(items(2), func(_ context.Context, it batch.Item) ([]byte, error) {
			second, err := batch.Run(t.Context(), e.cfg, items(2), e.handle(nil))
			if second.Exit != 1 || err == nil || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
				t.Errorf("%v, %v: want exit 1 and the holder's process", second, err)
			}
			if w := e.written(); w.State != "running" || w.Complete {
				t.Errorf("meanwhile the report says %v", w)
			}
			return []byte("fine"), nil
		})
		if rep.Exit != 0 || rep.Done != 2 {
			t.Errorf("first run: %v", rep)
		}
	})
}

func TestDuplicateIDs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(list(batch.Item{ID: "a", Input: []byte("1")}, batch.Item{ID: "a", Input: []byte("2")}, batch.Item{ID: "b"}), nil)
		if rep.Duplicates != 1 || rep.Total != 2 || rep.Done != 2 || len(rep.Warnings) != 1 {
			t.Errorf("report %v, warnings %v", rep, rep.Warnings)
		}
	})
}

// A panic in the iterator goes on, after a report that says so.
func TestIteratorPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		defer func() {
			p := recover()
			if p == nil || !strings.Contains(fmt.Sprint(p), "listing broke") {
				t.Errorf("panic %v", p)
			}
			if w := e.written(); w.Exit != 5 || w.Complete || w.Done != 1 || !w.Uncounted {
				t.Errorf("report %+v", w)
			}
		}()
		_, _ = batch.Run(t.Context(), e.cfg, func(yield func(batch.Item) bool) {
			yield(batch.Item{ID: "a"})
			panic("listing broke")
		}, e.handle(nil))
	})
}

func TestContextOfItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Owner = "nightly"
		e.run(list(batch.Item{ID: "a", Estimate: 900}), func(ctx context.Context, it batch.Item) ([]byte, error) {
			b := call.From(ctx)
			if b.ID != "a" || b.Owner != "nightly" || b.Estimate != 900 || !b.Recorded || b.Labels["input_sha256"] == "" {
				t.Errorf("box %+v", b)
			}
			// The queue's own function form steps aside: one failure, one letter.
			return nil, e.letters.Do(ctx, []byte("other payload"), func(context.Context) error { return statusError(400) })
		})
		r, err := e.letters.Get(t.Context(), "a")
		if err != nil || r.Failures != 1 || r.Owner != "nightly" || r.EstTokens != 900 || r.PayloadSize != 0 {
			t.Errorf("letter %+v, %v", r, err)
		}
	})
}

// Without anybody counting, an answer is a call; a guard's refusal is none.
func TestCallsAreThoseOfTheGuards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(items(3), func(ctx context.Context, it batch.Item) ([]byte, error) {
			for range 4 {
				call.From(ctx).Item.Sent()
			}
			return []byte("fine"), nil
		})
		if rep.Calls != 12 || rep.Retries != 9 || *rep.CallsPerDone != 4 {
			t.Errorf("calls %d, retries %d, per done %v", rep.Calls, rep.Retries, *rep.CallsPerDone)
		}
		if len(rep.Alerts) != 0 {
			t.Errorf("alerts %v after so few calls", rep.Alerts)
		}
		// A failure may say it itself.
		rep, _ = e.run(list(batch.Item{ID: "tried"}), func(context.Context, batch.Item) ([]byte, error) { return nil, attempts(3) })
		if rep.Calls != 6 || rep.Dead != 1 {
			t.Errorf("calls %d, want three of each try: %v", rep.Calls, rep)
		}
		// A client that hides why nothing was sent does not make it a call.
		rep, _ = e.run(list(batch.Item{ID: "hidden"}), func(ctx context.Context, _ batch.Item) ([]byte, error) {
			call.From(ctx).Item.Fail(&refusal{})
			return nil, errors.New("request failed")
		})
		if rep.Calls != 0 || rep.Dead != 1 {
			t.Errorf("calls %d, want none: %v", rep.Calls, rep)
		}
	})
}
