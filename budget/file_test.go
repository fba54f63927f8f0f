package budget_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/budget/budgettest"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/durable"
)

func openFile(t testing.TB, path string) *budget.File {
	t.Helper()
	f, err := budget.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestFileNames(t *testing.T) {
	t.Parallel()
	f, err := budget.OpenFile(filepath.Join(t.TempDir(), "spend"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"night", "a day|50 % off", "night"} {
		b := mustNew(t, budget.Config{Name: name, Limit: 1000, Store: f, Owners: []budget.Owner{{Name: "x"}, {Name: "y"}}})
		if _, err := b.Reserve(t.Context(), "x", 10); err != nil {
			t.Fatal(err)
		}
	}
	names, err := f.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(names, []string{"a day|50 % off", "night"}); d != "" {
		t.Errorf("names (-got +want):\n%s", d)
	}
}

func TestStoresConform(t *testing.T) {
	t.Parallel()
	t.Run("Memory", func(t *testing.T) {
		t.Parallel()
		budgettest.Run(t, func(*testing.T) budget.Store { return budget.NewMemory() })
	})
	t.Run("File", func(t *testing.T) {
		t.Parallel()
		budgettest.Run(t, func(t *testing.T) budget.Store { return openFile(t, filepath.Join(t.TempDir(), "spend")) })
	})
}

func TestFileOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spend")
	c := budget.Config{Limit: 1000, Headroom: -1, Store: openFile(t, path), Owners: []budget.Owner{{Name: "team a"}, {Name: "b"}}}
	b := mustNew(t, c)
	_ = mustReserve(t, b, "team a", 300).Reconcile(t.Context(), 250)
	mustReserve(t, b, "b", 100) // never settled: stays spent
	if err := c.Store.(*budget.File).Close(); err != nil {
		t.Fatal(err)
	}
	e := mustRefuse(t, b, "b", 1, budget.ErrStore) // closed is failing, not unlimited
	equal(t, "refused by", call.RefusedBy(e), "budget")

	c.Store = openFile(t, path)
	st, err := mustNew(t, c).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "spent", []int64{st.Spent, st.Owners[0].Spent, st.Owners[1].Spent}, []int64{350, 250, 100})
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(names) != 3 {
		t.Errorf("files %v (%v), want the two slots and the lock", names, err)
	}
}

// Only what does not exist is a fresh start: a budget that takes an unreadable
// file for an empty one is off for the day.
func TestFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "folder.0"), 0o700); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(dir, "good")
	b := mustNew(t, budget.Config{Limit: 1000, Store: openFile(t, good)})
	mustReserve(t, b, "", 123)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("text.0", "budget|2026-05-04\t1\t2\n")
	write("text.1", "")
	write("half.0", "x")
	for _, path := range []string{filepath.Join(dir, "none", "spend"), filepath.Join(dir, "folder"), filepath.Join(dir, "text"), filepath.Join(dir, "half"), dir} {
		f, err := budget.OpenFile(path)
		if err == nil {
			_ = f.Close()
			t.Errorf("%s was opened", path)
		} else if !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("the error does not name %s: %v", path, err)
		}
	}

	if _, err := budget.OpenFile(""); err == nil {
		t.Error("no path was opened")
	}
	again := openFile(t, filepath.Join(dir, "again"))
	if err := errors.Join(again.Close(), again.Close()); err != nil {
		t.Errorf("closing twice: %v", err)
	}

	// Unreadable for a while: refused, then as it was.
	s := &shaky{Store: openFile(t, good), err: os.ErrPermission}
	b = mustNew(t, budget.Config{Limit: 1000, Store: s})
	s.fail(2)
	for range 2 {
		e := mustRefuse(t, b, "", 1, budget.ErrStore)
		if !errors.Is(e, os.ErrPermission) {
			t.Errorf("the store's own error is lost: %v", e)
		}
	}
	mustReserve(t, b, "", 1)
	equal(t, "spent", spent(t, b), int64(124))
}

// Slots of another program, or of a newer version of this one, are damage, not
// zero.
func TestFileWithForeignText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"null", "a\t1\n", "a\t-1\t9\n", "a\tx\t9\n", "a\t1\tx\n", "a\t1\t9", "\t1\t9\n", "a\t9007199254740993\t9\n"} {
		path := filepath.Join(t.TempDir(), "spend")
		s, err := durable.OpenSlots(t.Context(), nil, path)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Update(t.Context(), func([]byte) ([]byte, error) { return []byte(text), nil }); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		if f, err := budget.OpenFile(path); err == nil {
			_ = f.Close()
			t.Errorf("%q was read as counters", text)
		}
	}
}

func TestFileIsBounded(t *testing.T) {
	t.Parallel()
	f := openFile(t, filepath.Join(t.TempDir(), "spend"))
	var cs []*budget.Change
	for i := range 6000 {
		key := strings.Repeat("k", 250-i%100) + string(rune('a'+i%26)) + time.Duration(i).String()
		cs = append(cs, &budget.Change{Ops: []budget.Op{{Key: key, Delta: 1, Expire: time.Hour}}})
	}
	err := f.Apply(t.Context(), cs)
	if !errors.Is(err, durable.ErrTooLarge) || !strings.Contains(err.Error(), "SQL") {
		t.Errorf("err = %v, want one that says to use an SQL store", err)
	}
	if err := f.Apply(t.Context(), cs[:1]); err != nil {
		t.Errorf("the store is of no use afterwards: %v", err)
	}
}

// A lock that somebody holds is an error within the limit, not a hang.
func TestFileLockedByAnother(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spend")
	f := openFile(t, path)
	b := mustNew(t, budget.Config{Limit: 1000, Store: f, StoreTimeout: time.Minute})
	hasty := mustNew(t, budget.Config{Limit: 1000, Store: f, StoreTimeout: 20 * time.Millisecond})
	mustReserve(t, b, "", 10)
	l, err := durable.OpenLock(nil, path+".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := l.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := mustRefuse(t, hasty, "", 1, budget.ErrStore)
	if !errors.Is(e, durable.ErrLocked) {
		t.Errorf("err = %v", e)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	mustReserve(t, b, "", 1)
	equal(t, "spent", spent(t, b), int64(11))
}

// Two budgets over one file at the same time, each with its own handle.
func TestFileSharedInOneProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spend")
	var mu sync.Mutex
	granted := 0
	var wg sync.WaitGroup
	for range 2 {
		b := mustNew(t, budget.Config{Limit: 1000, Headroom: -1, Store: openFile(t, path), StoreTimeout: time.Minute})
		for range 100 {
			wg.Go(func() {
				if _, err := b.Reserve(context.Background(), "", 100); err == nil {
					mu.Lock()
					granted++
					mu.Unlock()
				} else if !errors.Is(err, budget.ErrExhausted) {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	equal(t, "granted", granted, 10)
}
