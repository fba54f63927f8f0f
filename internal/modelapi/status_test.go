package modelapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

type (
	byMethod    struct{ n int }
	byAWSMethod struct{ n int }
	byField     struct{ StatusCode int }
	byLongField struct{ HTTPStatusCode int } // go-openai
	byCode      struct{ Code int }           // genai, by value
	byResponse  struct{ Response *http.Response }
	embedded    struct{ *byField }
	unwraps     struct {
		Code string
		err  error
	}
	panics struct{}
)

func (e *byMethod) Error() string          { return "e" }
func (e *byMethod) StatusCode() int        { return e.n }
func (e *byAWSMethod) Error() string       { return "e" }
func (e *byAWSMethod) HTTPStatusCode() int { return e.n }
func (e *byField) Error() string           { return "e" }
func (e *byLongField) Error() string       { return "e" }
func (e byCode) Error() string             { return "e" }
func (e *byResponse) Error() string        { return "e" }
func (e embedded) Error() string           { return "e" }
func (e *unwraps) Error() string           { return "e" }
func (e *unwraps) Unwrap() error           { return e.err }
func (panics) Error() string               { return "e" }
func (panics) StatusCode() int             { panic("no status") }

// endless unwraps to itself.
type endless struct{}

func (endless) Error() string   { return "e" }
func (e endless) Unwrap() error { return e }

func TestStatusOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		want int
	}{
		"nil":                 {nil, 0},
		"plain":               {errors.New("429"), 0},
		"method":              {&byMethod{429}, 429},
		"AWS":                 {&byAWSMethod{503}, 503},
		"field":               {&byField{500}, 500},
		"long field":          {&byLongField{401}, 401},
		"code":                {byCode{429}, 429},
		"code is no failure":  {byCode{200}, 0},
		"code is no status":   {byCode{14}, 0},
		"response":            {&byResponse{&http.Response{StatusCode: 502}}, 502},
		"no response":         {&byResponse{}, 0},
		"no status":           {&byMethod{0}, 0},
		"nil pointer":         {(*byField)(nil), 0},
		"nil pointer, method": {(*byMethod)(nil), 0},
		"embedded nil":        {embedded{}, 0},
		"panics":              {panics{}, 0},
		"wrapped":             {fmt.Errorf("call: %w", &byField{529}), 529},
		"below a status-less": {&unwraps{Code: "x", err: &byMethod{408}}, 408},
		"joined":              {errors.Join(errors.New("a"), fmt.Errorf("b: %w", byCode{404})), 404},
		"outermost first":     {fmt.Errorf("%w, %w", &byField{429}, &byField{500}), 429},
		"endless":             {endless{}, 0},
	}
	for name, tt := range tests {
		if got := modelapi.StatusOf(tt.err); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

func TestClassOf(t *testing.T) {
	t.Parallel()
	want := map[int]modelapi.Class{
		401: modelapi.Auth, 402: modelapi.Quota, 403: modelapi.Auth, 407: modelapi.Auth,
		408: modelapi.Timeout, 504: modelapi.Timeout, 524: modelapi.Timeout,
		425: modelapi.Overloaded, 503: modelapi.Overloaded, 529: modelapi.Overloaded, 429: modelapi.RateLimited,
	}
	for status := -1; status <= 700; status++ {
		w, special := want[status]
		switch {
		case special:
		case status < 100 || status > 599:
			w = modelapi.Unjudged
		case status < 400:
			w = modelapi.OK
		case status < 500:
			w = modelapi.BadRequest
		default:
			w = modelapi.ServerError
		}
		if got := modelapi.ClassOf(status); got != w {
			t.Errorf("%d: %v, want %v", status, got, w)
		}
		if v := modelapi.Watch(nil, &http.Response{StatusCode: status}, noon).Verdict(); v.Class != w && status >= 100 && status < 600 {
			t.Errorf("%d without a body: %v, want %v", status, v.Class, w)
		}
	}
	if s := modelapi.QuotaPerDay.String() + " " + modelapi.Class(99).String() + " " + modelapi.Refused.String(); s != "quota-per-day unknown refused" {
		t.Error(s)
	}
}

func TestEffective(t *testing.T) {
	t.Parallel()
	if n := (modelapi.Verdict{Status: 200, Inner: 429}).Effective(); n != 429 {
		t.Error(n)
	}
	if n := (modelapi.Verdict{Status: 503}).Effective(); n != 503 {
		t.Error(n)
	}
}
