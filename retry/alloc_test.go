package retry_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nightfuse/nightfuse/retry"
)

// A good call costs one allocation: the context that its function gets. Not
// parallel: allocations are counted for the whole process.
func TestAllocations(t *testing.T) {
	ctx := context.Background()
	r := mustNew(t, retry.Config{})
	fn := func(context.Context) (int, error) { return 1, nil }
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := retry.Do(ctx, r, fn); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("Do: %v allocations, want 1", n)
	}
	plain := func(context.Context) error { return nil }
	if n := testing.AllocsPerRun(1000, func() {
		if err := r.Do(ctx, plain); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("Retrier.Do: %v allocations, want 1", n)
	}
}

// readCounter counts the bytes that are read from it.
type readCounter struct {
	io.Reader
	n *atomic.Int64
}

func (r readCounter) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n.Add(int64(n))
	return n, err
}

// A body with GetBody is never read by the transport, so nothing is copied, and
// the base gets what GetBody returns itself.
func TestABodyWithGetBodyIsNotCopied(t *testing.T) {
	t.Parallel()
	var read atomic.Int64
	var made, got []io.ReadCloser
	req := post(t, "http://upstream/", strings.Repeat("x", 1<<20))
	fresh := func() io.ReadCloser {
		b := io.NopCloser(readCounter{strings.NewReader(strings.Repeat("x", 1<<20)), &read})
		made = append(made, b)
		return b
	}
	req.Body = fresh()
	req.GetBody = func() (io.ReadCloser, error) { return fresh(), nil }
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		got = append(got, req.Body)
		_ = req.Body.Close()
		return respond(req, failWith(503), func() {}), nil
	})
	_, err := retry.NewTransport(base, mustNew(t, noWait(retry.Config{}))).RoundTrip(req)
	equal(t, "calls, bodies, bytes read", []int{asError(t, err).Calls, len(made), int(read.Load())}, []int{4, 5, 0})
	for i, b := range got {
		if b != made[i+1] {
			t.Errorf("attempt %d got another body than GetBody made", i+1)
		}
	}
}
