package batch_test

import (
	"context"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// What a run itself costs an item, with results that go nowhere and in files.
func BenchmarkItem(b *testing.B) {
	for name, results := range map[string]func() batch.Results{
		"none":   func() batch.Results { return &ones{} },
		"folder": func() batch.Results { return nil },
	} {
		b.Run(name, func(b *testing.B) {
			letters, err := deadletter.New(deadletter.Config{Name: "night", Store: deadletter.NewMemory()})
			if err != nil {
				b.Fatal(err)
			}
			cfg := batch.Config{Dir: b.TempDir(), Letters: letters, Workers: 8, Results: results()}
			rep, err := batch.Run(b.Context(), cfg, items(b.N), func(context.Context, batch.Item) ([]byte, error) { return []byte("fine"), nil })
			if err != nil || rep.Done != int64(b.N) {
				b.Fatal(rep, err)
			}
		})
	}
}
