package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/signature"
)

// ended is what a retry notes when it has given up.
type ended struct {
	last   error
	status int
}

func (e *ended) Error() string   { return "retry: 3 calls in 2s: attempts used up: " + e.last.Error() }
func (e *ended) Unwrap() error   { return e.last }
func (e *ended) Signs() error    { return e.last }
func (e *ended) Attempts() int   { return 3 }
func (e *ended) StatusCode() int { return e.status }

// status is an SDK's own error for an answer.
type status struct {
	code int
	text string
}

func (e status) Error() string   { return e.text }
func (e status) StatusCode() int { return e.code }

// A letter has the signature that the breaker inside has counted, also when
// what comes out of the function is a text; but a function that got over one
// failure and met another is told by the other.
func TestLetterTellsTheRightFailure(t *testing.T) {
	t.Parallel()
	last := errors.New("503 Service Unavailable: overloaded_error: try later")
	noted := &ended{last, 503}
	other := errors.New("the answer is no JSON")
	// What the upstream said comes first.
	first := func(around string) string {
		return last.Error() + " (" + around + "retry: 3 calls in 2s: attempts used up)"
	}
	before := " (the last call failed: " + noted.Error() + ")"
	for _, tt := range []struct {
		name     string
		err      error
		sign     error
		text     string
		status   int
		attempts int
	}{
		{"as it is", noted, last, first(""), 503, 3},
		{"wrapped by a client", &url.Error{Op: "Post", URL: "http://model.test/v1?key=abc", Err: noted}, last, first("Post: "), 503, 3},
		{"wrapped by the function", fmt.Errorf("summarise: %w", noted), last, first("summarise: "), 503, 3},
		{"a text that repeats it", fmt.Errorf("summarise: %v", noted), last, first("summarise: "), 503, 3},
		{"a client's time-out", fmt.Errorf("sdk: %w", context.DeadlineExceeded), last, first("sdk: context deadline exceeded: "), 503, 3},
		{"an SDK's error for the same answer", status{503, "overloaded"}, last, first("overloaded: "), 503, 3},
		{"an SDK's error for another answer", status{400, "too long"}, status{400, "too long"}, "too long" + before, 400, 2},
		{"a text that lost it", other, other, other.Error() + before, 503, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, deadletter.Config{})
			err := q.Do(deadletter.WithItem(t.Context(), "item"), []byte("p"), func(ctx context.Context) error {
				item := call.From(ctx).Item
				item.Sent()
				item.Sent()
				item.Fail(noted)
				return tt.err
			})
			if err != tt.err {
				t.Errorf("%v was returned as %v", tt.err, err)
			}
			r, err := q.Get(t.Context(), "item")
			if err != nil {
				t.Fatal(err)
			}
			type tells struct {
				Signature, Err   string
				Status, Attempts int
			}
			got := tells{r.Signature, r.Err, r.Status, r.Attempts}
			if diff := cmp.Diff(got, tells{string(signature.Of(tt.sign)), tt.text, tt.status, tt.attempts}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// fieldsError keeps of an answer what openai-go keeps, and says as little.
type fieldsError struct {
	StatusCode          int
	Code, Message, Type string
}

func (e *fieldsError) Error() string { return fmt.Sprint("OpenAI API error: ", e.StatusCode) }

// bodyError keeps the body, as anthropic-sdk-go does.
type bodyError struct {
	StatusCode int
	body       string
}

func (e *bodyError) Error() string   { return fmt.Sprint(e.StatusCode, " ", e.body) }
func (e *bodyError) RawJSON() string { return e.body }

// given is what a retry notes: its calls, 0 of which are none.
type given struct {
	ended
	calls int
}

func (g *given) Attempts() int { return g.calls }
func (g *given) NotSent() bool { return g.calls == 0 }

// To an SDK a retry gives an answer of its own, always a 503, where there was no
// bad one. What the letter tells is the failure behind it, and a runner that asks
// for the item's failure is told the same.
func TestLetterOfAnAnswerInPlaceOfAnError(t *testing.T) {
	t.Parallel()
	const typ = "nightfuse_failed"
	for _, noted := range []*given{
		{ended{io.ErrUnexpectedEOF, 0}, 4},
		{ended{errors.New("200 OK: an empty answer"), 200}, 2},
		{ended{errors.New("budget: day: the estimate exceeds the cap"), 0}, 0},
	} {
		for name, sdk := range map[string]error{
			"fields": &fieldsError{503, "server_error", "m", typ},
			"a body": fmt.Errorf("summarise: %w", &bodyError{503, `{"error":{"message":"m","type":"` + typ + `"}}`}),
			"a text": errors.New("503: " + typ),
		} {
			t.Run(fmt.Sprint(noted.last, ", ", name), func(t *testing.T) {
				t.Parallel()
				q := newQueue(t, deadletter.Config{})
				var met deadletter.Failure
				_ = q.Do(deadletter.WithItem(t.Context(), "item"), []byte("p"), func(ctx context.Context) error {
					box := call.From(ctx)
					box.Item.Fail(noted)
					met = deadletter.FailureOf(&call.Met{Box: box, Err: sdk})
					return sdk
				})
				r, err := q.Get(t.Context(), "item")
				if err != nil {
					t.Fatal(err)
				}
				got := deadletter.Failure{Attempts: r.Attempts, Status: r.Status, Signature: r.Signature, SignatureText: r.SignatureText, ErrType: r.ErrType, Err: r.Err}
				want := deadletter.FailureOf(noted)
				want.Err = fmt.Sprintf("%v (%v: retry: 3 calls in 2s: attempts used up)", noted.last, sdk)
				if diff := cmp.Diff(got, want); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(met, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// A function that puts its own words in place of an error has made no call either.
func TestLetterOfWhatWasNeverSent(t *testing.T) {
	t.Parallel()
	q := newQueue(t, deadletter.Config{})
	_ = q.Do(deadletter.WithItem(t.Context(), "item"), nil, func(ctx context.Context) error {
		call.From(ctx).Item.Fail(&given{ended: ended{last: errors.New("the estimate exceeds the cap")}})
		return errors.New("no summary")
	})
	if r, err := q.Get(t.Context(), "item"); err != nil || r.Attempts != 0 {
		t.Errorf("%d calls, %v, want none", r.Attempts, err)
	}
}

// A function's own words for a failed call tell neither its status nor when the
// upstream wants to be asked again. The call does, unless the words are about
// another answer; after a call that went well there is nothing to add.
func TestLetterHasWhatTheLastCallKnows(t *testing.T) {
	t.Parallel()
	clk := clock.NewMock()
	until := clk.Now().Add(time.Hour)
	noted := &waits{status{429, "slow down"}, until}
	for _, tt := range []struct {
		name  string
		noted error
		err   error
		want  deadletter.Failure
	}{
		{"own words", noted, errors.New("no summary"), deadletter.Failure{Status: 429, RetryAfter: until}},
		{"another answer", noted, status{400, "too long"}, deadletter.Failure{Status: 400}},
		{"a call that went well", nil, errors.New("no summary"), deadletter.Failure{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fn := func(ctx context.Context) error {
				call.From(ctx).Item.Sent()
				call.From(ctx).Item.Fail(tt.noted)
				return tt.err
			}
			store := memoryAt(t, clk)
			q := newQueue(t, deadletter.Config{Store: store, Clock: clk})
			_ = q.Do(deadletter.WithItem(t.Context(), "item"), nil, fn)
			first, err := q.Get(t.Context(), "item")
			if err != nil {
				t.Fatal(err)
			}
			put(t, store, "replayed", "p")
			send := func(ctx context.Context, _ deadletter.Record) error { return fn(ctx) }
			o := deadletter.Options{Clock: clk, Filter: deadletter.Filter{IDs: []string{deadletter.ID("q", "replayed")}}}
			if _, err := deadletter.Replay(t.Context(), store, send, o); err != nil {
				t.Fatal(err)
			}
			again, err := q.Get(t.Context(), "replayed")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []deadletter.Record{first, again} {
				if r.Status != tt.want.Status || !r.RetryAfter.Equal(tt.want.RetryAfter) {
					t.Errorf("%s: status %d, not before %v, want %d, %v", r.ItemID, r.Status, r.RetryAfter, tt.want.Status, tt.want.RetryAfter)
				}
			}
		})
	}
}

// waits says until when.
type waits struct {
	status
	at time.Time
}

func (w *waits) RetryAt() (time.Time, bool) { return w.at, true }

func TestPayloadLimitOfEveryWayIn(t *testing.T) {
	t.Parallel()
	big, fits := []byte(strings.Repeat("x", 11)), []byte(strings.Repeat("x", 10))
	boom := errors.New("boom")
	for name, bury := range map[string]func(q *deadletter.Queue, payload []byte) error{
		"Do": func(q *deadletter.Queue, payload []byte) error {
			err := q.Do(deadletter.WithItem(t.Context(), "item"), payload, func(context.Context) error { return boom })
			if !errors.Is(err, boom) {
				t.Errorf("%v has lost the failure itself", err)
			}
			if err == boom {
				return nil
			}
			return err
		},
		"Fail": func(q *deadletter.Queue, payload []byte) error {
			return q.Fail(deadletter.WithItem(t.Context(), "item"), payload, boom)
		},
		"Put": func(q *deadletter.Queue, payload []byte) error {
			return q.Put(t.Context(), deadletter.Record{ItemID: "item", Payload: payload})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, deadletter.Config{MaxPayload: 10})
			err := bury(q, big)
			var lost *deadletter.LostError
			if !errors.As(err, &lost) || !errors.Is(err, deadletter.ErrTooLarge) || lost.ItemID != "item" {
				t.Errorf("%v, want a LostError for ErrTooLarge", err)
			}
			if err := bury(q, fits); err != nil {
				t.Error(err)
			}
			if s := q.Stats(); s.Lost != 1 || s.Dead != 1 || s.Items != 2 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A Classify that panics is a mistake of the program, not the end of the item.
func TestClassifyThatPanics(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	do := func(rt http.RoundTripper) func(*testing.T, *deadletter.Queue) {
		return func(t *testing.T, q *deadletter.Queue) {
			_, _, _ = send(deadletter.NewTransport(rt, q), request(t, t.Context(), "item", strings.NewReader("p")))
		}
	}
	for _, tt := range []struct {
		name string
		run  func(*testing.T, *deadletter.Queue)
		want string // in the letter's text
	}{
		{"a function", func(t *testing.T, q *deadletter.Queue) {
			_ = q.Do(deadletter.WithItem(t.Context(), "item"), []byte("p"), func(context.Context) error { return boom })
		}, "boom"},
		{"an error", do(rounds(func(*http.Request) (*http.Response, error) { return nil, boom })), "boom"},
		{"an answer", do(rounds(func(*http.Request) (*http.Response, error) { return answer(500, badAnswer), nil })), "panic: classify"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, deadletter.Config{Classify: func(*http.Response, error) deadletter.Decision { panic("classify") }})
			func() {
				defer func() {
					if p := recover(); p != "classify" {
						t.Errorf("recovered %v, want the panic to go on", p)
					}
				}()
				tt.run(t, q)
			}()
			if s := q.Stats(); s.Items != 1 || s.Dead != 1 {
				t.Errorf("%+v, want one letter", s)
			}
			if r, err := q.Get(t.Context(), "item"); err != nil || !strings.Contains(r.Err, tt.want) || string(r.Payload) != "p" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// keptError is an SDK's error that keeps the response.
type keptError struct {
	StatusCode int
	Response   *http.Response
}

func (e *keptError) Error() string { return "429 slow down" }

// When the upstream wants to be asked again is part of the letter, also where
// only an SDK's error says so.
func TestRetryAfterOfSDKs(t *testing.T) {
	t.Parallel()
	err := &keptError{429, &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"300"}}}}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if f := deadletter.FailureOf(err); !f.RetryAfter.Equal(start.Add(5*time.Minute)) || f.Status != 429 {
			t.Errorf("%+v", f)
		}
		q := newQueue(t, deadletter.Config{})
		if got := q.Do(deadletter.WithItem(t.Context(), "item"), nil, func(context.Context) error { return err }); !errors.Is(got, err) {
			t.Fatal(got)
		}
		if r, err := q.Get(t.Context(), "item"); err != nil || !r.RetryAfter.Equal(start.Add(5*time.Minute)) {
			t.Errorf("%v, %v", r.RetryAfter, err)
		}
	})
}

// A replay counts an SDK's hint from its own clock, too.
func TestRetryAfterOfAReplay(t *testing.T) {
	t.Parallel()
	clk := clock.NewMock()
	store := memoryAt(t, clk)
	put(t, store, "item", "p")
	err := &keptError{429, &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"300"}}}}
	fail := func(context.Context, deadletter.Record) error { return err }
	if rep, err := deadletter.Replay(t.Context(), store, fail, deadletter.Options{Clock: clk}); err != nil || rep.Returned != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if r, err := store.Get(t.Context(), deadletter.ID("q", "item")); err != nil || !r.RetryAfter.Equal(clk.Now().Add(5*time.Minute)) {
		t.Errorf("%v, %v", r.RetryAfter, err)
	}
}

// What http.Client adds is not the failure's.
func TestSignatureWithoutTheClient(t *testing.T) {
	t.Parallel()
	in := errors.New("the tunnel is gone")
	want := deadletter.FailureOf(in).Signature
	for _, err := range []error{
		&url.Error{Op: "Post", URL: "http://model.test/v1", Err: in},
		&url.Error{Op: "Post", URL: "http://model.test/v1", Err: named{&url.Error{Op: "Get", URL: "/", Err: in}}},
	} {
		if got := deadletter.FailureOf(err).Signature; got != want {
			t.Errorf("%v has %s, want %s", err, got, want)
		}
	}
}

// named says which error names it.
type named struct{ error }

func (n named) Signs() error { return n.error }
