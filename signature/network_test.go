package signature_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/nightfuse/nightfuse/signature"
)

// occurrences is how often each failure is provoked.
const occurrences = 1000

// TestNetworkFailures provokes each failure many times and holds it to one
// signature, whatever addresses, ports, paths, keys and times it met, bare or
// wrapped with an item's id, and different failures to different ones.
func TestNetworkFailures(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var mu sync.Mutex
	seen := map[signature.ID]string{}
	t.Run("each", func(t *testing.T) {
		for _, f := range failures {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				var want, wrapped signature.ID
				first := ""
				texts := map[string]bool{}
				n := occurrences
				if testing.Short() {
					n = 30
				}
				for i := range n {
					v := vary{rand.New(rand.NewPCG(1, uint64(i)))}
					err := f.make(l, v)
					if err == nil {
						t.Fatal("the call did not fail")
					}
					texts[err.Error()] = true
					item := fmt.Errorf("item %x: %w", v.Uint64(), err)
					if i == 0 {
						want, wrapped, first = signature.Of(err), signature.Of(item), err.Error()
					}
					if signature.Of(err) != want {
						t.Fatalf("two signatures:\n%q\n%q, template %q", first, err, signature.Explain(err).Template)
					}
					if signature.Of(item) != wrapped {
						t.Fatalf("wrapped, %q has another signature than the first: %q", item, signature.Explain(item).Template)
					}
					// What is read from a log signs like the error itself.
					if got := signature.OfString(err.Error()); got != want && runtime.GOOS != "windows" { // whose words for an errno differ
						t.Fatalf("the text of %q has another signature: %q, not %q", err, signature.Normalize(err.Error()), signature.Explain(err).Template)
					}
				}
				t.Logf("%d texts, such as %q, template %q", len(texts), first, signature.Normalize(first))
				mu.Lock()
				defer mu.Unlock()
				if other, ok := seen[want]; ok {
					t.Errorf("the same signature as %s: %q", other, first)
				}
				seen[want] = f.name
			})
		}
	})
	if len(seen) != len(failures) && !t.Failed() {
		t.Errorf("%d signatures for %d failures", len(seen), len(failures))
	}
}
