package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// counts compares reports without what Stats tells.
var counts = cmpopts.IgnoreFields(deadletter.Report{}, "Groups", "Bytes", "EstTokens")

func fill(t testing.TB, s deadletter.Writer, n int) {
	t.Helper()
	for i := range n {
		r := letter(fmt.Sprintf("item-%04d", i), "p")
		r.EstTokens = int64(10 + i%7)
		if err := s.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// memoryAt returns a store on a mock clock.
func memoryAt(t testing.TB, clk deadletter.Clock) *deadletter.Memory {
	t.Helper()
	m, err := deadletter.StoreConfig{Clock: clk}.Memory()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func succeed(context.Context, deadletter.Record) error { return nil }

// Several replays at once send each letter once (sidekiq/sidekiq#3436).
func TestReplayersShareTheLetters(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) (deadletter.Store, int){
		"memory": func(*testing.T) (deadletter.Store, int) { return deadletter.NewMemory(), 4400 },
		"journal": func(t *testing.T) (deadletter.Store, int) {
			return openOn(t, durabletest.NewDisk(1)), 1000
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, n := open(t)
			fill(t, store, n)
			var mu sync.Mutex
			sent := map[string]int{}
			var acked atomic.Int64
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					rep, err := deadletter.Replay(t.Context(), store, func(_ context.Context, r deadletter.Record) error {
						mu.Lock()
						sent[r.ItemID]++
						mu.Unlock()
						return nil
					}, deadletter.Options{})
					// What another one holds at the end is not left over.
					if err != nil {
						t.Errorf("%+v, %v", rep, err)
					}
					if rep.Sent != rep.Acked {
						t.Errorf("%+v", rep)
					}
					acked.Add(int64(rep.Acked))
				})
			}
			wg.Wait()
			if len(sent) != n || int(acked.Load()) != n {
				t.Errorf("%d letters sent, %d acked, want %d", len(sent), acked.Load(), n)
			}
			for item, k := range sent {
				if k != 1 {
					t.Errorf("%s was sent %d times", item, k)
				}
			}
		})
	}
}

// A replay has brakes: healthy for 20 letters, then failing, and the guard
// refuses. What was not tried is as before.
func TestReplayStopsWhenAGuardRefuses(t *testing.T) {
	t.Parallel()
	const threshold = 5
	store := deadletter.NewMemory()
	fill(t, store, 500)
	before := map[string]deadletter.Record{}
	for r := range store.List(t.Context(), deadletter.Filter{}) {
		before[r.ItemID] = r
	}
	var good, bad, refused atomic.Int64
	rep, err := deadletter.Replay(t.Context(), store, func(ctx context.Context, r deadletter.Record) error {
		if bad.Load() >= threshold {
			refused.Add(1)
			return fmt.Errorf("send: %w", refusal{"breaker"})
		}
		if good.Add(1) <= 20 {
			return nil
		}
		bad.Add(1)
		return hinted{}
	}, deadletter.Options{Concurrency: 4, MaxReplays: -1})
	if call.RefusedBy(err) != "breaker" || rep.StoppedBy != "breaker" {
		t.Errorf("%v, stopped by %q", err, rep.StoppedBy)
	}
	if rep.Acked != 20 || rep.Returned < threshold || rep.Returned >= threshold+4 || rep.Released != int(refused.Load()) ||
		rep.Sent != rep.Acked+rep.Returned+rep.Released || rep.Matched != 500 || rep.Remaining != 500-20-rep.Returned {
		t.Errorf("%+v", rep)
	}
	untouched := 0
	for r := range store.List(t.Context(), deadletter.Filter{}) {
		was := before[r.ItemID]
		if r.Failures > was.Failures {
			continue
		}
		r.ClaimSeq = 0
		if diff := cmp.Diff(r, was); diff != "" {
			t.Errorf("%s has changed: %s", r.ItemID, diff)
		}
		untouched++
	}
	if untouched != rep.Remaining {
		t.Errorf("%d letters are as before, want %d", untouched, rep.Remaining)
	}
}

