package batch_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// Replay: the same folder, checks and exit codes.
func TestReplay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Version = "v1"
		e.run(items(20), func(_ context.Context, it batch.Item) ([]byte, error) {
			if it.ID < "item-010" {
				return nil, statusError(400)
			}
			return []byte("fine"), nil
		})
		time.Sleep(time.Hour)
		replay := func(fn func(context.Context, batch.Item) ([]byte, error), o deadletter.Options) batch.Report {
			e.calls = nil
			rep, _ := e.replay(fn, o)
			return rep
		}
		n := 0
		rep := replay(func(_ context.Context, it batch.Item) ([]byte, error) {
			if string(it.Input) != it.ID || it.Labels["n"] == "" || len(it.Labels) != 1 {
				t.Errorf("item %+v", it)
			}
			if n++; n > 4 {
				return nil, &refusal{by: "budget"}
			}
			if n == 2 {
				return []byte("n/a"), nil // twice
			}
			if n == 3 {
				return []byte(""), nil
			}
			return []byte("mended"), nil
		}, deadletter.Options{Concurrency: 1})
		if diff := cmp.Diff(of(rep), counts{Exit: 3, Total: 10, Done: 2, Dead: 1, Pending: 7, Calls: 4}); diff != "" {
			t.Errorf("stopped replay (-got +want):\n%s", diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(items(20), func(_ context.Context, it batch.Item) ([]byte, error) { return nil, statusError(400) })
		time.Sleep(time.Hour)
		rep, err := e.replay(nil, deadletter.Options{})
		if diff := cmp.Diff(of(rep), counts{Total: 20, Done: 20, Calls: 20}); diff != "" {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
		// Now all have results, made from the same input.
		rep, _ = e.run(items(20), nil)
		if diff := cmp.Diff(of(rep), counts{Total: 20, Done: 20, Skipped: 20}); diff != "" {
			t.Errorf("a run afterwards (-got +want):\n%s", diff)
		}
		for _, f := range []deadletter.Filter{{}, {Queue: "another"}, {Limit: 5}, {IDs: []string{}}} { // none of them asks for any
			rep, err = e.replay(nil, deadletter.Options{Filter: f})
			if rep.Exit != 0 {
				t.Errorf("nothing to replay by %+v: %v, %v", f, rep, err)
			}
		}
		rep, err = e.replay(nil, deadletter.Options{Filter: deadletter.Filter{Owner: "nobody"}})
		if rep.Exit != 1 || !errors.Is(err, deadletter.ErrNoMatch) {
			t.Errorf("asked for what is not there: %v, %v", rep, err)
		}
		before := e.file("replay.json")
		rep, err = batch.Replay(t.Context(), e.cfg, e.store, e.handle(nil), deadletter.Options{Concurrency: -1, Rate: -1})
		if rep.Exit != 1 || err == nil || !strings.Contains(err.Error(), "Concurrency") || !strings.Contains(err.Error(), "Rate") {
			t.Errorf("options that cannot be: %v, %v", rep, err)
		}
		if diff := cmp.Diff(e.file("replay.json"), before); diff != "" {
			t.Errorf("nothing was started, and the report has changed: %s", diff)
		}
	})
}

func TestReplayStops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		signals int
		store   bool
		exit    int
	}{{"drains", 1, false, 130}, {"cancels", 2, false, 130}, {"cannot store", 0, true, 5}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.run(items(20), func(_ context.Context, it batch.Item) ([]byte, error) { return nil, statusError(400) })
				time.Sleep(time.Hour)
				if c.store {
					e.cfg.Results = &broken{}
				}
				for i := range c.signals {
					time.AfterFunc(25*time.Second+time.Duration(i)*2500*time.Millisecond, func() { e.signals <- os.Interrupt })
				}
				rep, err := e.replay(func(ctx context.Context, it batch.Item) ([]byte, error) {
					select {
					case <-time.After(10 * time.Second):
						return []byte("fine"), nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}, deadletter.Options{Concurrency: 2})
				if rep.Exit != c.exit || rep.Pending == 0 || err == nil || c.signals == 1 && rep.Done != 5 || c.signals == 2 && rep.Done != 3 {
					t.Errorf("%v, %v", rep, err)
				}
				if c.store && (rep.Done != 0 || len(e.calls) != 21) {
					t.Errorf("%v: went on paying for what cannot be kept, %d calls", rep, len(e.calls))
				}
			})
		})
	}
}
