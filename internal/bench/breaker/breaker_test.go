package breaker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"

	"github.com/nightfuse/nightfuse/breaker"
)

var errUp = errors.New("upstream says no")

func newBreaker(b *testing.B, cfg breaker.Config) *breaker.Breaker {
	b.Helper()
	up, err := breaker.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	return up
}

func openFile(b *testing.B) breaker.Store {
	b.Helper()
	s, err := breaker.File(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// callers are the two ways of running: alone, and 32 goroutines.
func callers(b *testing.B, name string, call func() error) {
	b.Run(name+"/1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := call(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(name+"/32", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

// BenchmarkClosed is one call that is let through and succeeds.
func BenchmarkClosed(b *testing.B) {
	ctx := b.Context()
	up := newBreaker(b, breaker.Config{})
	callers(b, "nightfuse", func() error {
		p, err := up.Allow(ctx)
		if err == nil {
			p.Success()
		}
		return err
	})
	filed := newBreaker(b, breaker.Config{Store: openFile(b)})
	callers(b, "nightfuse-file", func() error {
		p, err := filed.Allow(ctx)
		if err == nil {
			p.Success()
		}
		return err
	})
	sony := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{})
	callers(b, "gobreaker", func() error {
		done, err := sony.Allow()
		if err == nil {
			done(nil)
		}
		return err
	})
	safe := circuitbreaker.NewBuilder[any]().Build()
	callers(b, "failsafe", func() error {
		if !safe.TryAcquirePermit() {
			return circuitbreaker.ErrOpen
		}
		safe.RecordSuccess()
		return nil
	})
}

// BenchmarkRefused is one call that an open breaker refuses.
func BenchmarkRefused(b *testing.B) {
	ctx := b.Context()
	passed := errors.New("the call passed")
	up := newBreaker(b, breaker.Config{Cooldown: time.Hour})
	if err := up.Trip(ctx, "benchmark"); err != nil {
		b.Fatal(err)
	}
	callers(b, "nightfuse", func() error {
		if _, err := up.Allow(ctx); err == nil {
			return passed
		}
		return nil
	})
	sony := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Timeout: time.Hour, ReadyToTrip: func(gobreaker.Counts) bool { return true },
	})
	if done, err := sony.Allow(); err == nil {
		done(errUp)
	}
	callers(b, "gobreaker", func() error {
		if _, err := sony.Allow(); err == nil {
			return passed
		}
		return nil
	})
	safe := circuitbreaker.NewBuilder[any]().WithDelay(time.Hour).Build()
	safe.Open()
	callers(b, "failsafe", func() error {
		if safe.TryAcquirePermit() {
			return passed
		}
		return nil
	})
}
