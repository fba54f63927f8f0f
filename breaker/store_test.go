package breaker_test

import (
	"testing"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/breaker/breakertest"
)

func TestMemoryStore(t *testing.T) {
	t.Parallel()
	breakertest.Run(t, func(*testing.T) (a, b breaker.Store) {
		s := breaker.Memory()
		return s, s
	})
}

// unnumbered hides that a store has sequence numbers, as remote ones have none.
type unnumbered struct{ breaker.Store }

func TestStoreWithoutNumbers(t *testing.T) {
	t.Parallel()
	breakertest.Run(t, func(*testing.T) (a, b breaker.Store) {
		s := breaker.Memory()
		return unnumbered{s}, unnumbered{s}
	})
}

func TestFileStore(t *testing.T) {
	t.Parallel()
	breakertest.Run(t, func(t *testing.T) (a, b breaker.Store) {
		dir := t.TempDir()
		return newFile(t, dir), newFile(t, dir)
	})
}

func newFile(t testing.TB, dir string) breaker.Store {
	t.Helper()
	s, err := breaker.File(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
