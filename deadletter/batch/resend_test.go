package batch_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

func fails(context.Context, batch.Item) ([]byte, error) { return nil, statusError(400) }

// replays returns how often the letter of item was replayed, and its state.
func (e *env) replays(item string) (int, deadletter.State) {
	e.t.Helper()
	r, err := e.letters.Get(e.t.Context(), item)
	if err != nil {
		e.t.Fatal(err)
	}
	return r.Replays, r.State
}

// A letter may outlive the failure: without ResolveOnSuccess, or when a kill came
// between the result and the ack. What it was made from decides.
func TestReplayOfItemsThatAreDone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		input         string // of the result that is there
		version       string
		before        bool // it was stored before the letter failed
		result        string
		calls, warned int
	}{
		{name: "from this input", input: "old", result: "stored"},
		{name: "by another version", input: "old", version: "v2", result: "replayed", calls: 1},
		{name: "mended and done since", input: "new", result: "stored", warned: 1},
		{name: "changed and failed since", input: "new", before: true, result: "replayed", calls: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.letters, _ = deadletter.New(deadletter.Config{Name: "night", Store: e.store})
				e.cfg.Letters = e.letters
				letter := func() { e.run(list(batch.Item{ID: "a.txt", Input: []byte("old")}), fails) }
				result := func() {
					e.cfg.Again = true
					e.run(list(batch.Item{ID: "a.txt", Input: []byte(c.input)}), func(context.Context, batch.Item) ([]byte, error) { return []byte("stored"), nil })
				}
				if c.before {
					letter, result = result, letter
				}
				letter()
				time.Sleep(time.Hour)
				result()
				time.Sleep(time.Hour)
				e.calls, e.cfg.Version = nil, c.version
				rep, err := e.replay(func(context.Context, batch.Item) ([]byte, error) { return []byte("replayed"), nil }, deadletter.Options{})
				if diff := cmp.Diff(of(rep), counts{Total: 1, Done: 1, Skipped: 1 - c.calls, Calls: c.calls}); diff != "" || err != nil || len(e.calls) != c.calls {
					t.Errorf("%d calls, %v (-got +want):\n%s", len(e.calls), err, diff)
				}
				folder, err := batch.OpenFolder(filepath.Join(e.cfg.Dir, "results"))
				if err != nil {
					t.Fatal(err)
				}
				if res, _, err := folder.Load(t.Context(), "a.txt"); string(res.Data) != c.result || err != nil {
					t.Errorf("the result is %q, %v", res.Data, err)
				}
				if len(rep.Warnings) != c.warned || c.warned > 0 && !strings.HasPrefix(rep.Warnings[0], "a.txt: ") {
					t.Errorf("warnings %q", rep.Warnings)
				}
				if _, state := e.replays("a.txt"); state != deadletter.Acked {
					t.Errorf("the letter is %s", state)
				}
			})
		})
	}
}

// A newer result that is no good is the next run's to do again: the letter's older
// input must not come back over it.
func TestReplayLeavesANewerResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.letters, _ = deadletter.New(deadletter.Config{Name: "night", Store: e.store})
		e.cfg.Letters = e.letters
		e.run(list(batch.Item{ID: "a.txt", Input: []byte("old")}), fails)
		time.Sleep(time.Hour)
		e.run(list(batch.Item{ID: "a.txt", Input: []byte("new")}), nil)
		time.Sleep(time.Hour)
		e.calls, e.cfg.Version = nil, "v2"
		rep, err := e.replay(nil, deadletter.Options{OnResult: func(r deadletter.Result) {
			if r.Record.Payload != nil || r.Verb != deadletter.Release {
				t.Errorf("%v with a payload of %d bytes: it is held to the end", r.Verb, len(r.Record.Payload))
			}
		}})
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 1, Pending: 1}); diff != "" {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
		if n, state := e.replays("a.txt"); n != 0 || state != deadletter.Dead {
			t.Errorf("replayed %d times, %s", n, state)
		}
	})
}

// What needs no call says nothing of the upstream: the others still go alone
// until one of them is done.
func TestReplayProvesTheUpstream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.letters, _ = deadletter.New(deadletter.Config{Name: "night", Store: e.store})
		e.cfg.Letters = e.letters
		e.run(items(8), fails)
		e.cfg.Again = true
		e.run(items(1), nil)
		time.Sleep(time.Hour)
		n, most := 0, 0
		rep, err := e.replay(func(_ context.Context, it batch.Item) ([]byte, error) {
			e.mu.Lock()
			n++
			most = max(most, n)
			e.mu.Unlock()
			time.Sleep(time.Minute)
			e.mu.Lock()
			n--
			e.mu.Unlock()
			return nil, statusError(503)
		}, deadletter.Options{})
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 8, Done: 1, Skipped: 1, Dead: 7, Calls: 7}); diff != "" || most != 1 {
			t.Errorf("%d at once, %v (-got +want):\n%s", most, err, diff)
		}
	})
}

// An item without an input has nothing to be replayed with.
func TestReplayOfBadItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		its := func(bad error) []batch.Item {
			return []batch.Item{{ID: "a.txt", Input: []byte("half a rec"), Bad: bad}, {ID: "b.txt", Input: []byte("a long record")}}
		}
		e.run(list(its(errors.New("half a record"))...), fails)
		e.calls = nil
		for range 4 { // more than MaxReplays
			time.Sleep(time.Hour)
			rep, err := e.replay(nil, deadletter.Options{Max: 1})
			if rep.Dead != 1 || rep.DeadBefore != 1 || rep.Exit != 4 || !slices.Equal(rep.DeadItems, []string{"a.txt"}) {
				t.Errorf("%v, %v", rep, err)
			}
		}
		r, err := e.letters.Get(t.Context(), "a.txt")
		if r.Replays != 0 || r.State != deadletter.Dead || r.Failures != 1 || r.Err != "bad input: half a record" || err != nil {
			t.Errorf("%+v, %v", r, err)
		}
		if diff := cmp.Diff(e.calls, []string{"b.txt"}); diff != "" {
			t.Errorf("calls (-got +want):\n%s", diff)
		}
		// The input is the same and can be read now: it is another item.
		rep, err := e.run(list(its(nil)...), nil)
		if diff := cmp.Diff(of(rep), counts{Total: 2, Done: 2, Skipped: 1, Calls: 1}); diff != "" {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
	})
}

