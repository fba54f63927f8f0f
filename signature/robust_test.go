package signature_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nightfuse/nightfuse/signature"
)

type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }

type panics struct{}

func (panics) Error() string          { panic("no text") }
func (panics) StatusCode() int        { panic("no status") }
func (panics) ErrorSignature() string { panic("no name") }
func (panics) Unwrap() error          { panic("no cause") }

type ring struct{ next error }

func (e *ring) Error() string { return "ring 5" }
func (e *ring) Unwrap() error { return e.next }

// TestHostile signs errors that would bring others down.
func TestHostile(t *testing.T) {
	t.Parallel()
	loop := &ring{}
	loop.next = fmt.Errorf("again: %w", loop)
	many := make([]error, 5000)
	for i := range many {
		many[i] = fmt.Errorf("part %d", i)
	}
	var none *typedNil
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"typed nil", none, "*signature_test.typednil"},
		{"panics", panics{}, "signature_test.panics"},
		{"cycle", loop, "ring #"},
		{"a large join", errors.Join(many...), "part #"},
		{"empty", errors.New(""), ""},
	} {
		got := signature.Explain(c.err)
		if got.Template != c.want && !strings.HasPrefix(got.Template, c.want+" ") {
			t.Errorf("%s: template %q, want %q", c.name, got.Template, c.want)
		}
		if got.ID == "" || !got.ID.Current() {
			t.Errorf("%s: ID %q, want one of this version", c.name, got.ID)
		}
	}
}

// TestExplain checks each field of a report.
func TestExplain(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("item %d: %w", 17, statusError{429})
	got := signature.Explain(err)
	want := signature.Report{
		ID: signature.Of(err), Digest: got.Digest, Template: "429 item #: call failed", Status: 429,
		Causes:   []string{"*fmt.wrapError", "signature_test.statusError"},
		Replaced: []signature.Replacement{{Kind: "number", Count: 1}},
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("(-got +want)\n%s", d)
	}
	if len(got.Digest) != 64 || got.Digest[:12] != string(got.ID[2:]) {
		t.Errorf("digest %q does not begin with the signature %q", got.Digest, got.ID)
	}
	if d := cmp.Diff(signature.Explain(nil), signature.Report{}); d != "" {
		t.Errorf("report of nil (-got +want)\n%s", d)
	}
	named := signature.Explain(fmt.Errorf("x: %w", named{"7"}))
	if !named.Named || named.Template != "quota" {
		t.Errorf("report of a named error: %+v", named)
	}
}

// TestConfig checks what each field of Config does, and that all bad ones are
// told at once.
func TestConfig(t *testing.T) {
	t.Parallel()
	s, err := signature.New(signature.Config{
		Keep:   []string{"Tenant-"},
		Fold:   func(t string) bool { return t == "blue" || t == "panic" && panicking() },
		Status: func(err error) (int, bool) { return 503, err.Error() == "field" },
		Coarse: []int{503},
		Hosts:  signature.HostsFold,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ msg, want string }{
		{"tenant-17 has 5 items", "tenant-17 has # item"},
		{"the blue door", "the # door"},
		{"panic in hook", "panic in hook"},
		{"get https://api.example.net/v1: EOF", "get https://#: eof"},
		{"lookup db.example.net failed", "lookup # failed"},
	} {
		if got := s.Normalize(c.msg); got != c.want {
			t.Errorf("template of %q: %q, want %q", c.msg, got, c.want)
		}
	}
	if a, b := s.Explain(errors.New("field")), s.Of(fmt.Errorf("route 7: %w", errors.New("field"))); a.ID != b || a.Status != 503 || a.Template != "503" {
		t.Errorf("a coarse status signs by itself: %+v and %s", a, b)
	}
	_, err = signature.New(signature.Config{Keep: []string{""}, Coarse: []int{7}, Hosts: 9, MaxInput: 5})
	if err == nil {
		t.Fatal("New accepts bad fields")
	}
	for _, part := range []string{"Keep[0]", "Coarse[0] 7", "Hosts 9", "MaxInput 5 is below 256"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("New says %q, want %q in it", err, part)
		}
	}
}

func panicking() bool { panic("hook") }

// TestLong checks the cap: what is folded does not move the cut, the end of a
// long body still counts, and so does nothing but the head and the end.
func TestLong(t *testing.T) {
	t.Parallel()
	body := func(id, middle, end string) string {
		return "item " + id + ": answer " + strings.Repeat("word and more ", 400) + middle + strings.Repeat(" word and more", 400) + ` {"type":"` + end + `"}`
	}
	a := signature.OfString(body("5", "x", "overloaded_error"))
	for _, c := range []struct {
		name string
		msg  string
		same bool
	}{
		{"a longer id", body("c62f9e4d-92e9-40a2-8a58-7e7ed5c1e943", "x", "overloaded_error"), true},
		{"another middle", body("5", "yyyyy", "overloaded_error"), true},
		{"another end", body("5", "x", "api_error"), false},
	} {
		if got := signature.OfString(c.msg) == a; got != c.same {
			t.Errorf("%s: same signature is %v, want %v", c.name, got, c.same)
		}
	}
	if n := len(signature.Normalize(strings.Repeat("x1y2z3 and ", 1e5))); n > 3000 {
		t.Errorf("template of a megabyte has %d bytes", n)
	}
}

// TestAllocs holds the forms for hot paths to their allocations.
func TestAllocs(t *testing.T) {
	msg := labelled(t, "testdata/public.tsv")[9].Text
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { buf = signature.AppendNormalize(buf[:0], msg) }); n > 0 {
		t.Errorf("AppendNormalize into a buffer allocates %v times, want never", n)
	}
	if n := testing.AllocsPerRun(100, func() { signature.OfString(msg) }); n > 1 {
		t.Errorf("OfString allocates %v times, want once", n)
	}
	err := errors.New(msg)
	if n := testing.AllocsPerRun(100, func() { signature.Of(err) }); n > 1 {
		t.Errorf("Of allocates %v times, want once", n)
	}
}
