package breaker_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
)

func BenchmarkClosed(b *testing.B) {
	for name, store := range map[string]breaker.Store{"none": nil, "memory": breaker.Memory(), "file": newFile(b, b.TempDir())} {
		up := newBreaker(b, breaker.Config{Store: store})
		ctx := context.Background()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := up.Allow(ctx)
				if err != nil {
					b.Fatal(err)
				}
				p.Success()
			}
		})
		b.Run(name+"/32", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					p, err := up.Allow(ctx)
					if err != nil {
						b.Fail()
						return
					}
					p.Success()
				}
			})
		})
	}
}

func BenchmarkRefused(b *testing.B) {
	for name, store := range map[string]breaker.Store{"none": nil, "file": newFile(b, b.TempDir())} {
		up := newBreaker(b, breaker.Config{Store: store, Cooldown: time.Hour})
		ctx := context.Background()
		if err := up.Trip(ctx, "benchmark"); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := up.Allow(ctx); err == nil {
					b.Fatal("passed")
				}
			}
		})
		b.Run(name+"/32", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := up.Allow(ctx); err == nil {
						b.Fail()
						return
					}
				}
			})
		})
	}
}

func BenchmarkDo(b *testing.B) {
	up := newBreaker(b, breaker.Config{})
	b.ReportAllocs()
	for b.Loop() {
		if err := up.Do(b.Context(), func(context.Context) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFailure(b *testing.B) {
	for name, store := range map[string]breaker.Store{"none": nil, "file": newFile(b, b.TempDir())} {
		up := newBreaker(b, breaker.Config{Store: store, RepeatTrip: -1})
		err := errors.New("upstream: 503 service unavailable")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, _ := up.Allow(b.Context())
				p.Failure(err)
				p, _ = up.Allow(b.Context())
				p.Success()
			}
		})
	}
}

func BenchmarkTransport(b *testing.B) {
	base := trip(func(*http.Request) (*http.Response, error) { return answer(200, good), nil })
	body := bytes.Repeat([]byte("x"), 4096)
	for name, rt := range map[string]http.RoundTripper{"bare": base, "guarded": breaker.NewTransport(base, newBreaker(b, breaker.Config{}))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "https://api.example.com/", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				resp, err := rt.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				if err := resp.Body.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The fast paths allocate nothing, with the permit on this other package's
// stack.
func TestFastPathsAllocateNothing(t *testing.T) {
	ctx := context.Background()
	for name, store := range map[string]breaker.Store{"none": nil, "memory": breaker.Memory(), "file": newFile(t, t.TempDir())} {
		up := newBreaker(t, breaker.Config{Store: store, Cooldown: time.Hour, StoreTimeout: time.Minute})
		if n := testing.AllocsPerRun(100, func() {
			p, err := up.Allow(ctx)
			if err != nil {
				t.Fatal(err)
			}
			p.Success()
		}); n != 0 {
			t.Errorf("%s: admit and success allocate %v times", name, n)
		}
		if err := up.Trip(ctx, "test"); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() {
			if _, err := up.Allow(ctx); err == nil {
				t.Fatal("passed")
			}
		}); n != 0 {
			t.Errorf("%s: a refusal allocates %v times", name, n)
		}
	}
}
