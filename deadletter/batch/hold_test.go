package batch_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/call"
)

// Hold is counted anew after every item done: two outages, each nearly as long,
// end by themselves.
func TestHoldIsCountedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Hold, e.cfg.Patience, e.cfg.Workers = time.Hour, -1, 1
		rep, _ := e.run(items(3), func(context.Context, batch.Item) ([]byte, error) {
			if n := len(e.calls); n == 1 || n == 3 {
				return nil, &refusal{by: "breaker", until: time.Now().Add(40 * time.Minute)}
			}
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(of(rep), counts{Total: 3, Done: 3, Calls: 3}); diff != "" || rep.Seconds != 80*60 {
			t.Errorf("after %v s by %q (-got +want):\n%s", rep.Seconds, rep.StoppedBy, diff)
		}
	})
}

// A slow worker brings home a refusal that the others have waited out: it is not
// the end of the run.
func TestOldRefusalDoesNotHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Hold = 30 * time.Minute
		begin := time.Now()
		rep, _ := e.run(items(3), func(_ context.Context, it batch.Item) ([]byte, error) {
			switch n := time.Since(begin); {
			case it.ID == "item-001" && n < 10*time.Second:
				return nil, &refusal{by: "breaker", until: begin.Add(10 * time.Second)}
			case it.ID == "item-002" && n < 10*time.Second:
				time.Sleep(20 * time.Second)
				return nil, &refusal{by: "breaker", until: begin.Add(9 * time.Hour)}
			}
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(of(rep), counts{Total: 3, Done: 3, Calls: 3}); diff != "" || rep.Seconds != 20 {
			t.Errorf("after %v s by %q (-got +want):\n%s", rep.Seconds, rep.StoppedBy, diff)
		}
	})
}

// What was in flight when the breaker stopped the run meets an empty budget: that
// is graver.
func TestRefusalsAfterTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, _ := e.run(items(4), func(_ context.Context, it batch.Item) ([]byte, error) {
			switch it.ID {
			case "item-001":
				return nil, &refusal{by: "breaker"}
			case "item-002":
				time.Sleep(time.Second)
				return nil, &refusal{by: "budget"}
			case "item-003":
				time.Sleep(time.Second)
				return []byte("n/a"), nil // nothing is sent any more, so not twice
			}
			return []byte("fine"), nil
		})
		if rep.Exit != 3 || rep.StoppedBy != "breaker" || rep.State != "stopped: the budget refuses" {
			t.Errorf("exit %d, by %q, %q", rep.Exit, rep.StoppedBy, rep.State)
		}
		if len(e.calls) != 4 || rep.Dead != 0 {
			t.Errorf("calls %v, %d dead: want none after the stop", e.calls, rep.Dead)
		}
	})
}

// Time in a hold has a known cause: it is Hold that bounds it, not Patience.
func TestHoldIsNotIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Hold = 2 * time.Hour
		lifts := time.Now().Add(90 * time.Minute)
		refuse := func(context.Context, batch.Item) ([]byte, error) {
			if time.Now().Before(lifts) {
				return nil, &refusal{by: "budget", until: time.Now().Add(10 * time.Minute)}
			}
			return []byte("fine"), nil
		}
		rep, err := e.run(items(9), refuse)
		if diff := cmp.Diff(of(rep), counts{Total: 9, Done: 9, Calls: 9}); diff != "" {
			t.Errorf("by %q, %v (-got +want):\n%s", rep.StoppedBy, err, diff)
		}
		// What ends the run during the hold leaves what it waited for to be told.
		lifts, e.cfg.Until, e.cfg.Version = lifts.Add(2*time.Hour), time.Now().Add(5*time.Minute), "2"
		rep, err = e.run(items(9), refuse)
		if rep.Exit != batch.ExitBudget || rep.StoppedBy != "until" || rep.Seconds > 302 {
			t.Errorf("%v by %q, %v", rep, rep.StoppedBy, err)
		}
	})
	// A call that hangs after the stop is given up.
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, err := e.run(items(9), func(ctx context.Context, it batch.Item) ([]byte, error) {
			switch it.ID {
			case "item-000":
				return []byte("fine"), nil
			case "item-001":
				return nil, &refusal{by: "budget"}
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if rep.Exit != batch.ExitBudget || rep.Pending != 8 || rep.Seconds > 3632 {
			t.Errorf("%v after %v s, %v", rep, rep.Seconds, err)
		}
	})
}

