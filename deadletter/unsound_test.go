package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
)

// noError is met as a nil pointer.
type noError struct{ code int }

func (e *noError) Error() string { return fmt.Sprint("code ", e.code) }

// muteError panics when it is asked for its text, slyError when it is asked who
// refused, evenError when it is compared.
type (
	muteError struct{}
	slyError  struct{}
	evenError struct{}
)

func (muteError) Error() string    { panic("no text") }
func (slyError) Error() string     { return "sly" }
func (slyError) RefusedBy() string { panic("nobody") }
func (evenError) Error() string    { return "even" }
func (evenError) Is(error) bool    { panic("no other") }

// No letter is lost, and nothing panics, because of an error that cannot be
// asked.
func TestErrorsThatPanic(t *testing.T) {
	t.Parallel()
	var none *noError
	for _, tt := range []struct {
		err  error
		want []string // in the letter's text
	}{
		{none, []string{"a nil *deadletter_test.noError"}},
		{fmt.Errorf("wrapped: %w", none), []string{"wrapped: "}},
		{muteError{}, []string{"deadletter_test.muteError", "no text"}},
		{slyError{}, []string{"sly", "deadletter_test.slyError", "nobody"}},
		{errors.Join(errors.New("first"), slyError{}), []string{"first", "sly", "nobody"}},
		{evenError{}, []string{"even", "no other"}},
	} {
		for name, bury := range map[string]func(*deadletter.Queue, deadletter.Store){
			"Do": func(q *deadletter.Queue, _ deadletter.Store) {
				if err := q.Do(deadletter.WithItem(t.Context(), "item"), []byte("p"), func(context.Context) error { return tt.err }); err == nil {
					t.Error("a failure came out as none")
				}
			},
			"Fail": func(q *deadletter.Queue, _ deadletter.Store) {
				if err := q.Fail(deadletter.WithItem(t.Context(), "item"), []byte("p"), tt.err); err != nil {
					t.Error(err)
				}
			},
			"Replay": func(_ *deadletter.Queue, store deadletter.Store) {
				put(t, store, "item", "p")
				fail := func(context.Context, deadletter.Record) error { return tt.err }
				if rep, err := deadletter.Replay(t.Context(), store, fail, deadletter.Options{Early: true}); err != nil || rep.Returned != 1 {
					t.Errorf("%+v, %v", rep, err)
				}
			},
			"Transport": func(q *deadletter.Queue, _ deadletter.Store) {
				rt := rounds(func(*http.Request) (*http.Response, error) { return nil, tt.err })
				if _, _, err := send(deadletter.NewTransport(rt, q), request(t, t.Context(), "item", strings.NewReader("p"))); err == nil {
					t.Error("a failure came out as none")
				}
			},
			"FailureOf": func(q *deadletter.Queue, _ deadletter.Store) {
				f := deadletter.FailureOf(tt.err)
				if err := q.Put(t.Context(), deadletter.Record{ItemID: "item", Signature: f.Signature, Err: f.Err, Payload: []byte("p")}); err != nil {
					t.Error(err)
				}
			},
		} {
			t.Run(fmt.Sprintf("%T, %s", tt.err, name), func(t *testing.T) {
				store := deadletter.NewMemory()
				q := newQueue(t, deadletter.Config{Store: store})
				bury(q, store)
				r, err := q.Get(t.Context(), "item")
				if err != nil || r.Signature == "" || string(r.Payload) != "p" {
					t.Errorf("%+v, %v", r, err)
				}
				for _, want := range tt.want {
					if !strings.Contains(r.Err, want) {
						t.Errorf("the letter says %q, want %q in it", r.Err, want)
					}
				}
			})
		}
	}
}
