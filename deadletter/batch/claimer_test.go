package batch_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// claims notes by whom letters are claimed.
type claims struct {
	deadletter.Store
	by string
}

func (c *claims) Claim(ctx context.Context, req deadletter.ClaimReq) ([]deadletter.Claim, error) {
	c.by = req.By
	return c.Store.Claim(ctx, req)
}

// The lock of the folder tells that a replay in it is dead: its letters are not
// waited for. One that kills the process each time is quarantined all the same.
func TestReplayAfterAKilledOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(items(3), fails)
		time.Sleep(time.Hour)
		store := &claims{Store: e.store}
		replay := func(fn func(context.Context, batch.Item) ([]byte, error), o deadletter.Options) counts {
			rep, err := batch.Replay(t.Context(), e.cfg, store, e.handle(fn), o)
			rep, _ = e.agreed("replay.json", rep, err)
			return of(rep)
		}
		only := func(item string) deadletter.Filter {
			return deadletter.Filter{IDs: []string{deadletter.ID("night", item)}}
		}
		replay(fails, deadletter.Options{Filter: only("item-000")}) // to learn the name
		by := store.by
		kill := func(by, item string) {
			c, err := e.store.Claim(t.Context(), deadletter.ClaimReq{By: by, Filter: only(item)})
			if err != nil || len(c) != 1 {
				t.Fatal(c, err)
			}
		}
		kill(by+"0", "item-001") // another pid
		kill(strings.Replace(by, "-", "-0", 1), "item-002")
		if diff := cmp.Diff(replay(nil, deadletter.Options{}), counts{Exit: 2, Total: 3, Done: 2, Pending: 1, Calls: 2}); diff != "" {
			t.Errorf("after a kill (-got +want):\n%s", diff)
		}
		// A letter that kills the process is not replayed for ever.
		time.Sleep(time.Hour)
		e.calls = nil
		kill(by, "item-002")
		if diff := cmp.Diff(replay(nil, deadletter.Options{MaxReplays: 1}), counts{Exit: 4, Total: 1, Dead: 1}); diff != "" || len(e.calls) > 0 {
			t.Errorf("after the last kill (-got +want):\n%s", diff)
		}
		if n, state := e.replays("item-002"); state != deadletter.Quarantined {
			t.Errorf("replayed %d times, %s", n, state)
		}
	})
}
