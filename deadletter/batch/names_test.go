package batch_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

func stored(t *testing.T, e *env) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(e.cfg.Dir, "results", "*.result.json"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// A queue also keeps letters of items without a name. Replayed, each has a result
// of its own: acked letters whose results replaced one another would be lost.
func TestReplayOfItemsWithoutNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		for i := range 3 {
			if err := e.letters.Do(t.Context(), fmt.Append(nil, i), func(context.Context) error { return statusError(400) }); err == nil {
				t.Fatal("no failure")
			}
		}
		time.Sleep(time.Hour)
		rep, err := e.replay(func(_ context.Context, it batch.Item) ([]byte, error) {
			if string(it.Input) == "2" {
				return nil, statusError(400)
			}
			return []byte("fine"), nil
		}, deadletter.Options{})
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 3, Done: 2, Dead: 1, Calls: 3}); diff != "" || stored(t, e) != 2 {
			t.Errorf("%d results, %v (-got +want):\n%s", stored(t, e), err, diff)
		}
		if len(rep.DeadItems) != 1 || rep.DeadItems[0] == "" {
			t.Errorf("dead are %q", rep.DeadItems)
		}
	})
}

// Neither letters nor results can tell such names apart. To do these items would
// be to pay for them each night.
func TestNamesThatAreNoText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		its := list(batch.Item{ID: "caf\xe9.txt", Input: []byte("1")}, batch.Item{ID: "caf\xe8.txt", Input: []byte("2")}, batch.Item{ID: "coffee.txt"})
		fine := func(context.Context, batch.Item) ([]byte, error) { return []byte("fine"), nil }
		rep, _ := e.run(its, fine)
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 3, Done: 1, Dead: 2, Calls: 1}); diff != "" {
			t.Errorf("-got +want:\n%s", diff)
		}
		rep, _ = e.run(its, fine)
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 3, Skipped: 1, Done: 1, Dead: 2}); diff != "" {
			t.Errorf("again (-got +want):\n%s", diff)
		}
		time.Sleep(time.Hour)
		rep, err := e.replay(fine, deadletter.Options{})
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 2, Dead: 2}); diff != "" || stored(t, e) != 1 {
			t.Errorf("replayed %v, %d results (-got +want):\n%s", err, stored(t, e), diff)
		}
	})
	e := newEnv(t)
	e.cfg.Version = "v\xff"
	if rep, err := batch.Run(t.Context(), e.cfg, items(1), e.handle(nil)); rep.Exit != batch.ExitUsage || err == nil {
		t.Errorf("a version that is no text: %v, %v", rep, err)
	}
}

// A result that a Folder cannot hold is its item's fault: the others go on, and
// the next night does not end at the same item.
func TestResultsThatAreNoText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Workers = 1
		raw := func(_ context.Context, it batch.Item) ([]byte, error) {
			if it.ID == "item-001" {
				return []byte("caf\xe9"), nil
			}
			return []byte("fine"), nil
		}
		rep, _ := e.run(items(4), raw)
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 4, Done: 3, Dead: 1, Calls: 5}); diff != "" {
			t.Errorf("-got +want:\n%s", diff)
		}
		time.Sleep(time.Hour)
		rep, err := e.replay(raw, deadletter.Options{})
		if rep.Exit != 4 || rep.Dead != 1 {
			t.Errorf("replayed %v, %v", rep, err)
		}
	})
	// Results of the caller's own may hold anything.
	e := newEnv(t)
	e.cfg.Results = anywhere{}
	rep, err := batch.Run(t.Context(), e.cfg, items(1), func(context.Context, batch.Item) ([]byte, error) { return []byte("caf\xe9"), nil })
	if rep.Done != 1 {
		t.Errorf("%v, %v", rep, err)
	}
}

// A label of the caller's that is called version must not make a dead item look
// like another one, which is called again each night.
func TestLabelCalledVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		its := func(version string) []batch.Item {
			return []batch.Item{{ID: "item-1", Input: []byte("1"), Labels: map[string]string{"version": version}}}
		}
		fail := func(context.Context, batch.Item) ([]byte, error) { return nil, statusError(400) }
		for n, want := range []counts{
			{Exit: 4, Total: 1, Dead: 1, Calls: 1},
			{Exit: 4, Total: 1, Dead: 1},
			{Exit: 4, Total: 1, Dead: 1, Calls: 1},
		} {
			rep, _ := e.run(list(its([]string{"3", "3", "4"}[n])...), fail)
			if diff := cmp.Diff(of(rep), want); diff != "" {
				t.Errorf("run %d (-got +want):\n%s", n, diff)
			}
		}
		time.Sleep(time.Hour)
		var got map[string]string
		rep, err := e.replay(func(_ context.Context, it batch.Item) ([]byte, error) {
			got = it.Labels
			return nil, errors.New("no")
		}, deadletter.Options{})
		if diff := cmp.Diff(got, map[string]string{"version": "4"}); diff != "" {
			t.Errorf("replayed with the labels %v, %v (-got +want):\n%s", rep, err, diff)
		}
	})
}

// anywhere are results that are kept nowhere.
type anywhere struct{}

func (anywhere) Load(context.Context, string) (batch.Result, bool, error) {
	return batch.Result{}, false, nil
}
func (anywhere) Store(context.Context, batch.Result) error { return nil }
func (anywhere) Sync(context.Context) error                { return nil }
