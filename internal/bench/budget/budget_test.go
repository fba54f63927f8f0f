package budget_test

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/nightfuse/nightfuse/budget"
)

const (
	limit  = 1 << 50
	amount = 1000
)

var errFull = errors.New("nothing left")

// newBudget is a budget for everybody together, or with owners beside the pool.
func newBudget(b *testing.B, s budget.Store, owners ...budget.Owner) *budget.Budget {
	b.Helper()
	day, err := budget.New(budget.Config{Limit: limit, Store: s, Owners: owners})
	if err != nil {
		b.Fatal(err)
	}
	return day
}

var nightly = budget.Owner{Name: "nightly", Limit: limit / 2}

// callers are the two ways of running: alone, and 32 goroutines that share the
// b.N calls.
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
		var left atomic.Int64
		left.Store(int64(b.N))
		var wg sync.WaitGroup
		b.ResetTimer()
		for range 32 {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					if err := call(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

// ledger is what everybody writes first: a lock, and a map by day.
type ledger struct {
	mu    sync.Mutex
	spent map[string]int64
	owner bool // a ceiling for the owner, too
}

func pool() string         { return time.Now().UTC().Format("2006-01-02") }
func of(day string) string { return day + "|nightly" }

func (l *ledger) reserve(n int64) error {
	day := pool()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spent[day]+n > limit || l.owner && l.spent[of(day)]+n > limit/2 {
		return errFull
	}
	l.add(day, n)
	return nil
}

func (l *ledger) reconcile(n, actual int64) {
	day := pool()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(day, actual-n)
}

func (l *ledger) add(day string, n int64) {
	l.spent[day] += n
	if l.owner {
		l.spent[of(day)] += n
	}
}

// BenchmarkMemory is one call: reserved, and settled with what it used.
func BenchmarkMemory(b *testing.B) {
	ctx := b.Context()
	for _, c := range []struct {
		name, owner string
		owners      []budget.Owner
	}{{"", "", nil}, {"-owners", "nightly", []budget.Owner{nightly}}} {
		day := newBudget(b, budget.NewMemory(), c.owners...)
		callers(b, "nightfuse"+c.name, func() error {
			r, err := day.Reserve(ctx, c.owner, amount)
			if err != nil {
				return err
			}
			return r.Reconcile(ctx, 1)
		})
		plain := &ledger{spent: make(map[string]int64), owner: c.owners != nil}
		callers(b, "mutex-and-map"+c.name, func() error {
			if err := plain.reserve(amount); err != nil {
				return err
			}
			plain.reconcile(amount, 1)
			return nil
		})
	}
}

// BenchmarkDurable is one reservation on stable storage.
func BenchmarkDurable(b *testing.B) {
	ctx := b.Context()
	file, err := budget.OpenFile(filepath.Join(b.TempDir(), "spend"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = file.Close() })
	day := newBudget(b, file, nightly)
	callers(b, "nightfuse", func() error {
		_, err := day.Reserve(ctx, "nightly", amount)
		return err
	})
	for _, c := range []struct {
		name string
		in   func(*bbolt.DB) func(func(*bbolt.Tx) error) error
	}{
		{"bbolt-update", func(db *bbolt.DB) func(func(*bbolt.Tx) error) error { return db.Update }},
		{"bbolt-batch", func(db *bbolt.DB) func(func(*bbolt.Tx) error) error { return db.Batch }},
		{"bbolt-batch-tuned", func(db *bbolt.DB) func(func(*bbolt.Tx) error) error {
			db.MaxBatchSize = 32
			return db.Batch
		}},
	} {
		db, err := bbolt.Open(filepath.Join(b.TempDir(), "spend.db"), 0o600, &bbolt.Options{Timeout: time.Second})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = db.Close() })
		in := c.in(db)
		callers(b, c.name, func() error { return in(inBolt) })
	}
}

// inBolt reserves in a transaction.
func inBolt(tx *bbolt.Tx) error {
	day := pool()
	bucket, err := tx.CreateBucketIfNotExists([]byte("spent"))
	if err != nil {
		return err
	}
	add := func(key string, most int64) error {
		var v int64
		if old := bucket.Get([]byte(key)); old != nil {
			v = int64(binary.BigEndian.Uint64(old))
		}
		if v+amount > most {
			return errFull
		}
		return bucket.Put([]byte(key), binary.BigEndian.AppendUint64(nil, uint64(v+amount)))
	}
	if err := add(day, limit); err != nil {
		return err
	}
	return add(of(day), limit/2)
}
