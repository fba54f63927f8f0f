package fakemodel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// watched is a request body that knows whether it was closed.
type watched struct {
	io.Reader
	closed int
}

func (w *watched) Close() error {
	w.closed++
	return nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestRoundTripClosesTheRequestBody(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	tests := []struct {
		name   string
		ctx    context.Context
		body   io.Reader
		config fakemodel.Config
		err    error
		calls  int
	}{
		{"answer", t.Context(), strings.NewReader(ask("a")), fakemodel.Config{}, nil, 1},
		{"refusal", t.Context(), strings.NewReader(ask("a")), fakemodel.Config{Key: "k"}, nil, 1},
		{"unreadable", t.Context(), failing{broken}, fakemodel.Config{}, broken, 0},
		{"context over", cancelled, strings.NewReader(ask("a")), fakemodel.Config{}, broken, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, tt.config)
			body := &watched{Reader: tt.body}
			req, err := http.NewRequestWithContext(tt.ctx, http.MethodPost, "http://fake/chat/completions", body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := m.RoundTrip(req)
			if !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.err)
			}
			if resp != nil {
				defer resp.Body.Close()
			}
			if body.closed != 1 {
				t.Errorf("body closed %d times, want once", body.closed)
			}
			if got := m.Stats().Calls; got != tt.calls {
				t.Errorf("calls: got %d, want %d", got, tt.calls)
			}
		})
	}
}

func TestRoundTripGivesWhatATransportGives(t *testing.T) {
	t.Parallel()
	m := newModel(t, fakemodel.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://fake/chat/completions", strings.NewReader(ask("a")))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := m.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Request != req || resp.Status != "200 OK" || resp.ProtoMajor != 1 || resp.ContentLength <= 0 {
		t.Errorf("got %+v", resp)
	}
	buf := make([]byte, 10)
	if n, err := io.ReadFull(resp.Body, buf); n != 10 || err != nil {
		t.Errorf("read: got %d, %v", n, err)
	}
	cancel()
	if _, err := resp.Body.Read(buf); !errors.Is(err, context.Canceled) {
		t.Errorf("read after the context's end: got %v, want %v", err, context.Canceled)
	}
	for range 2 { // the second changes nothing
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := resp.Body.Read(buf); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("read after Close: got %v, want %v", err, http.ErrBodyReadAfterClose)
	}
	if got := m.Stats().OpenBodies; got != 0 {
		t.Errorf("open bodies: got %d, want 0", got)
	}
}

// Who leaves before the answer is not answered, but billed.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, fakemodel.Config{Latency: fakemodel.Latency{Median: time.Minute}})
		client := &http.Client{Transport: m, Timeout: time.Second}
		start := time.Now()
		resp, err := client.Post("http://fake/chat/completions", "application/json", strings.NewReader(ask("hello")))
		if err == nil {
			resp.Body.Close()
		}
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("got %v after %v, want a timeout after 1s", err, time.Since(start))
		}
		s := m.Stats()
		got := []int{s.Status[0], s.Status[http.StatusOK], s.InFlight, int(s.Tokens)}
		if diff := cmp.Diff(got, []int{1, 0, 0, 10}); diff != "" {
			t.Errorf("unanswered, answered, in flight, billed (-got +want):\n%s", diff)
		}
	})
}

func TestStatsOfACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, fakemodel.Config{Latency: fakemodel.Latency{Median: 1500 * time.Millisecond}})
		start := time.Now()
		var wg sync.WaitGroup
		// At 0, 0.5, 1 and 1.5 s one, two, three and four calls set out.
		for n := range 4 {
			for range n + 1 {
				wg.Go(func() { post(t.Context(), m, ask("hello")) })
			}
			time.Sleep(500 * time.Millisecond)
		}
		wg.Wait()
		s := m.Stats()
		// The first is back when the last four come, or it is not: both are
		// at 1.5 s.
		if s.MaxInFlight != 9 && s.MaxInFlight != 10 {
			t.Errorf("most in flight: got %d, want 9 or 10", s.MaxInFlight)
		}
		if s.PeakPerSecond != 7 {
			t.Errorf("peak: got %d, want 7 (those of 1 s and 1.5 s)", s.PeakPerSecond)
		}
		if s.First != start || s.Last.Sub(s.First) != 1500*time.Millisecond {
			t.Errorf("first %v, last %v, want them 1.5s apart", s.First, s.Last)
		}
	})
}

func TestInjectedClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mock := clock.NewMock()
		m := newModel(t, fakemodel.Config{
			Clock:   mock,
			Limits:  fakemodel.Limits{RPM: 60},
			Hints:   fakemodel.Hints{Date: true},
			Latency: fakemodel.Latency{Median: time.Minute, Reject: time.Second},
		})
		replies := make(chan reply, 2)
		for range 2 {
			go func() { replies <- post(t.Context(), m, ask("hello")) }()
			synctest.Wait()
		}
		mock.Add(time.Second)
		r := <-replies
		if got := r.outcome(); got != limited {
			t.Errorf("after a second: got %q, want %q", got, limited)
		}
		if got := r.header.Get("Retry-After"); got != "Thu, 01 Jan 1970 00:00:01 GMT" {
			t.Errorf("Retry-After: got %q", got)
		}
		mock.Add(58 * time.Second)
		synctest.Wait()
		if len(replies) != 0 {
			t.Errorf("after 59 s: got %q, want nothing yet", (<-replies).outcome())
		}
		mock.Add(time.Second)
		if got := (<-replies).outcome(); got != ok {
			t.Errorf("after a minute: got %q, want %q", got, ok)
		}
	})
}
