package deadletter_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
)

// Recorded with one key, replayed with another: no record holds either
// (dnaeon/go-vcr#103).
func TestHTTPSenderBringsFreshCredentials(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	q := newQueue(t, deadletter.Config{Store: store})
	status := 503
	var seen *http.Request
	var body string
	rt := deadletter.NewTransport(rounds(func(req *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(req.Body)
		seen, body = req, string(b)
		return answer(status, goodAnswer), err
	}), q)
	req := request(t, t.Context(), "item", strings.NewReader("the payload"))
	req.URL.RawQuery = "tenant=7&key=OLDKEY-0123456789abcdef"
	req.Header.Set("Authorization", "Bearer OLDKEY-0123456789abcdef")
	_, _, _ = send(rt, req)

	status = 200
	var stored []string
	sender := deadletter.HTTPSender{
		Client: &http.Client{Transport: rt},
		Authorize: func(req *http.Request) error {
			req.Header.Set("Authorization", "Bearer new")
			return nil
		},
		Accept: func(_ context.Context, r deadletter.Record, resp *http.Response, body []byte) error {
			if now, err := store.Get(t.Context(), r.ID); err != nil || now.State != deadletter.Claimed {
				t.Errorf("the result comes when the letter is %s", now.State)
			}
			stored = append(stored, r.ItemID+string(body))
			return nil
		},
	}
	rep, err := deadletter.Replay(t.Context(), store, sender.Send, deadletter.Options{})
	if err != nil || rep.Acked != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if body != "the payload" || seen.Method != http.MethodPost || seen.URL.RawQuery != "tenant=7" ||
		seen.Header.Get("Authorization") != "Bearer new" || seen.Header.Get("Content-Type") != "application/json" ||
		seen.Header.Get("Idempotency-Key") != deadletter.ID("q", "item") {
		t.Errorf("replayed as %s %s %v %q", seen.Method, seen.URL, seen.Header, body)
	}
	if len(stored) != 1 || stored[0] != "item"+goodAnswer {
		t.Errorf("%q", stored)
	}
	if s := q.Stats(); s.Items != 1 {
		t.Errorf("the transport kept what the replay keeps: %+v", s)
	}
}

func TestHTTPSenderJudgesAnswers(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	r := deadletter.Record{ID: "id", Method: "POST", URL: "https://api.example/v1/chat/completions", Payload: []byte("p")}
	for name, tt := range map[string]struct {
		base  rounds
		keep  error
		want  string
		check func(error) bool
	}{
		"good":       {base: func(*http.Request) (*http.Response, error) { return answer(200, goodAnswer), nil }},
		"status":     {base: func(*http.Request) (*http.Response, error) { return answer(429, badAnswer), nil }, want: "429"},
		"empty":      {base: func(*http.Request) (*http.Response, error) { return answer(200, emptyAnswer), nil }, want: "empty"},
		"in the 200": {base: func(*http.Request) (*http.Response, error) { return answer(200, badAnswer), nil }, want: "bad_thing"},
		"redirect":   {base: func(*http.Request) (*http.Response, error) { return answer(304, ""), nil }, want: "304"},
		"connection": {base: func(*http.Request) (*http.Response, error) { return nil, full }, want: "disk full"},
		"refused": {
			base: func(*http.Request) (*http.Response, error) { return nil, refusal{"breaker"} }, want: "refused",
			check: func(err error) bool { return call.RefusedBy(err) == "breaker" },
		},
		"result not kept": {
			base: func(*http.Request) (*http.Response, error) { return answer(200, goodAnswer), nil }, keep: full, want: "disk full",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deadletter.HTTPSender{
				Client: &http.Client{Transport: tt.base},
				Accept: func(context.Context, deadletter.Record, *http.Response, []byte) error { return tt.keep },
			}
			err := s.Send(t.Context(), r)
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if tt.check != nil && !tt.check(err) {
				t.Errorf("%v has lost its meaning", err)
			}
		})
	}
}

// A letter of the function form is no request; it must not be counted as
// replayed in vain.
func TestHTTPSenderLeavesOtherLettersAlone(t *testing.T) {
	t.Parallel()
	store := deadletter.NewMemory()
	put(t, store, "function", "p")
	rep, err := deadletter.Replay(t.Context(), store, deadletter.HTTPSender{}.Send, deadletter.Options{})
	if rep.Released != 1 || rep.StoppedBy != "sender" || err == nil {
		t.Errorf("%+v, %v", rep, err)
	}
	if r, err := store.Get(t.Context(), deadletter.ID("q", "function")); err != nil || r.Replays != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
