package batch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter/batch"
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
		if len(e.calls) != 4 {
			t.Errorf("calls %v: want none after the stop", e.calls)
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
}