// A refusal that breaks when it is asked to wait ends the hold.
func TestAwaitBreaks(t *testing.T) {
	t.Parallel()
	for _, how := range []func(){func() { panic("no waiting") }, runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			e.cfg.Hold = time.Hour
			rep, err := e.run(items(3), func(context.Context, batch.Item) ([]byte, error) {
				return nil, &refusal{by: "breaker", await: func(context.Context) error { how(); return nil }}
			})
			if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 3, Pending: 3}); diff != "" {
				t.Errorf("%v (-got +want):\n%s", err, diff)
			}
		})
	}
}

// A handle that drops the error and returns nothing does not bury what a guard
// has refused.
func TestHandleDropsTheRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Hold = time.Hour
		f := &fuse{after: 3, cooldown: time.Minute}
		begin, sent := time.Now(), 0
		rep, err := e.run(items(60), func(ctx context.Context, it batch.Item) (data []byte, _ error) {
			_ = f.do(ctx, it.ID, func() error {
				e.mu.Lock()
				sent++
				e.mu.Unlock()
				time.Sleep(time.Second)
				if d := time.Since(begin); d > 5*time.Second && d < 10*time.Minute {
					call.From(ctx).Item.Fail(statusError(503))
					return statusError(503)
				}
				call.From(ctx).Item.Fail(nil)
				data = []byte("fine")
				return nil
			})
			return data, nil
		})
		// Those in flight when it opened, and begun since its first failure.
		if rep.Dead > 6 || rep.Done+rep.Dead != 60 || int(rep.Calls) != sent {
			t.Errorf("%d calls were sent: %v, %v", sent, rep, err)
		}
		for _, id := range rep.DeadItems {
			if r, err := e.letters.Get(t.Context(), id); err != nil || r.Status != 503 {
				t.Errorf("the letter of %s has status %d, %v", id, r.Status, err)
			}
		}
	})
}

// Refused keys end the run when they come in a row, and not over a night.
func TestRefusedKeysInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Workers = 1
		met := map[string]bool{}
		rep, _ := e.run(items(50), func(_ context.Context, it batch.Item) ([]byte, error) {
			if it.ID[len(it.ID)-1] == '5' && !met[it.ID] {
				met[it.ID] = true
				return nil, statusError(403)
			}
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(of(rep), counts{Total: 50, Done: 50, Calls: 55}); diff != "" {
			t.Errorf("by %q (-got +want):\n%s", rep.StoppedBy, diff)
		}
	})
	// Another answer between them is none of the key's, though its item is dead.
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Workers = 1
		rep, _ := e.run(items(50), func(_ context.Context, it batch.Item) ([]byte, error) {
			if it.ID[len(it.ID)-1] == '5' {
				return nil, statusError(403)
			}
			return nil, statusError(400)
		})
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 50, Dead: 45, Pending: 5, Calls: 55}); diff != "" || rep.StoppedBy != "" {
			t.Errorf("by %q (-got +want):\n%s", rep.StoppedBy, diff)
		}
	})
}

// However a run was stopped, Patience ends a call in flight that hangs.
func TestStoppedRunHasPatience(t *testing.T) {
	t.Parallel()
	for by, exit := range map[string]int{"breaker": 2, "until": 2, "lost": 5} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			e.cfg.Patience = 10 * time.Minute
			switch by {
			case "until":
				e.cfg.Until = time.Now().Add(1500 * time.Millisecond)
			case "lost":
				e.cfg.Results = failing{store: errDisk}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // to see it fail
			defer cancel()
			rep, _ := e.checked(batch.Run(ctx, e.cfg, items(20), e.handle(func(ctx context.Context, it batch.Item) ([]byte, error) {
				switch it.ID {
				case "item-000":
					return nil, statusError(400) // goes alone
				case "item-001":
					<-ctx.Done()
					return nil, ctx.Err()
				}
				time.Sleep(time.Second)
				if by == "breaker" {
					return nil, &refusal{by: by}
				}
				return []byte("fine"), nil
			})))
			if rep.Exit != exit || rep.StoppedBy != by || rep.Seconds < 630 || rep.Seconds > 635 {
				t.Errorf("%s: %v by %q after %v s, want it after the patience and the grace", by, rep, rep.StoppedBy, rep.Seconds)
			}
		})
	}
}
