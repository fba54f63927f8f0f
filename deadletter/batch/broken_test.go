package batch_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/call"
)

// badMethod is an error one of whose methods panics.
type badMethod string

func (b badMethod) Error() string     { return b.or("Error", "bad method") }
func (b badMethod) RefusedBy() string { return b.or("RefusedBy", "") }
func (b badMethod) NotSent() bool     { return b.or("NotSent", "") != "" }
func (b badMethod) Unwrap() error     { b.or("Unwrap", ""); return nil }

func (b badMethod) or(method, s string) string {
	if string(b) == method {
		panic("no " + method)
	}
	return s
}

// Whatever the handle, Validate and the errors of both do costs their item, and
// its letter says so. The run goes on.
func TestCallersCodeBreaks(t *testing.T) {
	t.Parallel()
	type fail = func() error
	for _, c := range []struct {
		name     string
		handle   fail
		validate fail
		letter   string
	}{
		{"a nil pointer", func() error { var e *refusal; return e }, nil, "nil *batch_test.refusal"},
		{"a nil pointer of Validate", nil, func() error { var e *refusal; return e }, "nil *batch_test.refusal"},
		{"Error", func() error { return badMethod("Error") }, nil, "no Error"},
		{"RefusedBy", func() error { return badMethod("RefusedBy") }, nil, "panic: no RefusedBy"},
		{"NotSent", func() error { return badMethod("NotSent") }, nil, "panic: no NotSent"},
		{"Unwrap", func() error { return badMethod("Unwrap") }, nil, "panic: no Unwrap"},
		{"Error of Validate", nil, func() error { return badMethod("Error") }, "no Error"},
		{"Goexit", func() error { runtime.Goexit(); return nil }, nil, "Goexit"},
		{"Goexit in Validate", nil, func() error { runtime.Goexit(); return nil }, "Goexit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				breaks := func(it batch.Item, fn fail) error {
					if it.ID != "item-002" || fn == nil {
						return nil
					}
					return fn()
				}
				e.cfg.Validate = func(it batch.Item, _ []byte) error { return breaks(it, c.validate) }
				rep, err := e.run(items(5), func(_ context.Context, it batch.Item) ([]byte, error) {
					return []byte("fine"), breaks(it, c.handle)
				})
				if rep.Exit != batch.ExitDead || rep.Done != 4 || rep.Dead != 1 {
					t.Errorf("%v, %v", rep, err)
				}
				if r, err := e.letters.Get(t.Context(), "item-002"); err != nil || !strings.Contains(r.Err, c.letter) {
					t.Errorf("letter %q, %v: want %q", r.Err, err, c.letter)
				}
			})
		})
	}
	for _, method := range []string{"NotSent", "Unwrap", "Error"} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			rep, _ := e.run(items(3), func(ctx context.Context, it batch.Item) ([]byte, error) {
				if it.ID != "item-001" {
					return []byte("fine"), nil
				}
				call.From(ctx).Item.Fail(badMethod(method))
				return nil, errors.New("request failed")
			})
			if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 3, Done: 2, Dead: 1, Calls: 3}); diff != "" {
				t.Errorf("%s of a failure that was noted (-got +want):\n%s", method, diff)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		var none *refusal
		rep, _ := e.run(list(batch.Item{ID: "bad", Bad: none}, batch.Item{ID: "good"}), nil)
		if diff := cmp.Diff(of(rep), counts{Exit: 4, Total: 2, Done: 1, Dead: 1, Calls: 1}); diff != "" {
			t.Errorf("a nil pointer in Bad (-got +want):\n%s", diff)
		}
	})
}

// breaking are results and letters whose methods do how.
type breaking struct {
	deadletter.Store
	how             func()
	load, put, list bool
}

func (b *breaking) Load(context.Context, string) (batch.Result, bool, error) {
	if b.load {
		b.how()
	}
	return batch.Result{}, false, nil
}

func (b *breaking) Sync(context.Context) error { return nil }

// keep is Results over breaking, whose Put is the Store's.
type keep struct{ *breaking }

func (k keep) Store(context.Context, batch.Result) error { k.how(); return nil }

func (b *breaking) Put(ctx context.Context, r deadletter.Record) error {
	if b.put {
		b.how()
	}
	return b.Store.Put(ctx, r)
}

func (b *breaking) List(ctx context.Context, f deadletter.Filter) iter.Seq2[deadletter.Record, error] {
	if b.list && len(f.IDs) > 0 {
		b.how()
	}
	return b.Store.List(ctx, f)
}