// The first letter is the cheapest, and alone until one has succeeded.
func TestReplayProvesTheUpstreamFirst(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	for i, est := range []int64{50, 10, 30, 20, 40} {
		r := letter(fmt.Sprint("est-", est), "p")
		r.EstTokens = est
		r.LastFailedAt = time.Unix(int64(i), 0)
		if err := store.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	var order []string
	var mu sync.Mutex
	var now, most atomic.Int64
	boom := errors.New("boom")
	_, err := deadletter.Replay(t.Context(), store, func(_ context.Context, r deadletter.Record) error {
		n := now.Add(1)
		defer now.Add(-1)
		mu.Lock()
		defer mu.Unlock()
		order = append(order, r.ItemID)
		if len(order) <= 2 {
			most.Store(max(most.Load(), n))
			return boom
		}
		return nil
	}, deadletter.Options{})
	if err != nil || most.Load() != 1 {
		t.Errorf("%v; %d at once before the first success", err, most.Load())
	}
	if diff := cmp.Diff(order[:3], []string{"est-10", "est-20", "est-30"}); diff != "" {
		t.Error(diff)
	}
}

func TestReplayQuarantines(t *testing.T) {
	t.Parallel()
	clk := clock.NewMock()
	store := memoryAt(t, clk)
	put(t, store, "fails", "p")
	put(t, store, "kills", "p")
	sent := 0
	fail := func(context.Context, deadletter.Record) error { sent++; return errors.New("again") }
	only := func(item string) deadletter.Filter {
		return deadletter.Filter{IDs: []string{deadletter.ID("q", item)}}
	}
	for i := range 3 {
		rep, err := deadletter.Replay(t.Context(), store, fail, deadletter.Options{Filter: only("fails"), Clock: clk})
		want := deadletter.Report{Matched: 1, Sent: 1, Returned: 1}
		if i == 2 {
			want.Returned, want.Quarantined = 0, 1
		}
		if diff := cmp.Diff(rep, want, counts); diff != "" || err != nil {
			t.Errorf("replay %d: %v %s", i, err, diff)
		}
		clk.Add(time.Second)
	}
	if r, err := store.Get(t.Context(), deadletter.ID("q", "fails")); err != nil || r.State != deadletter.Quarantined || r.Failures != 4 ||
		!strings.Contains(r.Reason, "3 times") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := deadletter.Replay(t.Context(), store, fail, deadletter.Options{Filter: only("fails"), Clock: clk}); !errors.Is(err, deadletter.ErrNoMatch) {
		t.Errorf("a quarantined letter was replayed: %v", err)
	}
	f := only("fails")
	f.States = []deadletter.State{deadletter.Quarantined}
	if rep, err := deadletter.Replay(t.Context(), store, succeed, deadletter.Options{Filter: f, Clock: clk}); err != nil || rep.Acked != 1 {
		t.Errorf("asked for by name: %+v, %v", rep, err)
	}

	// Three processes died of this one: their claims ran out.
	for range 3 {
		if c, err := store.Claim(t.Context(), deadletter.ClaimReq{Lease: time.Second}); err != nil || len(c) != 1 {
			t.Fatal(c, err)
		}
		clk.Add(time.Second)
	}
	sent = 0
	rep, err := deadletter.Replay(t.Context(), store, fail, deadletter.Options{Clock: clk})
	if diff := cmp.Diff(rep, deadletter.Report{Matched: 1, Quarantined: 1}, counts); diff != "" || err != nil || sent != 0 {
		t.Errorf("%v, %d sent: %s", err, sent, diff)
	}
}

func TestReplayAtARate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := deadletter.NewMemory()
		fill(t, store, 10)
		time.Sleep(time.Second)
		start := time.Now()
		var at []time.Duration
		_, err := deadletter.Replay(t.Context(), store, func(context.Context, deadletter.Record) error {
			at = append(at, time.Since(start))
			return nil
		}, deadletter.Options{Rate: 2})
		if err != nil || len(at) != 10 {
			t.Fatalf("%d sent, %v", len(at), err)
		}
		for i, d := range at {
			if d != time.Duration(i)*500*time.Millisecond {
				t.Errorf("letter %d was sent after %v", i, d)
			}
		}
	})
}

