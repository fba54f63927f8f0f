package signature_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nightfuse/nightfuse/signature"
)

type statusError struct{ code int }

func (e statusError) Error() string   { return "call failed" }
func (e statusError) StatusCode() int { return e.code }

type named struct{ id string }

func (e named) Error() string          { return "named " + e.id }
func (e named) ErrorSignature() string { return "quota" }

type wrapper struct{ last error }

func (e wrapper) Error() string { return "gave up after 4 attempts: " + e.last.Error() }
func (e wrapper) Signs() error  { return e.last }
func (e wrapper) Unwrap() error { return e.last }

// TestOf says which errors are one failure and which are two.
func TestOf(t *testing.T) {
	t.Parallel()
	base := errors.New("item 17: upstream 429")
	for _, c := range []struct {
		name string
		a, b error
		same bool
	}{
		{"an id differs", base, errors.New("item 3120: upstream 429"), true},
		{"a status differs", base, errors.New("item 17: upstream 503"), false},
		{"a status method differs", statusError{429}, statusError{503}, false},
		{"a status method, wrapped twice", fmt.Errorf("item 5: %w", statusError{429}), fmt.Errorf("item 6: %w", statusError{429}), true},
		{"errors that name themselves", named{"a"}, fmt.Errorf("x: %w", named{"b"}), true},
		{"a transparent wrapper", wrapper{base}, base, true},
		{"a transparent wrapper, wrapped", fmt.Errorf("item 9: %w", wrapper{base}), fmt.Errorf("item 9: %w", base), true},
		{"a join in another order", errors.Join(base, errors.New("b")), errors.Join(errors.New("b"), base), true},
		{"a join that repeats", errors.Join(base, base), base, true},
		{"a join of more", errors.Join(base, errors.New("b")), base, false},
		{"attempt counts", errors.New("attempt 7 failed"), errors.New("attempt 8 failed"), true},
	} {
		if got := signature.Of(c.a) == signature.Of(c.b); got != c.same {
			t.Errorf("%s: same is %v, want %v\n%q\n%q", c.name, got, c.same, signature.Explain(c.a).Template, signature.Explain(c.b).Template)
		}
	}
	if id := signature.Of(nil); id != "" {
		t.Errorf("Of(nil) is %q, want none", id)
	}
}
