package deadletter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/durable"
)

// benchLetter is a typical letter of 2 KiB payload.
func benchLetter(i int64) deadletter.Record {
	return deadletter.Record{
		Queue: "nightly", ItemID: fmt.Sprint("doc-", i), Attempts: 4, Status: 429, Signature: "1:0123456789ab",
		SignatureText: "the upstream answered <num> rate_limit_exceeded", Err: "the upstream answered 429 rate_limit_exceeded: slow down",
		Method: "POST", URL: "https://api.example/v1/chat/completions", EstTokens: 900,
		Header:  map[string][]string{"Content-Type": {"application/json"}},
		Payload: payloadOf("x", 2048),
	}
}

// appender is the journal everybody writes first: JSON lines, one sync each.
type appender struct {
	mu sync.Mutex
	f  durable.File
	at int64
}

func (a *appender) put(r deadletter.Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.f.WriteAt(append(b, '\n'), a.at); err != nil {
		return err
	}
	a.at += int64(len(b)) + 1
	return a.f.Sync()
}

func benchPut(b *testing.B, writers int, put func(deadletter.Record) error) {
	b.Helper()
	var n atomic.Int64
	b.ResetTimer()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				if err := put(benchLetter(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "letters/s")
}

// BenchmarkPut compares a durable Put with one write and sync for each letter,
// in the same run.
func BenchmarkPut(b *testing.B) {
	for _, writers := range []int{1, 32} {
		b.Run(fmt.Sprintf("naive-%d", writers), func(b *testing.B) {
			f, err := durable.OS.OpenFile(filepath.Join(b.TempDir(), "naive.jsonl"), os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			a := &appender{f: f}
			benchPut(b, writers, a.put)
		})
		b.Run(fmt.Sprintf("journal-%d", writers), func(b *testing.B) {
			j := openJournal(b, b.TempDir())
			benchPut(b, writers, func(r deadletter.Record) error { return j.Put(context.Background(), r) })
		})
	}
}

// BenchmarkOpen opens and sums up a journal of 40,000 letters.
func BenchmarkOpen(b *testing.B) {
	const letters = 40_000
	dir := b.TempDir()
	j := openJournal(b, dir)
	benchFill(b, j, letters)
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		j, err := deadletter.OpenJournal(dir)
		if err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/letters, "heap-B/letter")
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGroups sums up 40,000 letters by signature, as a page does.
func BenchmarkGroups(b *testing.B) {
	j := openJournal(b, b.TempDir())
	benchFill(b, j, 40_000)
	for b.Loop() {
		if s, err := j.Stats(context.Background(), deadletter.Filter{}); err != nil || len(s.Groups) != 1 {
			b.Fatal(s, err)
		}
	}
}

// BenchmarkClaim claims and acks one letter of 4,400.
func BenchmarkClaim(b *testing.B) {
	j := openJournal(b, b.TempDir())
	benchFill(b, j, 4400)
	for b.Loop() {
		c, err := j.Claim(context.Background(), deadletter.ClaimReq{})
		if err != nil || len(c) != 1 {
			b.Fatal(c, err)
		}
		if err := j.Resolve(context.Background(), c[0].Token, deadletter.Outcome{Verb: deadletter.Release}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDo is the cost of a success.
func BenchmarkDo(b *testing.B) {
	q := newQueue(b, deadletter.Config{})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if err := q.Do(ctx, nil, func(context.Context) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func benchFill(b *testing.B, j *deadletter.Journal, letters int64) {
	b.Helper()
	var n atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, 64)
	for w := range errs {
		wg.Go(func() {
			for i := n.Add(1); i <= letters && errs[w] == nil; i = n.Add(1) {
				errs[w] = j.Put(context.Background(), benchLetter(i))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
}
