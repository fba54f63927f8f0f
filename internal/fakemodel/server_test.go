package fakemodel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

func TestServer(t *testing.T) {
	t.Parallel()
	prompt := func(text string) fakemodel.Pick {
		return fakemodel.Pick{If: func(c fakemodel.Call) bool { return c.Prompt == text }}
	}
	m := newModel(t, fakemodel.Config{
		Key:   "k",
		Hints: fakemodel.Hints{Seconds: true, Wait: time.Second},
		Faults: fakemodel.Faults{
			Poison: prompt("poison"), Empty: prompt("void"), Flaky: prompt("flaky"),
		},
	})
	server, err := m.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	url := server.URL + "/chat/completions"
	rt := server.Client().Transport
	var got []string
	for _, text := range []string{"hello", "poison", "void", "flaky"} {
		r := postTo(t.Context(), rt, url, ask(text), "Authorization", "Bearer k")
		got = append(got, r.outcome())
		if r.header.Get("X-Request-Id") == "" || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: headers %v", text, r.header)
		}
	}
	got = append(got, postTo(t.Context(), rt, url, ask("hello")).outcome())
	if diff := cmp.Diff(got, []string{ok, poisoned, empty, flaky, badKey}); diff != "" {
		t.Errorf("outcomes (-got +want):\n%s", diff)
	}
	if err := server.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := server.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if r := postTo(t.Context(), rt, url, ask("hello"), "Authorization", "Bearer k"); r.err == nil {
		t.Errorf("after Close: got %q, want an error", r.outcome())
	}
	want := map[int]int{200: 2, 400: 1, 401: 1, 500: 1}
	if diff := cmp.Diff(m.Stats().Status, want); diff != "" {
		t.Errorf("status (-got +want):\n%s", diff)
	}
}

// Close does not wait for calls that will never be answered, be it before the
// headers or within a stream.
func TestServerClosesUnderHangingCalls(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	m := newModel(t, fakemodel.Config{Faults: fakemodel.Faults{
		Hang: fakemodel.Pick{If: func(c fakemodel.Call) bool {
			if c.Prompt != "hang" {
				return false
			}
			close(arrived)
			return true
		}},
		Stall: fakemodel.Pick{Share: 1},
	}})
	server, err := m.Start()
	if err != nil {
		t.Fatal(err)
	}
	url := server.URL + "/chat/completions"
	hung := make(chan reply)
	go func() { hung <- postTo(t.Context(), server.Client().Transport, url, ask("hang")) }()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(ask("stall", `"stream":true`)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	<-arrived
	if err := server.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if r := <-hung; r.err == nil {
		t.Errorf("hanging call: got %q, want an error", r.outcome())
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("stalled stream: read to the end, want an error")
	}
	if s := m.Stats(); s.InFlight != 0 || s.Status[0] != 1 {
		t.Errorf("in flight %d, unanswered %d, want 0 and 1", s.InFlight, s.Status[0])
	}
}

// A server notices that its client has gone, also in a bubble.
func TestServerNoticesAClientThatLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel(t, fakemodel.Config{Latency: fakemodel.Latency{Median: time.Hour}})
		server := m.StartPipe()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := postTo(ctx, server.Client().Transport, server.URL+"/chat/completions", ask("hello"))
		if !errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", r.err, context.DeadlineExceeded)
		}
		synctest.Wait()
		if s := m.Stats(); s.InFlight != 0 || s.Status[0] != 1 {
			t.Errorf("in flight %d, unanswered %d, want 0 and 1", s.InFlight, s.Status[0])
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
}