// Where what breaks is to keep an item, the item is lost and the run ends.
func TestStoresBreak(t *testing.T) {
	t.Parallel()
	for how, fn := range map[string]func(){"panic": func() { panic("driver broke") }, "Goexit": runtime.Goexit} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				name   string
				broken breaking
				err    error // of the handle
				want   counts
			}{
				{"a result", breaking{}, nil, counts{Exit: 5, Total: 9, Lost: 1, Pending: 8, Calls: 1}},
				{"a letter", breaking{put: true}, statusError(400), counts{Exit: 5, Total: 9, Lost: 1, Pending: 8, Calls: 1}},
			} {
				synctest.Test(t, func(t *testing.T) {
					e := newEnv(t)
					c.broken.Store, c.broken.how = e.store, fn
					e.cfg.Results, e.cfg.Workers = keep{&c.broken}, 1
					var err error
					if e.cfg.Letters, err = deadletter.New(deadletter.Config{Name: "night", Store: &c.broken}); err != nil {
						t.Fatal(err)
					}
					rep, err := e.run(items(9), func(context.Context, batch.Item) ([]byte, error) { return []byte("fine"), c.err })
					if diff := cmp.Diff(of(rep), c.want); diff != "" || !strings.Contains(err.Error(), map[string]string{"panic": "driver broke", "Goexit": "Goexit"}[how]) {
						t.Errorf("%s: %v (-got +want):\n%s", c.name, err, diff)
					}
				})
			}
			// The item has a result when its letter is to be acked.
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.run(items(1), func(context.Context, batch.Item) ([]byte, error) { return nil, statusError(400) })
				e.cfg.Again = true
				var err error
				if e.cfg.Letters, err = deadletter.New(deadletter.Config{
					Name: "night", Store: &breaking{Store: e.store, how: fn, list: true}, ResolveOnSuccess: true,
				}); err != nil {
					t.Fatal(err)
				}
				rep, err := e.run(items(1), nil)
				if diff := cmp.Diff(of(rep), counts{Total: 1, Done: 1, Calls: 1}); diff != "" {
					t.Errorf("%v (-got +want):\n%s", err, diff)
				}
			})
		})
	}
}

// A goroutine that is ended while it reads the items may not have seen all.
func TestListEndsEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		set  func(*env)
		list func(yield func(batch.Item) bool)
	}{
		{"by the iterator", func(*env) {}, func(yield func(batch.Item) bool) {
			yield(batch.Item{ID: "item-000", Input: []byte("item-000")})
			runtime.Goexit()
		}},
		{"by Validate", func(e *env) {
			e.cfg.Validate = func(it batch.Item, _ []byte) error {
				if it.ID == "item-001" {
					runtime.Goexit()
				}
				return nil
			}
		}, items(30)},
		{"by Results", func(e *env) {
			e.cfg.Results = keep{&breaking{how: runtime.Goexit, load: true}}
		}, items(30)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.run(items(3), nil)
				c.set(e)
				rep, err := e.run(c.list, nil)
				if rep.Exit != batch.ExitLost || !rep.Uncounted || !strings.Contains(err.Error(), "Goexit") {
					t.Errorf("%v, uncounted %v, %v", rep, rep.Uncounted, err)
				}
			})
		})
	}
}

// A letter that is too large to keep loses its item, and no other.
func TestUnfitLetter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		var err error
		if e.cfg.Letters, err = deadletter.New(deadletter.Config{Name: "night", Store: e.store, MaxPayload: 100}); err != nil {
			t.Fatal(err)
		}
		its := []batch.Item{{ID: "big", Estimate: 1, Input: make([]byte, 200)}, {ID: "big too", Input: make([]byte, 200), Estimate: 2, Bad: errors.New("no text")}, {ID: "a", Estimate: 3}, {ID: "b", Estimate: 4}}
		e.cfg.Workers = 1
		rep, err := e.run(list(its...), func(_ context.Context, it batch.Item) ([]byte, error) {
			time.Sleep(time.Second)
			if len(it.Input) > 100 {
				return nil, statusError(400)
			}
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(of(rep), counts{Exit: 5, Total: 4, Done: 2, Lost: 2, Calls: 3}); diff != "" || !errors.Is(err, deadletter.ErrTooLarge) {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
		if diff := cmp.Diff(rep.LostItems, []string{"big", "big too"}); diff != "" || len(rep.Warnings) != 2 {
			t.Errorf("warnings %v, lost (-got +want):\n%s", rep.Warnings, diff)
		}
	})
}

// A scanner's Bytes are another line with the next Scan.
func TestIteratorUsesItsMemoryAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		rep, err := e.run(func(yield func(batch.Item) bool) {
			input, labels := make([]byte, 0, 16), map[string]string{}
			for i := range 20 {
				input, labels["n"] = fmt.Appendf(input[:0], "line %02d", i), fmt.Sprint(i)
				if !yield(batch.Item{ID: fmt.Sprintf("%02d", i), Input: input, Labels: labels}) {
					return
				}
			}
		}, func(_ context.Context, it batch.Item) ([]byte, error) {
			time.Sleep(time.Second)
			if string(it.Input) != "line "+it.ID || fmt.Sprintf("%02s", it.Labels["n"]) != it.ID {
				t.Errorf("%s has the input %q and the label %s", it.ID, it.Input, it.Labels["n"])
			}
			return []byte("fine"), nil
		})
		if rep.Done != 20 {
			t.Errorf("%v, %v", rep, err)
		}
	})
}