// A slow send keeps its claim; one that has lost it is told to stop.
func TestReplayKeepsItsClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := deadletter.NewMemory()
		put(t, store, "slow", "p")
		time.Sleep(time.Second)
		rep, err := deadletter.Replay(t.Context(), store, func(ctx context.Context, r deadletter.Record) error {
			for range 10 {
				time.Sleep(time.Minute)
				if c, err := store.Claim(ctx, deadletter.ClaimReq{}); err != nil || len(c) > 0 {
					t.Errorf("claimed from under a send: %v, %v", c, err)
				}
			}
			return nil
		}, deadletter.Options{Lease: time.Minute})
		if err != nil || rep.Acked != 1 {
			t.Errorf("%+v, %v", rep, err)
		}

		put(t, store, "replaced", "old")
		time.Sleep(time.Second)
		rep, err = deadletter.Replay(t.Context(), store, func(ctx context.Context, r deadletter.Record) error {
			time.Sleep(time.Second)
			put(t, store, "replaced", "new")
			<-ctx.Done()
			return context.Cause(ctx)
		}, deadletter.Options{Lease: time.Minute})
		// The new letter is newer than the cut-off: the next replay's.
		if err != nil || rep.Lost != 1 || rep.Acked != 0 {
			t.Errorf("%+v, %v", rep, err)
		}
		if got := contents(t, store); got["replaced"] != "new" {
			t.Errorf("%v", got)
		}
	})
}

func TestReplayedItemKnowsItself(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	r := letter("item", "p")
	r.Owner, r.EstTokens, r.Labels = "team", 77, map[string]string{"k": "v"}
	if err := store.Put(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	q := newQueue(t, deadletter.Config{Store: store})
	var results []deadletter.Result
	rep, err := deadletter.Replay(t.Context(), store, func(ctx context.Context, r deadletter.Record) error {
		b := call.From(ctx)
		if b.ID != "item" || b.Owner != "team" || b.Estimate != 77 || b.Labels["k"] != "v" || !b.Recorded || !b.Replay {
			t.Errorf("the call's box: %+v", b)
		}
		// The queue's own wrapping steps aside: one failure, one record.
		return q.Do(ctx, r.Payload, func(context.Context) error { panic("bad payload") })
	}, deadletter.Options{OnResult: func(r deadletter.Result) { results = append(results, r); panic("hook") }})
	if err != nil || rep.Returned != 1 || len(results) != 1 || results[0].Verb != deadletter.Return || results[0].Kept != nil {
		t.Errorf("%+v, %v, %+v", rep, err, results)
	}
	if got, err := q.Get(t.Context(), "item"); err != nil || got.Failures != 2 || !strings.Contains(got.Err, "bad payload") || got.Attempts != 1 {
		t.Errorf("%+v, %v", got, err)
	}

	// A send that ends its goroutine has failed.
	rep, err = deadletter.Replay(t.Context(), store, func(context.Context, deadletter.Record) error {
		runtime.Goexit()
		return nil
	}, deadletter.Options{Early: true})
	if err != nil || rep.Returned != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// refusedLater fails its item first and is refused then: still open.
func TestReplayFailedThenRefused(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	put(t, store, "a", "p")
	rep, err := deadletter.Replay(t.Context(), store, func(ctx context.Context, _ deadletter.Record) error {
		item := call.From(ctx).Item
		item.Fail(hinted{})
		item.Refuse(refusal{"budget"})
		return errors.New("a text in place of both")
	}, deadletter.Options{})
	if rep.StoppedBy != "budget" || rep.Released != 1 || err == nil {
		t.Errorf("%+v, %v", rep, err)
	}
	if r, err := store.Get(t.Context(), deadletter.ID("q", "a")); err != nil || r.Replays != 0 || r.Failures != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func (unack) Resolve(context.Context, deadletter.Token, deadletter.Outcome) error { return errFull }
