package nils_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/internal/nils"
)

func TestIn(t *testing.T) {
	t.Parallel()
	var (
		none   io.Reader
		noText *strings.Reader
		noFunc func()
		noMap  map[string]int
		noList []int
		noChan chan int
	)
	for i, v := range []any{nil, none, noText, io.Reader(noText), noFunc, noMap, noList, noChan} {
		if !nils.In(v) {
			t.Errorf("%d: %T is nil", i, v)
		}
	}
	for i, v := range []any{0, "", struct{}{}, errors.New(""), strings.NewReader(""), func() {}, []int{}, map[string]int{}} {
		if nils.In(v) {
			t.Errorf("%d: %T is not nil", i, v)
		}
	}
}

func TestField(t *testing.T) {
	t.Parallel()
	var none *strings.Reader
	if err := errors.Join(nils.Field("R", nil), nils.Field("R", strings.NewReader(""))); err != nil {
		t.Error(err)
	}
	if err := nils.Field("R", none); err == nil || err.Error() != "R is a nil *strings.Reader: leave it out for the default" {
		t.Error(err)
	}
}

type failure struct{ text string }

func (f *failure) Error() string { return f.text }

func TestError(t *testing.T) {
	t.Parallel()
	if err := nils.Error(nil); err != nil {
		t.Error(err)
	}
	for _, err := range []error{io.EOF, &failure{"it failed"}} {
		if got := nils.Error(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	var none *failure
	if err := nils.Error(none); err == nil || err.Error() != "a nil *nils_test.failure was returned as an error" {
		t.Error(err)
	}
}
