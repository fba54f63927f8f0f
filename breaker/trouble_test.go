package breaker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
)

// watched counts what a store is asked, and can be slow or broken.
type watched struct {
	breaker.Store
	delay  atomic.Int64 // before the answer, in nanoseconds
	broken atomic.Pointer[error]
	calls  atomic.Int32
	writes atomic.Int32
}

func (w *watched) Update(ctx context.Context, name string, fn func([]byte) ([]byte, error)) error {
	w.calls.Add(1)
	if d := w.delay.Load(); d > 0 {
		time.Sleep(time.Duration(d)) // in a bubble; deaf to ctx like a disk
	}
	if err := w.broken.Load(); err != nil {
		return *err
	}
	wrote := false
	err := w.Store.Update(ctx, name, func(old []byte) ([]byte, error) {
		now, err := fn(old)
		wrote = err == nil && !bytes.Equal(now, old)
		return now, err
	})
	if wrote {
		w.writes.Add(1)
	}
	return err
}

func (w *watched) setBroken(err error) {
	if err == nil {
		w.broken.Store(nil)
		return
	}
	w.broken.Store(&err)
}

func TestGoodCallsWriteNothing(t *testing.T) {
	t.Parallel()
	store := &watched{Store: breaker.Memory()}
	cfg := plain(newClock())
	cfg.Store = store
	b := newBreaker(t, cfg)
	for range 1000 {
		allow(t, b).Success()
		if err := b.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if got := store.writes.Load(); got != 0 {
		t.Errorf("%d writes for good calls", got)
	}
	if got := store.calls.Load(); got != 1 {
		t.Errorf("%d operations of the store while the clock stood, want New's one", got)
	}
}

func TestBurstIsFewWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &watched{Store: breaker.Memory()}
		b := newBreaker(t, breaker.Config{Store: store})
		var permits []*breaker.Permit
		for range 32 {
			permits = append(permits, allow(t, b))
		}
		store.delay.Store(int64(time.Millisecond))
		var wg sync.WaitGroup
		for _, p := range permits {
			wg.Go(func() { p.Failure(errUp) })
		}
		wg.Wait()
		refusal(t, b)
		if got := store.writes.Load(); got < 1 || got > 3 {
			t.Errorf("%d writes for a burst of 32 failures, want at most 3", got)
		}
		again := newBreaker(t, breaker.Config{Store: store})
		if got := again.Stats(); got.State != breaker.Open || got.TripsTotal != 1 {
			t.Errorf("the store holds %v, %d trips; want open, 1", got.State, got.TripsTotal)
		}
	})
}

// A store that hangs, deaf to its context, holds up three callers at most, and
// none for longer than StoreTimeout.
func TestStalledStore(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*watched) breaker.Store{
		"numbered":   func(w *watched) breaker.Store { return numbered{w, w.Store.(breaker.Sequencer)} },
		"unnumbered": func(w *watched) breaker.Store { return w },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &watched{Store: breaker.Memory()}
				var reports atomic.Int32
				// All 32 end at one instant: the 8 failures among them may come in a
				// row, and after those of the instant before.
				b := newBreaker(t, breaker.Config{Store: wrap(store), Threshold: 100, RepeatTrip: -1, OnChange: func(c breaker.Change) {
					if c.Err != nil {
						reports.Add(1)
					}
				}})
				store.delay.Store(int64(5 * time.Second))
				var held, longest, good atomic.Int64
				var wg sync.WaitGroup
				begin := time.Now()
				for i := range 32 {
					wg.Go(func() {
						for n := range 40 {
							before := time.Now()
							p, err := b.Allow(t.Context())
							if err != nil {
								t.Error("a good night was refused:", err)
								return
							}
							waited := time.Since(before)
							time.Sleep(20 * time.Millisecond)
							before = time.Now()
							if (i+n)%4 == 0 {
								p.Failure(errUp)
							} else {
								p.Success()
								good.Add(1)
							}
							waited += time.Since(before)
							if waited > 0 {
								held.Add(1)
							}
							for l := longest.Load(); int64(waited) > l && !longest.CompareAndSwap(l, int64(waited)); l = longest.Load() {
							}
						}
					})
				}
				wg.Wait()
				if took := time.Since(begin); took > 40*20*time.Millisecond+2*time.Second {
					t.Errorf("the night took %v", took)
				}
				if held.Load() > 3 || time.Duration(longest.Load()) > time.Second {
					t.Errorf("%d callers were held up, for up to %v; want at most 3, for at most 1s", held.Load(), time.Duration(longest.Load()))
				}
				if s := b.Stats(); s.StoreErrors == 0 || reports.Load() != 1 {
					t.Errorf("%d store errors, %d reports; want some and one", s.StoreErrors, reports.Load())
				}
				// When the store works again what was counted is written.
				store.delay.Store(0)
				time.Sleep(time.Minute)
				wantState(t, b, breaker.Closed)
				if err := b.Trip(t.Context(), "test"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

type numbered struct {
	*watched
	breaker.Sequencer
}

// A burst of refusals while the store hangs still opens the breaker at once,
// and probes go out one at a time.
func TestTripWhileTheStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &watched{Store: breaker.Memory()}
		cfg := breaker.Config{Store: store, Jitter: -1}
		b := newBreaker(t, cfg)
		store.delay.Store(int64(time.Hour))
		fail(t, b, 5)
		open := refusal(t, b)
		time.Sleep(time.Until(open.Until))
		if got := race(t, 50, b); got != 1 {
			t.Errorf("%d probes went out with the store down, want 1", got)
		}
		time.Sleep(2 * time.Hour) // let the hanging operations come back
	})
}

