package deadletter_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
)

// Too large to keep is not too large to send, but its failure is a loss.
func TestPayloadAboveTheLimit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"reader", "GetBody"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(t, deadletter.Config{MaxPayload: 10})
			status := 200
			var got string
			rt := deadletter.NewTransport(rounds(func(req *http.Request) (*http.Response, error) {
				b, err := io.ReadAll(req.Body)
				got = string(b)
				return answer(status, goodAnswer), err
			}), q)
			long := strings.Repeat("x", 25)
			var body io.Reader = strings.NewReader(long)
			if name == "reader" {
				body = &closing{Reader: body}
			}
			if _, _, err := send(rt, request(t, t.Context(), "item", body)); err != nil || got != long {
				t.Errorf("sent %q, %v", got, err)
			}
			status = 400
			body = strings.NewReader(long)
			if name == "reader" {
				body = &closing{Reader: body}
			}
			_, _, err := send(rt, request(t, t.Context(), "item", body))
			var lost *deadletter.LostError
			if !errors.As(err, &lost) || !errors.Is(err, deadletter.ErrTooLarge) || lost.ItemID != "item" {
				t.Errorf("%v, want a LostError for ErrTooLarge", err)
			}
			if s := q.Stats(); s.Lost != 1 || s.Dead != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// failing is a store whose Put fails.
type failing struct{ deadletter.Store }

var errFull = errors.New("no space left on device")

// A journal that has been closed refuses every letter, and every way in says so
// beside the failure itself.
func TestLostToAClosedJournal(t *testing.T) {
	t.Parallel()
	j := openJournal(t, t.TempDir())
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	item := deadletter.WithItem(t.Context(), "item")
	for name, fail := range map[string]func(*deadletter.Queue) error{
		"Do": func(q *deadletter.Queue) error {
			return q.Do(item, []byte("p"), func(context.Context) error { return boom })
		},
		"RoundTrip": func(q *deadletter.Queue) error {
			rt := deadletter.NewTransport(rounds(func(*http.Request) (*http.Response, error) { return nil, boom }), q)
			_, _, err := send(rt, request(t, item, "", strings.NewReader("p")))
			return err
		},
		"Fail": func(q *deadletter.Queue) error { return errors.Join(boom, q.Fail(item, []byte("p"), boom)) },
	} {
		q := newQueue(t, deadletter.Config{Store: j})
		err := fail(q)
		var lost *deadletter.LostError
		if !errors.As(err, &lost) || lost.ItemID != "item" || !errors.Is(err, boom) || !errors.Is(err, deadletter.ErrClosed) {
			t.Errorf("%s: %v, want the failure and the loss", name, err)
		}
		if s := q.Stats(); s.Lost != 1 || s.Dead+s.Done != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// What could not be stored is neither done nor dead, and says so beside its own
// failure (faiscadev/fakecloud#1675).
func TestLostItem(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	tests := map[string]func(*http.Request) (*http.Response, error){
		"error":      func(*http.Request) (*http.Response, error) { return nil, reset },
		"status":     func(*http.Request) (*http.Response, error) { return answer(400, badAnswer), nil },
		"while read": func(*http.Request) (*http.Response, error) { return answer(200, emptyAnswer), nil },
	}
	for name, base := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := 0
			q := newQueue(t, deadletter.Config{
				Store:  failing{deadletter.NewMemory()},
				OnLost: func(deadletter.Loss) { told++; panic("hook") },
			})
			_, _, err := send(deadletter.NewTransport(rounds(base), q), request(t, t.Context(), "item", strings.NewReader("p")))
			var lost *deadletter.LostError
			if !errors.As(err, &lost) || !errors.Is(err, errFull) {
				t.Errorf("%v, want a LostError", err)
			}
			if name == "error" && !errors.Is(err, reset) {
				t.Errorf("%v has lost the failure itself", err)
			}
			if s := q.Stats(); s.Lost != 1 || s.Dead != 0 || s.Done != 0 || s.HookPanics != 1 || told != 1 {
				t.Errorf("%+v, told %d times", s, told)
			}
		})
	}
}
