package retry_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/nightfuse/nightfuse/retry"
)

// R10: after 10,000 failures of every kind nothing is left: no goroutine, no
// response body, and no timer. A timer that still runs is an object that is
// still reachable, so objects are counted. Not parallel: it counts the whole
// process.
func TestTenThousandFailuresLeaveNothingBehind(t *testing.T) {
	sc := newScript(good)
	n := 0
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		n++
		sc.mu.Lock()
		sc.hits = sc.hits[:0]
		sc.steps = sc.steps[:1]
		sc.steps[0] = [...]step{
			failWith(503), failWith(400),
			{err: io.ErrUnexpectedEOF},
			{status: 200, body: `{"choices":[]}`},
			{status: 200, header: "Content-Type: text/event-stream", body: "data: {\"error\":{\"code\":503}}\n\n"},
		}[n%5]
		sc.mu.Unlock()
		return sc.RoundTrip(req)
	})
	r := mustNew(t, noWait(retry.Config{Attempts: 2}))
	rt := retry.NewTransport(base, r)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := func(count int) {
		for range count {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://upstream/", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := rt.RoundTrip(req)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}
	}
	objects := func() (uint64, int) {
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapObjects, runtime.NumGoroutine()
	}
	// What is kept for good, such as the samples of the window and the runtime's
	// stopped timers, is filled by as many calls first.
	run(10_000)
	before, goroutines := objects()
	run(10_000)
	after, now := objects()
	if after > before+2000 {
		t.Errorf("%d objects before, %d after", before, after)
	}
	if now > goroutines {
		t.Errorf("%d goroutines before, %d after", goroutines, now)
	}
	equal(t, "bodies open", sc.leaked(), 0)
	equal(t, "working", r.Stats().Working, 0)
}

// R21: 64 goroutines on one client, while handlers still read headers.
func TestManyGoroutinesOnOneTransport(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := make(map[string]int)
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		item := req.Header.Get("X-Item")
		mu.Lock()
		seen[item]++
		n := seen[item]
		mu.Unlock()
		for k, vs := range req.Header {
			_, _ = k, strings.Join(vs, ",")
		}
		if n < 3 {
			w.WriteHeader(503)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, goodBody)
	}))
	r := mustNew(t, noWait(retry.Config{}))
	c := client(t, r)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			req := post(t, srv.URL, "{}")
			req.Header.Set("X-Item", itoa(i))
			before := req.Header.Clone()
			resp, err := c.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			equal(t, "body", readAll(t, resp), goodBody)
			equal(t, "header", req.Header, before)
		})
	}
	wg.Wait()
	s := r.Stats()
	equal(t, "calls, done", []uint64{s.Calls, s.Done}, []uint64{192, 64})
}
