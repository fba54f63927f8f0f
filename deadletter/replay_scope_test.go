package deadletter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
)

func TestReplayDryRun(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	fill(t, store, 14)
	before := summary(t, store)
	rep, err := deadletter.Replay(t.Context(), store, nil, deadletter.Options{DryRun: true})
	if err != nil || rep.Matched != 14 || rep.Remaining != 14 || rep.EstTokens != 2*(10+11+12+13+14+15+16) || rep.Bytes != 14 ||
		len(rep.Groups) != 1 || rep.Groups[0].Count != 14 {
		t.Errorf("%+v, %v", rep, err)
	}
	if diff := cmp.Diff(summary(t, store), before); diff != "" {
		t.Error(diff)
	}
}

// A filter that matches nothing is an error (triggerdotdev/trigger.dev#4854);
// nothing at all to do is none.
func TestReplayOfNothing(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	if rep, err := deadletter.Replay(t.Context(), store, succeed, deadletter.Options{}); err != nil || rep.Matched != 0 {
		t.Errorf("an empty store: %+v, %v", rep, err)
	}
	put(t, store, "a", "p")
	for _, dry := range []bool{false, true} {
		_, err := deadletter.Replay(t.Context(), store, succeed, deadletter.Options{Filter: deadletter.Filter{Queue: "typo"}, DryRun: dry})
		if !errors.Is(err, deadletter.ErrNoMatch) {
			t.Errorf("dry %v: %v, want ErrNoMatch", dry, err)
		}
	}
	// What narrows nothing asks for nothing.
	for _, f := range []deadletter.Filter{
		{Limit: 5}, {After: deadletter.Cursor{ID: "x"}}, {States: []deadletter.State{}, IDs: []string{}, Statuses: []int{}, Labels: map[string]string{}},
	} {
		if rep, err := deadletter.Replay(t.Context(), deadletter.NewMemory(), succeed, deadletter.Options{Filter: f}); err != nil || rep.Matched != 0 {
			t.Errorf("%+v: %+v, %v", f, rep, err)
		}
	}
	// Every field that does is a question, and its answer is that there are none.
	at := time.Unix(1, 0)
	for _, f := range []deadletter.Filter{
		{Queue: "x"},
		{IDs: []string{"x"}},
		{States: []deadletter.State{deadletter.Quarantined}},
		{Signature: "x"},
		{Statuses: []int{418}},
		{Owner: "x"},
		{RunID: "x"},
		{Labels: map[string]string{"x": ""}},
		{Since: time.Now().Add(time.Hour)},
		{Until: at},
		{Due: at},
	} {
		if _, err := deadletter.Replay(t.Context(), deadletter.NewMemory(), succeed, deadletter.Options{Filter: f}); !errors.Is(err, deadletter.ErrNoMatch) {
			t.Errorf("%+v: %v, want ErrNoMatch", f, err)
		}
	}
	_, err := deadletter.Replay(t.Context(), nil, nil, deadletter.Options{
		Concurrency: -1, Max: -1, Rate: -1, Lease: 1, Order: 9, Filter: deadletter.Filter{States: []deadletter.State{deadletter.Acked}},
	})
	for _, word := range []string{"store", "Send", "Concurrency", "Max", "Rate", "Lease", "order", "acked"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}

// A cap is told (apache/rocketmq-dashboard#2155).
func TestReplayOfSome(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	fill(t, store, 250)
	rep, err := deadletter.Replay(t.Context(), store, succeed, deadletter.Options{Max: 100})
	if diff := cmp.Diff(rep, deadletter.Report{Matched: 250, Sent: 100, Acked: 100, Remaining: 150}, counts); diff != "" || !errors.Is(err, deadletter.ErrPartial) {
		t.Errorf("%v %s", err, diff)
	}
}

// A letter that is not to be sent, for no fault of its own, costs neither a place
// among Max nor a replay. Its claim is kept until the end: without it the letter
// would be the next again.
func TestReplayLeavesLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := deadletter.NewMemory()
		fill(t, store, 6)
		time.Sleep(time.Second)
		sent := map[string]int{}
		var results []deadletter.Verb
		rep, err := deadletter.Replay(t.Context(), store, func(_ context.Context, r deadletter.Record) error {
			sent[r.ItemID]++
			if r.ItemID < "item-0003" {
				return &call.Stays{Err: errors.New("no input")}
			}
			time.Sleep(time.Minute)
			return nil
		}, deadletter.Options{
			Max: 2, Concurrency: 1, Lease: 30 * time.Second,
			OnResult: func(r deadletter.Result) { results = append(results, r.Verb) },
		})
		if diff := cmp.Diff(rep, deadletter.Report{Matched: 6, Sent: 5, Acked: 2, Released: 3, Remaining: 4}, counts); diff != "" || !errors.Is(err, deadletter.ErrPartial) {
			t.Errorf("%v %s", err, diff)
		}
		if diff := cmp.Diff(sent, map[string]int{"item-0000": 1, "item-0001": 1, "item-0002": 1, "item-0003": 1, "item-0004": 1}); diff != "" {
			t.Errorf("sent (-got +want):\n%s", diff)
		}
		want := []deadletter.Verb{deadletter.Ack, deadletter.Ack, deadletter.Release, deadletter.Release, deadletter.Release}
		if diff := cmp.Diff(results, want); diff != "" {
			t.Errorf("results (-got +want):\n%s", diff)
		}
		r, err := store.Get(t.Context(), deadletter.ID("q", "item-0000"))
		if err != nil || r.State != deadletter.Dead || r.Replays != 0 || r.Failures != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestReplayWaitsForRetryAfter(t *testing.T) {
	t.Parallel()
	clk := clock.NewMock()
	store := memoryAt(t, clk)
	r := letter("later", "p")
	r.RetryAfter = clk.Now().Add(time.Hour)
	if err := store.Put(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	put(t, store, "now", "p")
	rep, err := deadletter.Replay(t.Context(), store, succeed, deadletter.Options{Clock: clk})
	if diff := cmp.Diff(rep, deadletter.Report{Matched: 2, Skipped: 1, Sent: 1, Acked: 1, Remaining: 1}, counts); diff != "" || !errors.Is(err, deadletter.ErrPartial) {
		t.Errorf("%v %s", err, diff)
	}
	rep, err = deadletter.Replay(t.Context(), store, succeed, deadletter.Options{Clock: clk, Early: true})
	if diff := cmp.Diff(rep, deadletter.Report{Matched: 1, Sent: 1, Acked: 1}, counts); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// Letters of another host, or from before this clock was set back, bear times
// that have not come. A replay that passed over them would call itself complete.
func TestReplayOfLettersFromAhead(t *testing.T) {
	t.Parallel()
	clk := clock.NewMock()
	store := memoryAt(t, clk)
	for id, ahead := range map[string]time.Duration{"now": 0, "a minute": time.Minute, "a day": 24 * time.Hour, "a year": 365 * 24 * time.Hour} {
		r := letter(id, "p")
		r.LastFailedAt = clk.Now().Add(ahead)
		if id == "a year" {
			r.Signature = "1:000000000000"
		}
		if err := store.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	later := letter("later", "p")
	later.LastFailedAt, later.RetryAfter = clk.Now().Add(time.Minute), clk.Now().Add(time.Hour)
	if err := store.Put(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	sent := map[string]int{}
	rep, err := deadletter.Replay(t.Context(), store, func(_ context.Context, r deadletter.Record) error {
		if sent[r.ItemID]++; r.ItemID == "a minute" {
			return errors.New("no")
		}
		return nil
	}, deadletter.Options{Clock: clk, Concurrency: 1})
	if diff := cmp.Diff(rep, deadletter.Report{Matched: 4, Skipped: 1, Sent: 3, Acked: 2, Returned: 1, Remaining: 1}, counts); diff != "" || !errors.Is(err, deadletter.ErrPartial) {
		t.Errorf("%v %s", err, diff)
	}
	if diff := cmp.Diff(sent, map[string]int{"now": 1, "a minute": 1, "a day": 1}); diff != "" {
		t.Errorf("sent (-got +want):\n%s", diff)
	}
}

func TestReplayIsCancelled(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	fill(t, store, 50)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("operator")
	n := 0
	rep, err := deadletter.Replay(ctx, store, func(ctx context.Context, r deadletter.Record) error {
		if n++; n == 3 {
			cancel(stop)
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}, deadletter.Options{Concurrency: 1})
	if !errors.Is(err, stop) {
		t.Errorf("%v, want the cause", err)
	}
	if diff := cmp.Diff(rep, deadletter.Report{Matched: 50, Sent: 3, Acked: 2, Released: 1, Remaining: 48}, counts); diff != "" {
		t.Error(diff)
	}
}

// unack is a store that breaks after a send.
type unack struct{ deadletter.Store }

func TestReplayTellsOfABrokenStore(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	fill(t, store, 10)
	rep, err := deadletter.Replay(t.Context(), unack{store}, succeed, deadletter.Options{})
	if !errors.Is(err, errFull) || rep.Acked != 0 || rep.Sent != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
}
