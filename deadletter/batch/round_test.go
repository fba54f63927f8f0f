package batch_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// With a Hold a replay waits for the breaker as a run does. No letter is sent
// twice, and none that has not failed is left.
func TestReplayHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		hold   time.Duration
		max    int
		signal time.Duration
		cancel time.Duration
		want   counts
		by     string
		after  time.Duration
	}{
		{name: "until it lifts", hold: time.Hour, want: counts{Exit: 4, Total: 20, Done: 14, Dead: 6, Calls: 20}, after: 4 * time.Minute},
		{name: "not in vain", hold: 30 * time.Second, want: counts{Exit: 2, Total: 20, Dead: 3, Pending: 17, Calls: 3}, by: "breaker"},
		{name: "in all at most so long", hold: 150 * time.Second, want: counts{Exit: 2, Total: 20, Dead: 5, Pending: 15, Calls: 5}, by: "breaker", after: 2 * time.Minute},
		{name: "for Max letters", hold: time.Hour, max: 9, want: counts{Exit: 2, Total: 20, Done: 3, Dead: 6, Pending: 11, Calls: 9}, after: 4 * time.Minute},
		{name: "until a signal", hold: time.Hour, signal: 90 * time.Second, want: counts{Exit: 130, Total: 20, Dead: 4, Pending: 16, Calls: 4}, by: "breaker", after: 90 * time.Second},
		{name: "until the end of the context", hold: time.Hour, cancel: 90 * time.Second, want: counts{Exit: 130, Total: 20, Dead: 4, Pending: 16, Calls: 4}, by: "breaker", after: 90 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.run(items(20), fails)
				time.Sleep(time.Hour)
				e.calls, e.cfg.Hold = nil, c.hold
				f := &fuse{after: 3, cooldown: time.Minute}
				if c.signal > 0 {
					time.AfterFunc(c.signal, func() { e.signals <- os.Interrupt })
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				begin := time.Now()
				var sent []string
				rep, err := batch.Replay(ctx, e.cfg, e.store, func(ctx context.Context, it batch.Item) ([]byte, error) {
					return []byte("fine"), f.do(ctx, it.ID, func() error {
						sent = append(sent, it.ID)
						if time.Since(begin) < 3*time.Minute+30*time.Second {
							return statusError(503)
						}
						return nil
					})
				}, deadletter.Options{Concurrency: 1, Max: c.max})
				rep, err = e.agreed("replay.json", rep, err)
				if diff := cmp.Diff(of(rep), c.want); diff != "" || rep.StoppedBy != c.by || time.Since(begin) != c.after {
					t.Errorf("after %v by %q, %v (-got +want):\n%s", time.Since(begin), rep.StoppedBy, err, diff)
				}
				slices.Sort(sent)
				if len(slices.Compact(sent)) != int(rep.Calls) {
					t.Errorf("a letter was sent twice: %v", sent)
				}
			})
		})
	}
}

// full are results with room for a few.
type full struct {
	anywhere
	room int
}

func (f *full) Store(context.Context, batch.Result) error {
	if f.room--; f.room < 0 {
		return errDisk
	}
	return nil
}

// What comes in after the refusal may be graver.
func TestReplayMeetsMoreThanOneEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		late error // of the letter that comes back after the refusal
		exit int
	}{{"an empty budget", &refusal{by: "budget"}, 3}, {"a full disk", nil, 5}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.run(list(batch.Item{ID: "first", Input: []byte("1")}, batch.Item{ID: "late", Input: []byte("22")}, batch.Item{ID: "refused", Input: []byte("33")}), fails)
				time.Sleep(time.Hour)
				e.cfg.Results, e.cfg.Hold = &full{room: 1}, time.Hour
				rep, err := e.replay(func(_ context.Context, it batch.Item) ([]byte, error) {
					switch it.ID {
					case "first":
						return []byte("fine"), nil
					case "late":
						time.Sleep(time.Minute)
						return []byte("fine"), c.late
					}
					time.Sleep(time.Second)
					return nil, &refusal{by: "breaker", until: time.Now().Add(2 * time.Hour)}
				}, deadletter.Options{})
				if rep.Exit != c.exit || rep.Done != 1 || rep.Pending != 2 || c.exit == 5 && !errors.Is(err, errDisk) {
					t.Errorf("%v, %v", rep, err)
				}
			})
		})
	}
}
