package retry_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/retry"
)

// What was paid for is not lost, and the item goes on.
func TestAHookThatPanicsLosesNothing(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	config := noWait(retry.Config{
		OnAttempt: func(retry.Attempt) { panic("after an attempt") },
		OnWait:    func(retry.Wait) { panic("before a wait") },
		Logger:    slog.New(slog.NewTextHandler(&log, nil)),
	})
	r := mustNew(t, config)
	n := 0
	v, err := retry.Do(t.Context(), r, func(context.Context) (string, error) {
		if n++; n == 1 {
			return "", errUpstream
		}
		return "paid", nil
	})
	noError(t, err)
	equal(t, "value", v, "paid")
	n = 0
	noError(t, r.Do(t.Context(), func(context.Context) error {
		if n++; n == 1 {
			return errUpstream
		}
		return nil
	}))
	s := r.Stats()
	equal(t, "items, calls, done, working, panics", []int64{int64(s.Items), int64(s.Calls), int64(s.Done), s.Working, int64(s.HookPanics)}, []int64{2, 4, 2, 0, 6})
	if text := log.String(); strings.Count(text, "OnAttempt panicked") != 4 || strings.Count(text, "OnWait panicked") != 2 || !strings.Contains(text, "before a wait") {
		t.Errorf("log:\n%s", text)
	}

	for name, last := range map[string]step{"held": good, "stream": {status: 200, header: "Content-Type: text/event-stream", body: sse + sseEnd}} {
		r := mustNew(t, config)
		sc := newScript(failWith(503), last)
		resp, err := retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, name+": body", readAll(t, resp), last.body)
		s := r.Stats()
		equal(t, name+": calls, done, working, panics", []int64{int64(s.Calls), int64(s.Done), s.Working, int64(s.HookPanics)}, []int64{2, 1, 0, 3})
		equal(t, name+": bodies open", sc.leaked(), 0)
	}
}

// A panic of a hook whose word is needed goes on to the caller. It and the end
// of the goroutine leave nothing behind.
func TestAJudgeThatPanicsLeavesNothingOpen(t *testing.T) {
	t.Parallel()
	stream := step{status: 200, header: "Content-Type: text/event-stream", body: sse + sseEnd}
	for name, tc := range map[string]struct {
		config retry.Config
		answer step
	}{
		"Classify, failure": {retry.Config{Classify: func(*http.Request, *http.Response, error) retry.Decision { panic("hook") }}, failWith(503)},
		"Classify, held":    {retry.Config{Classify: func(*http.Request, *http.Response, error) retry.Decision { panic("hook") }}, good},
		"Classify, stream":  {retry.Config{Classify: func(*http.Request, *http.Response, error) retry.Decision { panic("hook") }}, stream},
		"Validate":          {retry.Config{Validate: func(*http.Response, []byte) error { panic("hook") }}, good},
		"Rand":              {retry.Config{Rand: func() float64 { panic("hook") }}, failWith(503)},
		"an exit, held":     {retry.Config{OnAttempt: func(retry.Attempt) { exit() }}, good},
		"an exit, stream":   {retry.Config{OnAttempt: func(retry.Attempt) { exit() }}, stream},
	} {
		sc := newScript(tc.answer)
		r := mustNew(t, tc.config)
		var met any
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { met = recover() }()
			_, _ = retry.NewTransport(sc, r).RoundTrip(post(t, "http://upstream/", "{}"))
			t.Errorf("%s: RoundTrip came back", name)
		}()
		<-done
		want := any("hook")
		if strings.HasPrefix(name, "an exit") {
			want = nil
		}
		s := r.Stats()
		equal(t, name+": panic", met, want)
		equal(t, name+": open, calls, failed, working", []int64{int64(sc.leaked()), int64(s.Calls), int64(s.Failed), s.Working}, []int64{0, 1, 1, 0})
	}

	r := mustNew(t, retry.Config{Classify: func(*http.Request, *http.Response, error) retry.Decision { panic("hook") }})
	func() {
		defer func() { equal(t, "panic", recover(), any("hook")) }()
		_ = r.Do(t.Context(), func(context.Context) error { return io.EOF })
	}()
	s := r.Stats()
	equal(t, "calls, failed, working", []int64{int64(s.Calls), int64(s.Failed), s.Working}, []int64{1, 1, 0})
}
