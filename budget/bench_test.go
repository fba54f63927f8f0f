package budget_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

// naive is what everybody writes first: a lock, a map by day, and no owners.
type naive struct {
	mu    sync.Mutex
	limit int64
	spent map[string]int64
}

func (n *naive) reserve(amount int64) bool {
	day := time.Now().UTC().Format("2006-01-02")
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.spent[day]+amount > n.limit {
		return false
	}
	n.spent[day] += amount
	return true
}

func (n *naive) reconcile(delta int64) {
	day := time.Now().UTC().Format("2006-01-02")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spent[day] += delta
}

// Reserve and settle in memory, beside the naive form.
func BenchmarkReserve(b *testing.B) {
	b.Run("naive", func(b *testing.B) {
		n := &naive{limit: budget.MaxAmount, spent: make(map[string]int64)}
		for b.Loop() {
			n.reserve(1000)
			n.reconcile(-1000)
		}
	})
	ctx := context.Background()
	for name, owners := range map[string][]budget.Owner{"one owner": nil, "owners": {{Name: "a"}, {Name: "b", Limit: budget.MaxAmount}}} {
		day := mustNew(b, budget.Config{Limit: budget.MaxAmount, Owners: owners})
		owner := ""
		if owners != nil {
			owner = "b"
		}
		cycle := func() {
			r, err := day.Reserve(ctx, owner, 1000)
			if err != nil {
				b.Fatal(err)
			}
			_ = r.Reconcile(ctx, 0)
		}
		b.Run("memory, "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cycle()
			}
		})
		b.Run("memory, "+name+", parallel", func(b *testing.B) {
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					cycle()
				}
			})
		})
	}
}

func BenchmarkFileReserve(b *testing.B) {
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			day := mustNew(b, budget.Config{Limit: budget.MaxAmount, Store: openFile(b, filepath.Join(b.TempDir(), "spend"))})
			var wg sync.WaitGroup
			next := make(chan struct{})
			for range callers {
				wg.Go(func() {
					for range next {
						if _, err := day.Reserve(context.Background(), "", 1); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				next <- struct{}{}
			}
			close(next)
			wg.Wait()
		})
	}
}

func BenchmarkPacerWaitFree(b *testing.B) {
	for name, c := range map[string]budget.PacerConfig{
		"requests": {Requests: budget.MaxAmount}, "tokens": {Tokens: budget.MaxAmount},
	} {
		p := mustPacer(b, c)
		ctx := context.Background()
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Wait(ctx, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTransport(b *testing.B) {
	body := `{"max_tokens":100,"messages":[{"role":"user","content":"` + strings.Repeat("Say what this does. ", 200) + `"}]}`
	base := trip(func(req *http.Request) (*http.Response, error) {
		_ = req.Body.Close()
		resp := answer(500, "")
		resp.Body = http.NoBody
		return resp, nil
	})
	run := func(rt http.RoundTripper) func(b *testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp, err := rt.RoundTrip(post(b, context.Background(), body))
				if err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
			}
		}
	}
	b.Run("bare", run(base))
	b.Run("budget", run(budget.NewTransport(base, mustNew(b, budget.Config{Limit: budget.MaxAmount}))))
}
