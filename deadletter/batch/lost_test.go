package batch_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/call"
)

func TestLost(t *testing.T) {
	t.Parallel()
	t.Run("a result", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			e.cfg.Results = &broken{}
			rep, err := e.run(items(50), func(context.Context, batch.Item) ([]byte, error) {
				time.Sleep(time.Second)
				return []byte("fine"), nil
			})
			if diff := cmp.Diff(of(rep), counts{Exit: 5, Total: 50, Pending: 49, Lost: 1, Calls: 1}); diff != "" || !errors.Is(err, errDisk) {
				t.Errorf("%v, report (-got +want):\n%s", err, diff)
			}
		})
	})
	t.Run("a letter", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			var err error
			if e.cfg.Letters, err = deadletter.New(deadletter.Config{Name: "night", Store: noPut{e.store}}); err != nil {
				t.Fatal(err)
			}
			e.cfg.Workers = 1
			rep, err := e.run(items(50), func(context.Context, batch.Item) ([]byte, error) { return nil, statusError(400) })
			var lostErr *deadletter.LostError
			if diff := cmp.Diff(of(rep), counts{Exit: 5, Total: 50, Pending: 49, Lost: 1, Calls: 1}); diff != "" || !errors.As(err, &lostErr) {
				t.Errorf("%v, report (-got +want):\n%s", err, diff)
			}
			if call.StatusCode(err) != 400 {
				t.Errorf("%v does not tell the failure itself", err)
			}
		})
	})
	t.Run("the last sync", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			e.cfg.Results = unsynced{}
			rep, err := e.run(items(5), nil)
			if diff := cmp.Diff(of(rep), counts{Exit: 5, Total: 5, Done: 5, Calls: 5}); diff != "" || !errors.Is(err, errDisk) || len(rep.Warnings) != 1 {
				t.Errorf("%v, warnings %v, report (-got +want):\n%s", err, rep.Warnings, diff)
			}
		})
	})
	t.Run("the letters cannot be read", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		var err error
		if e.cfg.Letters, err = deadletter.New(deadletter.Config{Name: "night", Store: noList{e.store}}); err != nil {
			t.Fatal(err)
		}
		rep, err := e.run(items(5), nil)
		if rep.Exit != 5 || rep.StoppedBy != "lost" || !rep.Uncounted || len(e.calls) != 0 || !errors.Is(err, errDisk) {
			t.Errorf("%v by %q, %v: want nothing sent", rep, rep.StoppedBy, err)
		}
	})
	t.Run("no result that is paid, by the run's end", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			e.cfg.Results = heeding{}
			ctx, cancel := context.WithCancel(t.Context())
			rep, err := e.checked(batch.Run(ctx, e.cfg, items(1), e.handle(func(context.Context, batch.Item) ([]byte, error) {
				cancel()
				synctest.Wait()
				return []byte("fine"), nil
			})))
			if diff := cmp.Diff(of(rep), counts{Exit: 130, Total: 1, Done: 1, Calls: 1}); diff != "" {
				t.Errorf("%v, report (-got +want):\n%s", err, diff)
			}
		})
	})
	t.Run("the results cannot be read", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			e.cfg.Results = &broken{load: true}
			rep, err := e.run(items(5), nil)
			if rep.Exit != 5 || rep.Calls != 0 || !errors.Is(err, errDisk) {
				t.Errorf("%v, %v: want nothing sent", rep, err)
			}
		})
	})
}

var errDisk = errors.New("disk gone")

type broken struct{ load bool }

func (b *broken) Load(context.Context, string) (batch.Result, bool, error) {
	if b.load {
		return batch.Result{}, false, errDisk
	}
	return batch.Result{}, false, nil
}
func (b *broken) Store(context.Context, batch.Result) error { return errDisk }
func (b *broken) Sync(context.Context) error                { return nil }

// unsynced keeps everything until the power is cut.
type unsynced struct{}

func (unsynced) Load(context.Context, string) (batch.Result, bool, error) {
	return batch.Result{}, false, nil
}
func (unsynced) Store(context.Context, batch.Result) error { return nil }
func (unsynced) Sync(context.Context) error                { return errDisk }

// heeding are results that heed the context.
type heeding struct{ anywhere }

func (heeding) Store(ctx context.Context, _ batch.Result) error { return ctx.Err() }

type noList struct{ deadletter.Store }

func (noList) List(context.Context, deadletter.Filter) iter.Seq2[deadletter.Record, error] {
	return func(yield func(deadletter.Record, error) bool) { yield(deadletter.Record{}, errDisk) }
}

type noPut struct{ deadletter.Store }

func (noPut) Put(context.Context, deadletter.Record) error { return errDisk }
