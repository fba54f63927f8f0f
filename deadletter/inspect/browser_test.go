//go:build unix

package inspect_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/inspect"
)

// night is a store as it may be in the morning.
func night(t *testing.T) (*site, map[string]string) {
	t.Helper()
	s := newSite(t, inspect.Config{Title: "Summaries, night of 3 November", AllowActions: func(*http.Request) bool { return true }})
	at := s.clk.Now()
	ids := map[string]string{}
	for i := range 60 {
		r := deadletter.Record{
			ItemID: fmt.Sprintf("inbox/2026-11-02/customer-%04d.json", i*37), Owner: "nightly", RunID: "2026-11-03", Status: 503, Attempts: 4,
			Signature: "1:744b33b071ca", SignatureText: "503 service unavailable: overloaded_error: the server is overloaded, request #",
			Err:          "retry: 4 calls in 21.4s: attempts used up: 503 Service Unavailable: overloaded_error: The server is overloaded, request 4711.",
			LastFailedAt: at.Add(-time.Duration(i*7) * time.Minute), EstTokens: 1830, Method: "POST", URL: "https://api.example.com/v1/chat/completions",
			Payload: []byte(`{"model":"fake-1","messages":[{"role":"user","content":"Summarise the conversation below."}]}`),
			Header:  http.Header{"Content-Type": {"application/json"}}, Labels: map[string]string{"file": "a.json"}, UpstreamRequestID: "req_011CQ",
		}
		switch {
		case i%9 == 4:
			r.Status, r.Signature, r.SignatureText = 400, "1:27a5e0c1b0d9", "400 bad request: context_length_exceeded: this model's maximum context length is # tokens"
			r.Err = "retry: 1 call in 0.3s: not worth another attempt: 400 Bad Request: context_length_exceeded: This model's maximum context length is 8192 tokens."
		case i%13 == 6:
			r.Status, r.Signature, r.SignatureText, r.Err = 0, "1:f00dfacecafe", "read tcp #: connection reset by peer", "read tcp 10.0.0.7:51312->192.0.2.1:443: read: connection reset by peer"
		}
		ids[fmt.Sprint(i)] = s.put(r)
	}
	claims, err := s.store.Claim(t.Context(), deadletter.ClaimReq{N: 2, By: "host-7:4711", Lease: 10 * time.Minute})
	if err != nil || len(claims) != 2 {
		t.Fatal(claims, err)
	}
	if err := s.store.Resolve(t.Context(), claims[0].Token, deadletter.Outcome{Verb: deadletter.Quarantine, Reason: "replayed 3 times in vain"}); err != nil {
		t.Fatal(err)
	}
	ids["quarantined"] = claims[0].Record.ID
	evil := hostile()
	evil.LastFailedAt = at
	s.put(evil)
	for r, err := range s.store.List(t.Context(), deadletter.Filter{Statuses: []int{500}}) {
		if err != nil {
			t.Fatal(err)
		}
		ids["hostile"] = r.ID
	}
	return s, ids
}

// The pages in a real browser: nothing runs, nothing is wider than the screen,
// everything is reached by keyboard, and there is a dark side.
func TestInABrowser(t *testing.T) {
	b := startBrowser(t)
	s, ids := night(t)
	srv := httptest.NewServer(s.mux)
	t.Cleanup(srv.Close)
	base := srv.URL + "/letters/"
	pages := map[string]string{
		"groups": "", "list": "list", "item": "item?id=" + ids["3"], "quarantine": "list?state=quarantined",
		"quarantined": "item?id=" + ids["quarantined"], "hostile": "item?id=" + ids["hostile"],
		"hostile-list": "list?status=500", "message": "item?id=none", "empty": "list?status=599",
	}
	for _, v := range []struct {
		width  int
		scheme string
	}{{1280, "light"}, {1280, "dark"}, {320, "light"}} {
		b.view(v.width, v.scheme)
		for name, path := range pages {
			b.open(base + path)
			where := fmt.Sprintf("%s, %d wide, %s", name, v.width, v.scheme)
			b.shot(fmt.Sprintf("%s-%d-%s", name, v.width, v.scheme))
			if w := b.eval("document.documentElement.scrollWidth").(float64); int(w) > v.width {
				t.Errorf("%s: is %v wide", where, w)
			}
			if n := b.eval("document.querySelectorAll('script, img, [onerror], [style]').length"); n != 0.0 {
				t.Errorf("%s: holds %v elements that came from a letter", where, n)
			}
			if n := b.eval("document.styleSheets.length"); n != 1.0 {
				t.Errorf("%s: has %v style sheets", where, n)
			}
			back := b.eval("getComputedStyle(document.body).backgroundColor").(string)
			if want := map[string]string{"light": "rgb(251, 251, 249)", "dark": "rgb(20, 23, 26)"}[v.scheme]; back != want {
				t.Errorf("%s: the background is %s", where, back)
			}
			if name == "message" {
				b.mu.Lock()
				b.logged = nil // of the status 404
				b.mu.Unlock()
			}
			b.clean(where)
		}
	}
}

// A person without a mouse, with scripts switched off, finds a letter and
// discards it; pressing again says that it is done.
func TestByKeyboard(t *testing.T) {
	b := startBrowser(t)
	s, ids := night(t)
	srv := httptest.NewServer(s.mux)
	t.Cleanup(srv.Close)
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.view(1280, "light")
	b.open(srv.URL + "/letters/")
	b.press("Tab")
	if b.eval("document.activeElement.className") != "skip" || b.eval("document.activeElement.getBoundingClientRect().left >= 0") != true {
		t.Error("the first Tab does not show the way past the navigation")
	}
	b.tabTo("document.querySelector('main table a')")
	b.press("Enter")
	b.loaded()
	if got := fmt.Sprint(b.eval("location.pathname + location.search")); !strings.HasPrefix(got, "/letters/list?signature=") {
		t.Fatalf("at %s", got)
	}
	b.tabTo("document.querySelector('main tbody tr:nth-child(4) a')") // not one that others hold
	b.press("Enter")
	b.loaded()
	id := strings.TrimPrefix(fmt.Sprint(b.eval("location.search")), "?id=")
	reason := "document.querySelector('input[name=reason]')"
	b.tabTo(reason)
	b.press("its customer has left", "Tab")
	b.shot("typed")
	b.press("Enter")
	b.loaded()
	if st := s.state(id); st != deadletter.Discarded {
		t.Errorf("the letter is %s", st)
	}
	if got := fmt.Sprint(b.eval("document.body.innerText")); !strings.Contains(got, "its customer has left") || strings.Contains(got, "Actions") {
		t.Errorf("the page says %s", got)
	}
	b.clean("an action")

	// Two windows with the same letter.
	path := srv.URL + "/letters/item?id=" + ids["quarantined"]
	b.open(path)
	w := s.post(map[string][]string{"id": {ids["quarantined"]}, "do": {"discard"}, "reason": {"the other window"}})
	if w.Code != http.StatusSeeOther {
		t.Fatal(w.Code)
	}
	b.tabTo("document.querySelector('input[value=revive]').form.querySelector('button')")
	b.press("Enter")
	b.loaded()
	if got := fmt.Sprint(b.eval("document.body.innerText")); !strings.Contains(got, "discarded already") {
		t.Errorf("the page says %s", got)
	}
	b.shot("conflict")
}
