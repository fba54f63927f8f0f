package batch_test

import (
	"context"
	"iter"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// stalled is a store that does not answer a List, as a database that hangs.
type stalled struct {
	deadletter.Store
	heeds bool // its context
	free  chan struct{}
}

func (s stalled) List(ctx context.Context, _ deadletter.Filter) iter.Seq2[deadletter.Record, error] {
	return func(yield func(deadletter.Record, error) bool) {
		var done <-chan struct{}
		if s.heeds {
			done = ctx.Done()
		}
		select {
		case <-done:
			yield(deadletter.Record{}, context.Cause(ctx))
		case <-s.free:
		}
	}
}

// Before the first item a run reads the letters. A store that hangs then must
// hold up neither a signal nor, for ever, the night.
func TestStalledStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		heeds   bool
		signals int
		cancel  bool
		exit    int
		by      string
		took    time.Duration
	}{
		{"signal", true, 1, false, 130, "signal", time.Minute},
		{"signal it does not hear", false, 1, false, 130, "signal", time.Minute + 30*time.Second},
		{"second signal", false, 2, false, 130, "signal", time.Minute + time.Second},
		{"cancelled", true, 0, true, 130, "cancelled", time.Minute},
		{"nobody there", true, 0, false, 2, "patience", 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				free := make(chan struct{})
				defer close(free)
				var err error
				if e.cfg.Letters, err = deadletter.New(deadletter.Config{Name: "night", Store: stalled{e.store, c.heeds, free}}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for i := range c.signals {
					time.AfterFunc(time.Minute+time.Duration(i)*time.Second, func() { e.signals <- os.Interrupt })
				}
				if c.cancel {
					time.AfterFunc(time.Minute, cancel)
				}
				began := time.Now()
				rep, err := e.checked(batch.Run(ctx, e.cfg, items(5), e.handle(nil)))
				if took := time.Since(began); rep.Exit != c.exit || rep.StoppedBy != c.by || !rep.Uncounted || took != c.took || len(e.calls) != 0 {
					t.Errorf("%v by %q after %v, %v", rep, rep.StoppedBy, took, err)
				}
			})
		})
	}
}

// A panic of the store comes out of Run as before, with the report written.
func TestPanickingStore(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var err error
	if e.cfg.Letters, err = deadletter.New(deadletter.Config{Name: "night", Store: panicking{e.store}}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p := recover(); p != "no list" || e.written().State != "failed: the letters' store panicked" {
			t.Errorf("recovered %v, report %+v", p, e.written())
		}
	}()
	rep, err := batch.Run(t.Context(), e.cfg, items(5), e.handle(nil))
	t.Errorf("came back with %v, %v", rep, err)
}

type panicking struct{ deadletter.Store }

func (panicking) List(context.Context, deadletter.Filter) iter.Seq2[deadletter.Record, error] {
	panic("no list")
}

// A run that was stopped only counts what is left, for as long as calls in flight
// may take. A list that blocks or has no end must not keep it from ending.
func TestStoppedRunLeavesIterator(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		items   int           // after the first five, one every ten seconds
		blocks  bool          // after them
		pending int64         // all that are seen
		took    time.Duration // about
	}{
		{"blocks", 1, true, 6, 30 * time.Second},
		{"is endless", 1 << 20, false, 8, 30 * time.Second},
		{"is slow", 2, false, 7, 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				free := make(chan struct{})
				defer close(free)
				began := time.Now()
				rep, err := e.run(func(yield func(batch.Item) bool) {
					for it := range items(5 + c.items) {
						if it.ID > "item-004" {
							time.Sleep(10 * time.Second)
						}
						if !yield(it) {
							return
						}
					}
					if c.blocks {
						<-free
					}
				}, func(context.Context, batch.Item) ([]byte, error) { return nil, &refusal{by: "breaker"} })
				if took := time.Since(began); rep.Exit != 2 || rep.StoppedBy != "breaker" || rep.Pending != c.pending ||
					rep.Uncounted != (c.took == 30*time.Second) || took < c.took || took > c.took+3*time.Second {
					t.Errorf("%v by %q after %v, uncounted %v, %v", rep, rep.StoppedBy, took, rep.Uncounted, err)
				}
				time.Sleep(10 * time.Second) // the iterator ends with its next item
			})
		})
	}
	// Calls in flight are not cut off for it: they are paid.
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		free := make(chan struct{})
		defer close(free)
		began := time.Now()
		rep, err := e.run(func(yield func(batch.Item) bool) {
			for it := range items(3) {
				if !yield(it) {
					return
				}
			}
			<-free
		}, func(ctx context.Context, it batch.Item) ([]byte, error) {
			switch it.ID {
			case "item-001":
				return nil, &refusal{by: "breaker"}
			case "item-002":
				select {
				case <-time.After(3 * time.Minute):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return []byte("fine"), nil
		})
		if took := time.Since(began); rep.Exit != 2 || rep.StoppedBy != "breaker" || rep.Done != 2 || took > 4*time.Minute {
			t.Errorf("%v by %q after %v, %v", rep, rep.StoppedBy, took, err)
		}
	})
}

// To find what is done already is to get on: a slow item beside it has time.
func TestReadingIsGettingOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		e.run(items(10), nil)
		rep, err := e.run(func(yield func(batch.Item) bool) {
			if !yield(batch.Item{ID: "slow"}) {
				return
			}
			for it := range items(10) {
				time.Sleep(time.Minute)
				if !yield(it) {
					return
				}
			}
		}, func(ctx context.Context, _ batch.Item) ([]byte, error) {
			select {
			case <-time.After(9 * time.Minute):
				return []byte("fine"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		if diff := cmp.Diff(of(rep), counts{Total: 11, Skipped: 10, Done: 11, Calls: 1}); diff != "" {
			t.Errorf("by %q, %v (-got +want):\n%s", rep.StoppedBy, err, diff)
		}
	})
}
