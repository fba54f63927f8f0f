package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// Hold 0: the first refusal ends the run, its item is pending and not dead.
func TestRefusalStops(t *testing.T) {
	t.Parallel()
	for by, exit := range map[string]int{"breaker": 2, "pacer": 2, "budget": 3, "mine": 2, "usage": 2} {
		stoppedBy := by
		if by == "usage" { // an end of the run's own, and with another code
			stoppedBy = "guard"
		}
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			n := 0
			rep, err := e.run(items(40), func(context.Context, batch.Item) ([]byte, error) {
				e.mu.Lock()
				n++
				refuse := n > 10
				e.mu.Unlock()
				time.Sleep(time.Second)
				if refuse {
					return nil, fmt.Errorf("item: %w", &refusal{by: by})
				}
				return []byte("fine"), nil
			})
			if diff := cmp.Diff(of(rep), counts{Exit: exit, Total: 40, Done: 10, Pending: 30, Calls: 10}); diff != "" {
				t.Errorf("%s (-got +want):\n%s", by, diff)
			}
			var r *refusal
			if !errors.As(err, &r) || rep.StoppedBy != stoppedBy || rep.Refusal == "" || len(e.calls) > 14 {
				t.Errorf("%s: error %v, stopped by %q, %d tried", by, err, rep.StoppedBy, len(e.calls))
			}
			if s := e.letters.Stats(); s.Dead != 0 {
				t.Errorf("%s: %d letters of items that were never sent", by, s.Dead)
			}
		})
	}
}

// Hold > 0: the run waits for the breaker, sends the cheapest item as its probe,
// and a failed probe is not chosen again while others are pending.
func TestHoldThroughAnOutage(t *testing.T) {
	t.Parallel()
	for _, retried := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { holdThroughAnOutage(t, retried) })
	}
}

// holdThroughAnOutage runs in a bubble. When retried a failed call is followed by
// another at once, as a retry inside the handle makes it.
func holdThroughAnOutage(t *testing.T, retried bool) {
	e := newEnv(t)
	e.cfg.Hold = time.Hour
	e.cfg.Workers = 8
	f := &fuse{after: 5, cooldown: time.Minute}
	e.cfg.Gauges = func() batch.Gauges { f.mu.Lock(); defer f.mu.Unlock(); return batch.Gauges{Trips: f.trips} }
	begin := time.Now()
	down := func() bool {
		d := time.Since(begin)
		return d > 10*time.Second && d < 10*time.Minute
	}
	var its []batch.Item
	for i := range 200 {
		its = append(its, batch.Item{ID: fmt.Sprintf("item-%03d", i), Input: make([]byte, 1000-i)})
	}
	rep, _ := e.run(list(its...), func(ctx context.Context, it batch.Item) ([]byte, error) {
		send := func() error {
			time.Sleep(time.Second)
			if down() {
				return statusError(503)
			}
			return nil
		}
		err := f.do(ctx, it.ID, send)
		if err != nil && retried {
			err = f.do(ctx, it.ID, send)
		}
		return []byte("fine"), err
	})
	// Those that failed before it opened, eight at once and four that were
	// begun between its first and its fifth failure, are dead: nobody could
	// know yet.
	if rep.Exit == 0 == (rep.Dead > 0) || rep.Dead > 12 || rep.Pending != 0 || rep.Done+rep.Dead != 200 {
		t.Errorf("%v\nwant all but a few done", rep)
	}
	if len(f.probes) < 9 || len(f.probes) > 11 {
		t.Errorf("%d probes in ten minutes", len(f.probes))
	}
	if u := slices.Compact(slices.Sorted(slices.Values(f.probes))); len(u) != len(f.probes) {
		t.Errorf("an item was a probe twice: %v", f.probes)
	}
	// The cheapest of what was left: the ones with the highest numbers.
	if !slices.IsSortedFunc(f.probes, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("probes %v: want the cheapest first", f.probes)
	}
	for _, id := range f.probes {
		if r, err := e.letters.Get(t.Context(), id); err == nil {
			t.Errorf("%s paid for the outage: %v", id, r.Err)
		}
	}
	if rep.Retries != rep.Calls-200 {
		t.Errorf("%d retries of %d calls for 200 items", rep.Retries, rep.Calls)
	}
	if rep.Trips != 1 {
		t.Errorf("%d trips", rep.Trips)
	}
}

