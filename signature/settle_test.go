package signature_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/nightfuse/nightfuse/signature"
)

// TestStable checks that a template is its own template where one pass does not
// give that: what decided about a token was folded behind it, or cut off.
func TestStable(t *testing.T) {
	t.Parallel()
	for _, msg := range []string{
		"item=01KQSHMV7F4DFQPDKDGDWWXYe\\F:\\Y=\"server error\" code=\"50\x01\x00",
		`MySQLdb.Error: (1146, "failed o95")`,
		"aut:orization: bearer oDa3WIx429 - upZWrliRpH5RwRt.zUXV64ybsdzndo1hPe0POi4zeCMFKE.i3VKKkSFOFLeuxS1hlOu was refused",
		"thread status: 400 Bad Request_jgz64mdy49YMSPHF7CtStHfg",
		strings.Repeat("word and ", 220) + `"` + strings.Repeat(" and more", 400) + ` it" 503`,
		strings.Repeat("x", 2100) + " " + strings.Repeat("ab,", 900),
	} {
		got := signature.Normalize(msg)
		if again := signature.Normalize(got); again != got {
			t.Errorf("template of %q changes\nfirst %q\nthen  %q", msg, got, again)
		}
		if a, b := signature.OfString(msg), signature.OfString(got); a != b {
			t.Errorf("%q signs as %s, its template %q as %s", msg, a, got, b)
		}
	}
}

// TestUnstable gives a rule that breaks its promise: it folds one token more
// each time a message is read.
func TestUnstable(t *testing.T) {
	t.Parallel()
	const msg = "begin a one b two c three d four e five f six g seven u eight i nine j (odd)"
	for _, c := range []struct {
		passes int
		want   string
	}{
		{0, "begin a one b two c three d four e five f six g seven u eight i nine j (odd)"},
		{3, "begin a # b # c # d four e five f six g seven u eight i nine j (odd)"},
		{7, "begin a # b # c # d # e # f # g # u eight i nine j #"},
		{9, "#"},
	} {
		pass := 0
		s, err := signature.New(signature.Config{Fold: func(token string) bool {
			if token == "begin" {
				pass++
			}
			tokens := strings.Fields(msg)
			return pass <= c.passes && token == tokens[2*pass]
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Normalize(msg); got != c.want {
			t.Errorf("a token more in each of %d passes: %q, want %q", c.passes, got, c.want)
		}
	}
}

// TestRemembers signs more kinds of failures at a time than are remembered; the
// second time around each has the signature it had.
func TestRemembers(t *testing.T) {
	t.Parallel()
	s, err := signature.New(signature.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const letters = "abcdefghijklmno"
	var first, then [len(letters) * len(letters) * len(letters)]signature.ID
	sign := func(ids []signature.ID) {
		for k := range ids {
			a, b, c := k%len(letters), k/len(letters)%len(letters), k/len(letters)/len(letters)
			ids[k] = s.OfString("route " + letters[a:a+1] + " " + letters[b:b+1] + " " + letters[c:c+1] + " failed")
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { sign(first[:]) })
	wg.Go(func() { sign(then[:]) })
	wg.Wait()
	if first != then {
		t.Error("a message signs differently when it comes again")
	}
	seen := map[signature.ID]bool{}
	for _, id := range first {
		seen[id] = true
	}
	if len(seen) != len(first) {
		t.Errorf("%d signatures of %d different messages", len(seen), len(first))
	}
}