// The key's fault is not the letters'.
func TestReplayWithARefusedKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(items(50), fails)
		for range 4 {
			time.Sleep(time.Hour)
			rep, err := e.replay(func(context.Context, batch.Item) ([]byte, error) { return nil, statusError(401) }, deadletter.Options{})
			if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 50, Pending: 50, Calls: 3}); diff != "" || rep.StoppedBy != "auth" || call.StatusCode(err) != 401 {
				t.Errorf("stopped by %q, %v (-got +want):\n%s", rep.StoppedBy, err, diff)
			}
		}
		if n, state := e.replays("item-000"); n != 0 || state != deadletter.Dead {
			t.Errorf("replayed %d times, %s", n, state)
		}
		// So is a quota that is used up, though it comes with another status.
		rep, err := e.replay(func(context.Context, batch.Item) ([]byte, error) { return nil, quotaError{modelapi.Quota} }, deadletter.Options{})
		if rep.StoppedBy != "auth" || rep.Pending != 50 {
			t.Errorf("stopped by %q, %v, %v", rep.StoppedBy, rep, err)
		}
		// A refusal of a few items is theirs. In a run of failures the key is good.
		time.Sleep(time.Hour)
		rep, err = e.replay(func(_ context.Context, it batch.Item) ([]byte, error) {
			if it.ID <= "item-001" || it.ID == "item-003" {
				return nil, statusError(403)
			}
			return fails(t.Context(), it)
		}, deadletter.Options{Concurrency: 1})
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 50, Dead: 47, Pending: 3, Calls: 50}); diff != "" || rep.StoppedBy != "" {
			t.Errorf("stopped by %q, %v (-got +want):\n%s", rep.StoppedBy, err, diff)
		}
	})
}

// A paid result that cannot be kept is a loss, whatever comes after it; the
// letter is as it was.
func TestReplayCannotKeepAResult(t *testing.T) {
	t.Parallel()
	for name, results := range map[string]batch.Results{"store": &broken{}, "sync": unsynced{}, "load": &broken{load: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.run(items(1), fails)
				time.Sleep(time.Hour)
				e.calls, e.cfg.Results = nil, results
				rep, err := e.replay(nil, deadletter.Options{MaxReplays: 1})
				if rep.Exit != 5 || rep.Pending != 1 || rep.StoppedBy != "lost" || int(rep.Calls) != len(e.calls) || len(e.calls) > 0 == (name == "load") || !errors.Is(err, errDisk) {
					t.Errorf("%v, stopped by %q, %v", rep, rep.StoppedBy, err)
				}
				if n, state := e.replays("item-000"); n != 0 || state != deadletter.Dead {
					t.Errorf("replayed %d times, %s", n, state)
				}
			})
		})
	}
}

// diary notes what happens to results and letters.
type diary struct {
	deadletter.Store
	lines []string
}

func (d *diary) Resolve(ctx context.Context, tok deadletter.Token, o deadletter.Outcome) error {
	d.lines = append(d.lines, o.Verb.String())
	return d.Store.Resolve(ctx, tok, o)
}

type kept struct {
	batch.Results
	diary *diary
}

func (k kept) Store(ctx context.Context, r batch.Result) error {
	k.diary.lines = append(k.diary.lines, "store")
	return k.Results.Store(ctx, r)
}

func (k kept) Sync(ctx context.Context) error {
	k.diary.lines = append(k.diary.lines, "sync")
	return k.Results.Sync(ctx)
}

// The letter is all that tells of a result whose name a power cut takes away.
func TestReplaySyncsBeforeTheAck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Owner = "team"
		if err := e.letters.Put(t.Context(), deadletter.Record{ItemID: "a", Payload: []byte("p")}); err != nil {
			t.Fatal(err)
		}
		d := &diary{Store: e.store}
		e.cfg.Results = kept{anywhere{}, d}
		rep, err := batch.Replay(t.Context(), e.cfg, d, func(ctx context.Context, _ batch.Item) ([]byte, error) {
			if o := call.From(ctx).Owner; o != "team" {
				t.Errorf("owner %q", o)
			}
			return []byte("fine"), nil
		}, deadletter.Options{})
		if diff := cmp.Diff(d.lines, []string{"store", "sync", "ack", "sync"}); diff != "" || rep.Exit != 0 {
			t.Errorf("%v, %v (-got +want):\n%s", rep, err, diff)
		}
	})
}

// So does a run.
func TestRunSyncsBeforeTheAck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		d := &diary{Store: e.store}
		e.cfg.Letters, _ = deadletter.New(deadletter.Config{Name: "night", Store: d, ResolveOnSuccess: true})
		e.run(items(1), fails)
		e.cfg.Results, e.cfg.Again = kept{anywhere{}, d}, true
		rep, err := e.run(items(1), nil)
		if diff := cmp.Diff(d.lines, []string{"store", "sync", "ack", "sync"}); diff != "" || rep.Exit != 0 {
			t.Errorf("%v, %v (-got +want):\n%s", rep, err, diff)
		}
	})
}
