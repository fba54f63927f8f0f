package breaker_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
)

// Another process has written, and the store hangs when it is read: one caller
// waits for it, the others a tenth as long and only once.
func TestStalledLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &watched{Store: breaker.Memory()}
		numbers := store.Store.(breaker.Sequencer)
		b := newBreaker(t, breaker.Config{Store: numbered{store, numbers}})
		other := newBreaker(t, breaker.Config{Store: store.Store})
		allow(t, other).Failure(errUp)
		store.delay.Store(int64(5 * time.Second))

		var whole, part atomic.Int32
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for range 100 {
					before := time.Now()
					allow(t, b).Success()
					switch waited := time.Since(before); {
					case waited > time.Second:
						t.Errorf("a caller waited %v", waited)
					case waited > time.Second/10:
						whole.Add(1)
					case waited > 0:
						part.Add(1)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		if whole.Load() > 3 || part.Load() > 31 {
			t.Errorf("%d callers waited for the store and %d for the look, want at most 3 and 31", whole.Load(), part.Load())
		}
		time.Sleep(time.Minute) // let the hanging operation come back
	})
}

// Another process's trip is seen by every caller that asks after it, however
// many ask at once.
func TestTripIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	store := newFile(t, t.TempDir())
	for range 20 {
		cfg := plain(newClock())
		cfg.Store = store
		one, two := newBreaker(t, cfg), newBreaker(t, cfg)
		allow(t, two).Success()
		if err := one.Trip(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		if got := race(t, 32, two); got != 0 {
			t.Fatalf("%d calls passed after another process's trip", got)
		}
		if err := one.Reset(t.Context(), "next round"); err != nil {
			t.Fatal(err)
		}
	}
}
