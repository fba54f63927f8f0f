package batch_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
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

// What is left dead in each round is one letter.
func TestReplayCountsOnceInAllRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(list(batch.Item{ID: "bad", Bad: errDisk}, batch.Item{ID: "good", Input: []byte("1")}), fails)
		time.Sleep(time.Hour)
		e.calls, e.cfg.Hold = nil, time.Hour
		rep, err := e.replay(func(context.Context, batch.Item) ([]byte, error) {
			if len(e.calls) < 4 {
				return nil, &refusal{by: "breaker", until: time.Now().Add(time.Minute)}
			}
			return []byte("fine"), nil
		}, deadletter.Options{})
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 2, Done: 1, Dead: 1, Calls: 1}); diff != "" {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
	})
}

// A letter whose key is refused is asked once, and not in each round.
func TestReplayAsksAKeyOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(list(batch.Item{ID: "key", Input: []byte("1")}, batch.Item{ID: "good", Input: []byte("22")}), fails)
		time.Sleep(time.Hour)
		e.calls, e.cfg.Hold = nil, time.Hour
		rep, err := e.replay(func(_ context.Context, it batch.Item) ([]byte, error) {
			switch {
			case it.ID == "key":
				return nil, statusError(403)
			case len(e.calls) < 5:
				return nil, &refusal{by: "breaker", until: time.Now().Add(time.Minute)}
			}
			return []byte("fine"), nil
		}, deadletter.Options{Concurrency: 1})
		if diff := cmp.Diff(e.calls, []string{"key", "good", "good", "good", "good"}); diff != "" {
			t.Errorf("calls (-got +want):\n%s", diff)
		}
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 2, Done: 1, Pending: 1, Calls: 2}); diff != "" {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
	})
}

// A letter that fails as the probe, and meets the breaker that it has opened, does
// not keep the others from being the next. When none is left it is tried again, until
// the waits are Hold.
func TestReplayOfFailedProbes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		poison string        // the item that always fails
		outage time.Duration // in which all fail
		want   counts
	}{
		{"a poison letter", "item-000", 0, counts{Exit: 2, Total: 4, Done: 3, Pending: 1, Calls: 36}},
		{"an outage", "", 5*time.Minute - time.Second, counts{Total: 4, Done: 4, Calls: 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.run(list(
					batch.Item{ID: "item-000", Input: []byte("1")}, batch.Item{ID: "item-001", Input: []byte("22")},
					batch.Item{ID: "item-002", Input: []byte("333")}, batch.Item{ID: "item-003", Input: []byte("4444")},
				), fails)
				time.Sleep(time.Hour)
				e.calls, e.cfg.Hold = nil, time.Hour
				begin, f := time.Now(), &fuse{after: 2, cooldown: 2 * time.Minute}
				rep, err := e.replay(func(ctx context.Context, it batch.Item) (data []byte, err error) {
					for range 3 { // a retry inside
						err = f.do(ctx, it.ID, func() error {
							if it.ID == c.poison || time.Since(begin) < c.outage {
								return statusError(503)
							}
							return nil
						})
						if !errors.Is(err, statusError(503)) {
							break
						}
					}
					return []byte("fine"), err
				}, deadletter.Options{})
				if diff := cmp.Diff(of(rep), c.want); diff != "" {
					t.Errorf("%v (-got +want):\n%s", err, diff)
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

// Whatever happens to its letters, a replay counts each once, acks what has a
// result and nothing else.
func TestReplayConserves(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			e := newEnv(t)
			const n = 30
			e.run(func(yield func(batch.Item) bool) {
				for it := range items(n) {
					if rnd.IntN(8) == 0 {
						it.Bad = errDisk
					}
					yield(it)
				}
			}, fails)
			time.Sleep(time.Hour)
			if _, err := e.store.Claim(t.Context(), deadletter.ClaimReq{N: rnd.IntN(3) + 1, By: "another", Lease: time.Duration(rnd.IntN(100)) * time.Minute}); err != nil {
				t.Fatal(err)
			}
			e.cfg.Hold = time.Duration(rnd.IntN(3)) * 10 * time.Minute
			if rnd.IntN(4) == 0 {
				time.AfterFunc(time.Duration(rnd.IntN(20))*time.Minute, func() { e.signals <- os.Interrupt })
			}
			var mu sync.Mutex
			rep, err := e.replay(func(ctx context.Context, it batch.Item) ([]byte, error) {
				mu.Lock()
				what, nap := rnd.IntN(40), time.Duration(rnd.IntN(90))*time.Second
				mu.Unlock()
				select {
				case <-time.After(nap):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				switch what {
				case 0:
					return nil, &refusal{by: "breaker", until: time.Now().Add(3 * time.Minute)}
				case 1:
					return nil, &refusal{by: "budget", until: time.Now().Add(time.Hour)}
				case 2, 3:
					return nil, statusError(401)
				case 4, 5, 6, 7:
					return nil, statusError(400)
				case 8, 9:
					return []byte("n/a"), nil
				}
				return []byte("fine"), nil
			}, deadletter.Options{MaxReplays: 1 + rnd.IntN(2)})
			states := map[deadletter.State]int64{}
			for r, err := range e.store.List(t.Context(), deadletter.Filter{States: []deadletter.State{
				deadletter.Dead, deadletter.Claimed, deadletter.Quarantined, deadletter.Acked,
			}}) {
				if err != nil {
					t.Fatal(err)
				}
				states[r.State]++
			}
			named := slices.Concat(rep.DeadItems, rep.PendingItems)
			slices.Sort(named)
			if rep.Total != n || rep.Done != states[deadletter.Acked] || stored(t, e) != int(rep.Done) || len(slices.Compact(named)) != n-int(rep.Done) || states[deadletter.Claimed] > 3 {
				t.Errorf("seed %d: %v, %d results, letters %v, named %v, %v", seed, rep, stored(t, e), states, named, err)
			}
		})
	}
}
