package deadletter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/inspect"
)

// payload is 2 KiB as a request might be.
var payload = func() []byte {
	b := make([]byte, 2048)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = 'a' + byte(rng.IntN(26))
	}
	return b
}()

var next atomic.Int64

// letter is a typical one, with a name of its own.
func letter() deadletter.Record {
	return deadletter.Record{
		Queue: "nightly", ItemID: fmt.Sprintf("inbox/customer-%07d.json", next.Add(1)), Attempts: 4, Status: 503, Signature: "1:744b33b071ca",
		SignatureText: "503 service unavailable: overloaded_error: the server is overloaded, request #",
		Err:           "retry: 4 calls in 21.4s: attempts used up: 503 Service Unavailable: overloaded_error: The server is overloaded.",
		Method:        "POST", URL: "https://api.example.com/v1/chat/completions", EstTokens: 1830,
		Header: http.Header{"Content-Type": {"application/json"}}, Payload: payload,
	}
}

// keeper keeps letters durably.
type keeper struct {
	name string
	put  func(deadletter.Record) error
}

// lines is the journal everybody writes first: a line of JSON and a sync for
// each letter.
func lines(b *testing.B, name string, flush func(*os.File) error) keeper {
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "letters.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	var mu sync.Mutex
	return keeper{name, func(r deadletter.Record) error {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := f.Write(append(text, '\n')); err != nil {
			return err
		}
		return flush(f)
	}}
}

// bolt is bbolt with what makes it fast for this: no freelist on the disk, and
// batches that wait no longer than it takes the callers to come.
func bolt(b *testing.B, writers int) keeper {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "bolt"), 0o600, &bbolt.Options{
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 1 << 28,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.MaxBatchSize, db.MaxBatchDelay = writers, time.Millisecond
	bucket := []byte("letters")
	if err := db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	write := db.Batch
	if writers == 1 {
		write = db.Update
	}
	return keeper{"bbolt", func(r deadletter.Record) error {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		key := []byte(deadletter.ID(r.Queue, r.ItemID))
		return write(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put(key, text) })
	}}
}

func journal(b *testing.B) keeper {
	j, err := deadletter.OpenJournal(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = j.Close() })
	return keeper{"journal", func(r deadletter.Record) error { return j.Put(context.Background(), r) }}
}

// rate is how many letters a second k keeps for so many writers.
func rate(b *testing.B, k keeper, writers, letters int) float64 {
	var left atomic.Int64
	left.Store(int64(letters))
	var wg sync.WaitGroup
	start := time.Now()
	for range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := k.put(letter()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(letters) / time.Since(start).Seconds()
}

func median(list []float64) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[len(list)/2]
}

// BenchmarkAppend lets each keep some letters durably in turn, in an order by lot
// every round: what one has left to the disk is for the next to wait for.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 32} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			keepers := []keeper{
				journal(b), lines(b, "fsync-each", (*os.File).Sync), lines(b, "fdatasync-each", datasync), bolt(b, writers),
			}
			letters := 150 * min(writers, 8)
			rates := map[string][]float64{}
			lots := rand.New(rand.NewPCG(3, 4))
			for b.Loop() {
				for _, i := range lots.Perm(len(keepers)) {
					k := keepers[i]
					rates[k.name] = append(rates[k.name], rate(b, k, writers, letters))
				}
			}
			b.ReportMetric(0, "ns/op")
			for _, k := range keepers {
				b.ReportMetric(median(rates[k.name]), k.name+"/s")
				if k.name == "journal" {
					continue
				}
				ratios := make([]float64, len(rates[k.name]))
				for i := range ratios {
					ratios[i] = rates["journal"][i] / rates[k.name][i]
				}
				b.ReportMetric(median(ratios), "x-"+k.name)
			}
		})
	}
}

// BenchmarkNight is the morning after: 40,000 letters with 2 KiB each.
func BenchmarkNight(b *testing.B) {
	const letters = 40_000
	dir := b.TempDir()
	j, err := deadletter.OpenJournal(dir)
	if err != nil {
		b.Fatal(err)
	}
	rate(b, keeper{put: func(r deadletter.Record) error { return j.Put(context.Background(), r) }}, 64, letters)
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	var open, heap, page, list []float64
	for b.Loop() {
		before := inUse()
		start := time.Now()
		j, err := deadletter.OpenJournal(dir)
		if err != nil {
			b.Fatal(err)
		}
		open = append(open, time.Since(start).Seconds()*1e3)
		heap = append(heap, float64(inUse()-before)/1e6)
		h, err := inspect.New(inspect.Config{Store: j})
		if err != nil {
			b.Fatal(err)
		}
		for path, times := range map[string]*[]float64{"/": &page, "/list": &list} {
			start = time.Now()
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			*times = append(*times, time.Since(start).Seconds()*1e3)
			if w.Code != http.StatusOK {
				b.Fatal(path, w.Code)
			}
		}
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(open), "open-ms")
	b.ReportMetric(median(heap), "heap-MB")
	b.ReportMetric(median(page), "groups-ms")
	b.ReportMetric(median(list), "list-ms")
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
