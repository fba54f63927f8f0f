package batch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// A letter that the replay may not claim is an item without a result.
func TestReplayCountsWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(items(6), fails)
		other, err := deadletter.New(deadletter.Config{Name: "day", Store: e.store})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Put(t.Context(), deadletter.Record{ItemID: "of another queue"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		claim := func(by, item string) deadletter.Token {
			c, err := e.store.Claim(t.Context(), deadletter.ClaimReq{By: by, Filter: deadletter.Filter{IDs: []string{deadletter.ID("night", item)}}})
			if err != nil || len(c) != 1 {
				t.Fatal(c, err)
			}
			return c[0].Token
		}
		claim("host:1", "item-000")
		claim("host:1", "item-001")
		claim("host:2", "item-002")
		if err := e.store.Resolve(t.Context(), claim("host:3", "item-003"), deadletter.Outcome{Verb: deadletter.Quarantine}); err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
		rep, err := e.replay(nil, deadletter.Options{})
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 6, Done: 2, Dead: 1, Pending: 3, Calls: 2}); diff != "" || rep.DeadBefore != 1 {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
		if diff := cmp.Diff(rep.PendingItems, []string{"item-000", "item-001", "item-002"}); diff != "" || rep.DeadItems[0] != "item-003" {
			t.Errorf("dead %v, pending (-got +want):\n%s", rep.DeadItems, diff)
		}
		text := strings.Join(rep.Warnings, "\n")
		for _, want := range []string{"claimed by host:1 until " + until + ", who replays them or was killed: 2", "claimed by host:2 until " + until, "names that state: 1"} {
			if !strings.Contains(text, want) {
				t.Errorf("the warnings do not say %q: %s", want, text)
			}
		}

		// Asked for one that is claimed: it is there, and has no result.
		rep, err = e.replay(nil, deadletter.Options{Filter: deadletter.Filter{IDs: []string{deadletter.ID("night", "item-000")}}})
		if diff := cmp.Diff(of(rep), counts{Exit: 2, Total: 1, Pending: 1}); diff != "" {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
		// The leases have run out. The quarantined one is asked for by its state.
		time.Sleep(time.Hour)
		rep, err = e.replay(nil, deadletter.Options{})
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 4, Done: 3, Dead: 1, Calls: 3}); diff != "" {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
		rep, err = e.replay(nil, deadletter.Options{Filter: deadletter.Filter{States: []deadletter.State{deadletter.Quarantined}}})
		if diff := cmp.Diff(of(rep), counts{Total: 1, Done: 1, Calls: 1}); diff != "" {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
	})
}

// unlisted is a store whose letters cannot be counted.
type unlisted struct{ deadletter.Store }

func (unlisted) List(context.Context, deadletter.Filter) iter.Seq2[deadletter.Record, error] {
	return func(yield func(deadletter.Record, error) bool) { yield(deadletter.Record{}, errDisk) }
}

// What could not be counted is not complete.
func TestReplayCannotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(items(3), fails)
		time.Sleep(time.Hour)
		rep, err := batch.Replay(t.Context(), e.cfg, unlisted{e.store}, e.handle(nil), deadletter.Options{})
		rep, err = e.agreed("replay.json", rep, err)
		if rep.Exit != 5 || rep.Done != 3 || !rep.Uncounted || !errors.Is(err, errDisk) {
			t.Errorf("%v, uncounted %v, %v", rep, rep.Uncounted, err)
		}
		// There are none any more, which cannot be known.
		rep, err = batch.Replay(t.Context(), e.cfg, unlisted{e.store}, e.handle(nil), deadletter.Options{})
		if rep, err = e.agreed("replay.json", rep, err); rep.Exit != 5 || !errors.Is(err, errDisk) {
			t.Errorf("%v, %v", rep, err)
		}
	})
}

// The report of the night is still there: its replayed letter is not the night.
func TestReplayHasItsOwnReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.cfg.Workers = 1
		n := 0
		e.run(items(400), func(ctx context.Context, it batch.Item) ([]byte, error) {
			switch n++; {
			case n == 3:
				return fails(ctx, it)
			case n > 10:
				return nil, &refusal{by: "budget"}
			}
			return []byte("fine"), nil
		})
		time.Sleep(time.Hour)
		rep, err := e.replay(nil, deadletter.Options{})
		if diff := cmp.Diff(of(rep), counts{Total: 1, Done: 1, Calls: 1}); diff != "" || err != nil {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
		if night := e.written(); night.Complete || night.Exit != 3 || night.Pending != 390 {
			t.Errorf("the night is now %v", night)
		}
	})
}

// Whoever watches from outside sees a long replay live.
func TestReplayIsWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(items(6), fails)
		time.Sleep(time.Hour)
		var progress bytes.Buffer
		e.cfg.Progress, e.cfg.Heartbeat = &progress, filepath.Join(t.TempDir(), "beat")
		var done []int
		_, err := e.replay(func(_ context.Context, it batch.Item) ([]byte, error) {
			time.Sleep(5 * time.Minute)
			b, err := os.ReadFile(e.cfg.Heartbeat)
			var beat struct {
				At   time.Time
				Done int
			}
			if err == nil {
				err = json.Unmarshal(b, &beat)
			}
			if age := time.Since(beat.At); err != nil || age > 16*time.Second {
				t.Errorf("a heartbeat %v ago, %v", age, err)
			}
			done = append(done, beat.Done)
			if it.ID == "item-003" {
				return nil, statusError(400)
			}
			return []byte("fine"), nil
		}, deadletter.Options{Concurrency: 1})
		if diff := cmp.Diff(done, []int{0, 1, 2, 3, 3, 4}); diff != "" {
			t.Errorf("done at the heartbeats, %v (-got +want):\n%s", err, diff)
		}
		lines := slices.Collect(strings.Lines(progress.String()))
		if n := len(lines); n < 59 || n > 61 {
			t.Errorf("%d lines of progress in half an hour", n)
		}
		for i, want := range map[int]string{0: "0 of 6 items, 0 calls, 1 in flight\n", len(lines) - 1: "6 of 6 items, 1 dead, 0.00333/s, 6 calls (1.20 per item done), 0 in flight\n"} {
			if diff := cmp.Diff(lines[i], want); diff != "" {
				t.Errorf("line %d (-got +want):\n%s", i, diff)
			}
		}
	})
}