// The only item left fails as a probe, again and again: it stays pending.
func TestLastItemIsAProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Hold, e.cfg.Patience = 10*time.Minute, -1
		f := &fuse{after: 1, cooldown: time.Minute, open: true, until: time.Now().Add(time.Minute)}
		rep, _ := e.run(items(1), func(ctx context.Context, it batch.Item) ([]byte, error) {
			return nil, f.do(ctx, it.ID, func() error { return statusError(500) })
		})
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 1, Pending: 1, Calls: len(f.probes)}); diff != "" || len(f.probes) < 8 {
			t.Errorf("%d probes (-got +want):\n%s", len(f.probes), diff)
		}
		if rep.Seconds > 601 {
			t.Errorf("held for %v s", rep.Seconds)
		}
	})
}

// What the refusal says to be too long is not waited for, nor what says nothing.
func TestHoldIsNotInVain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		refusal func(begin time.Time) error
		exit    int
		seconds float64
	}{
		{"until tomorrow", func(b time.Time) error { return &refusal{by: "budget", until: b.Add(9 * time.Hour)} }, 3, 0},
		{"says nothing", func(time.Time) error { return silent("breaker") }, 2, 0},
		{"only a time", func(b time.Time) error { return timed{b.Add(20 * time.Minute)} }, 0, 1200},
		{"pointless", func(b time.Time) error {
			return &refusal{by: "breaker", await: func(context.Context) error { return errors.New("closed for good") }}
		}, 2, 0},
		{"never lifts", func(b time.Time) error {
			return &refusal{by: "breaker", await: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		}, 2, 1800},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.cfg.Hold, e.cfg.Patience = 30*time.Minute, -1
				begin := time.Now()
				rep, _ := e.run(items(6), func(context.Context, batch.Item) ([]byte, error) {
					if time.Since(begin) < 20*time.Minute {
						return nil, c.refusal(begin)
					}
					return []byte("fine"), nil
				})
				if rep.Exit != c.exit || rep.Seconds < c.seconds || rep.Seconds > c.seconds+2 || rep.Dead != 0 {
					t.Errorf("%v after %v s, want exit %d after %v s", rep, rep.Seconds, c.exit, c.seconds)
				}
			})
		})
	}
}

type silent string

func (s silent) Error() string     { return string(s) }
func (s silent) RefusedBy() string { return string(s) }

type timed struct{ at time.Time }

func (timed) Error() string                { return "timed" }
func (timed) RefusedBy() string            { return "breaker" }
func (t timed) RetryAt() (time.Time, bool) { return t.at, true }

// A refusal that lifts at once and comes back is not asked for in a tight loop.
func TestHoldDoesNotSpin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Hold, e.cfg.Patience = 10*time.Minute, -1
		rep, _ := e.run(items(3), func(context.Context, batch.Item) ([]byte, error) {
			return nil, &refusal{by: "breaker", await: func(context.Context) error { return nil }}
		})
		if rep.Exit != 2 || len(e.calls) > 40 {
			t.Errorf("exit %d, asked %d times in ten minutes", rep.Exit, len(e.calls))
		}
	})
}

func TestRefusedKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(items(50), func(context.Context, batch.Item) ([]byte, error) { return nil, statusError(401) })
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 50, Pending: 50, Calls: 3}); diff != "" {
			t.Errorf("report (-got +want):\n%s", diff)
		}
	})
	// The handle's error does not tell the status, but the retry inside has.
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(items(50), func(ctx context.Context, it batch.Item) ([]byte, error) {
			call.From(ctx).Item.Fail(statusError(401))
			return nil, errors.New("no summary")
		})
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 50, Pending: 50, Calls: 3}); diff != "" || rep.StoppedBy != "auth" {
			t.Errorf("stopped by %q (-got +want):\n%s", rep.StoppedBy, diff)
		}
	})
	// What is said in other words: a proxy's key, a quota that is used up.
	for _, refused := range []error{statusError(407), quotaError{modelapi.Quota}, quotaError{modelapi.QuotaPerDay}} {
		for _, noted := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				rep, _ := e.run(items(50), func(ctx context.Context, it batch.Item) ([]byte, error) {
					if noted {
						call.From(ctx).Item.Fail(refused)
						return nil, nil // the handle drops it
					}
					return nil, refused
				})
				if rep.StoppedBy != "auth" || rep.Pending != 50 || rep.Calls != 3 {
					t.Errorf("%v, noted %v: %v by %q", refused, noted, rep, rep.StoppedBy)
				}
			})
		}
	}
	// A breaker is quick to open for them.
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(items(50), func(context.Context, batch.Item) ([]byte, error) {
			if len(e.calls) == 1 {
				return nil, statusError(401)
			}
			return nil, &refusal{by: "breaker"}
		})
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 50, Pending: 50, Calls: 1}); diff != "" || rep.StoppedBy != "auth" {
			t.Errorf("stopped by %q (-got +want):\n%s", rep.StoppedBy, diff)
		}
	})
	// Or for an outage, in which the retry inside meets it.
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(items(50), func(ctx context.Context, it batch.Item) ([]byte, error) {
			if len(e.calls) == 1 {
				return nil, statusError(403)
			}
			call.From(ctx).Item.Sent()
			return nil, &refusal{by: "breaker"}
		})
		if rep.StoppedBy != "breaker" || rep.Calls != 2 {
			t.Errorf("stopped by %q after %d calls", rep.StoppedBy, rep.Calls)
		}
	})
	// One item that this key may not see does not end the run.
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(items(50), func(_ context.Context, it batch.Item) ([]byte, error) {
			time.Sleep(time.Second)
			if it.ID == "item-020" {
				return nil, statusError(403)
			}
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 50, Done: 49, Pending: 1, Calls: 51}); diff != "" {
			t.Errorf("report (-got +want):\n%s", diff)
		}
	})
}

// quotaError is an answer 429 with a word about the account.
type quotaError struct{ class modelapi.Class }

func (q quotaError) Error() string             { return "429: " + q.class.String() }
func (q quotaError) StatusCode() int           { return 429 }
func (q quotaError) Verdict() modelapi.Verdict { return modelapi.Verdict{Class: q.class, Status: 429} }

func TestUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Until = time.Now().Add(90 * time.Second)
		rep, _ := e.run(items(100), func(context.Context, batch.Item) ([]byte, error) {
			time.Sleep(time.Minute)
			return []byte("fine"), nil
		})
		// One alone, then four that began before and ended after.
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 100, Done: 5, Pending: 95, Calls: 5}); diff != "" || rep.StoppedBy != "until" {
			t.Errorf("stopped by %q (-got +want):\n%s", rep.StoppedBy, diff)
		}
		e.cfg.Until = time.Now()
		if rep, _ := e.run(items(5), nil); rep.Exit != 0 || rep.Done != 5 {
			t.Errorf("with nothing to start: %v", rep)
		}
	})
}

func TestPatience(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		patience time.Duration
		hangFrom int // the item from which on the upstream hangs
		want     time.Duration
	}{
		{"before the first", 0, 0, 5 * time.Minute},
		{"after some", 0, 5, time.Hour},
		{"own", time.Minute, 5, time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.cfg.Patience, e.cfg.Workers = c.patience, 1
				rep, _ := e.run(items(20), func(ctx context.Context, it batch.Item) ([]byte, error) {
					if it.ID >= fmt.Sprintf("item-%03d", c.hangFrom) {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return []byte("fine"), nil
				})
				want := counts{Exit: 2, Total: int(rep.Total), Done: c.hangFrom, Pending: int(rep.Total) - c.hangFrom, Calls: c.hangFrom + 1}
				if diff := cmp.Diff(of(rep), want); diff != "" || rep.StoppedBy != "patience" {
					t.Errorf("stopped by %q (-got +want):\n%s", rep.StoppedBy, diff)
				}
				if d := time.Duration(rep.Seconds * float64(time.Second)); d < c.want+30*time.Second || d > c.want+32*time.Second {
					t.Errorf("ended after %v, want %v and the grace", d, c.want)
				}
			})
		})
	}
	// A slow iterator with nothing in flight is not the upstream's fault, nor where
	// an item waits for another to be the probe.
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(func(yield func(batch.Item) bool) {
			yield(batch.Item{ID: "early"})
			time.Sleep(3 * time.Hour)
			yield(batch.Item{ID: "late"})
		}, func(context.Context, batch.Item) ([]byte, error) {
			if len(e.calls) == 1 {
				return nil, statusError(500)
			}
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(of(rep), counts{Total: 2, Done: 2, Calls: 3}); diff != "" {
			t.Errorf("report (-got +want):\n%s", diff)
		}
	})
}