// Why: the end of a probe's lease read like the end of another opening.
func TestLogOfAProbe(t *testing.T) {
	t.Parallel()
	clk := newClock()
	var log bytes.Buffer
	cfg := plain(clk)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	b := newBreaker(t, cfg)
	if err := b.Trip(t.Context(), "by hand"); err != nil {
		t.Fatal(err)
	}
	opened := log.String()
	log.Reset()
	clk.Add(time.Hour)
	allow(t, b)
	if !strings.Contains(opened, " until=") || strings.Contains(log.String(), " until=") || !strings.Contains(log.String(), " lease_until=") {
		t.Errorf("open: %sprobe: %s", opened, &log)
	}
}

// After a failure the store is left alone for 1 s, doubling to 30 s, and then
// learns what happened.
func TestStoreComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &watched{Store: breaker.Memory()}
		cfg := breaker.Config{
			Name: "up", Store: store, Jitter: -1, Cooldown: time.Hour,
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})),
		}
		b := newBreaker(t, cfg)
		store.setBroken(errors.New("connection refused"))
		allow(t, b).Failure(errUp)
		allow(t, b).Failure(errUp)
		calls := store.calls.Load()
		begin := time.Now()
		var asked []time.Duration
		for time.Since(begin) < 3*time.Minute {
			time.Sleep(time.Second / 2)
			_ = b.State()
			if n := store.calls.Load(); n != calls {
				calls = n
				asked = append(asked, time.Since(begin).Round(time.Second))
			}
		}
		want := []time.Duration{1, 3, 7, 15, 31, 61, 91, 121, 151}
		for i := range want {
			want[i] *= time.Second
		}
		if diff := cmp.Diff(asked, want); diff != "" {
			t.Errorf("the broken store was asked at (-got +want):\n%s", diff)
		}
		store.setBroken(nil)
		time.Sleep(time.Minute)
		_ = b.State()
		if got := newBreaker(t, breaker.Config{Name: "up", Store: store}).Stats().Streak; got != 2 {
			t.Errorf("the store has %d failures, want both that were counted meanwhile", got)
		}

		store.setBroken(errors.New("connection refused"))
		allow(t, b).Failure(errUp)
		allow(t, b).Failure(errUp)
		allow(t, b).Failure(errUp)
		refusal(t, b)
		if err := b.Trip(t.Context(), "by hand"); err == nil {
			t.Error("Trip says nothing about a store that cannot be written")
		}
		store.setBroken(nil)
		time.Sleep(time.Minute)
		_ = b.State()
		if got := newBreaker(t, breaker.Config{Name: "up", Store: store}).Stats(); got.State != breaker.Open || got.TripsTotal != 2 {
			t.Errorf("the store holds %v, %d trips; want open, 2", got.State, got.TripsTotal)
		}
		text := log.String()
		if n := strings.Count(text, "connection refused"); n != 2 {
			t.Errorf("two outages of the store were logged %d times:\n%s", n, text)
		}
		if n := strings.Count(text, "the store works again"); n != 2 {
			t.Errorf("two recoveries were logged %d times:\n%s", n, text)
		}
	})
}

// A store that panics or ends its goroutine is a store that failed.
func TestStorePanics(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){"panic": func() { panic("driver") }, "goexit": exit} {
		cfg := plain(newClock())
		cfg.Store = storeFunc(func(context.Context, string, func([]byte) ([]byte, error)) error { f(); return nil })
		b := newBreaker(t, cfg)
		fail(t, b, 3)
		if got := b.Stats(); got.State != breaker.Open || got.StoreErrors == 0 {
			t.Errorf("%s: %v, %d store errors; want open, some", name, got.State, got.StoreErrors)
		}
	}
}

type storeFunc func(context.Context, string, func([]byte) ([]byte, error)) error

func (f storeFunc) Update(ctx context.Context, name string, fn func([]byte) ([]byte, error)) error {
	return f(ctx, name, fn)
}
