package inspect_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/inspect"
)

func TestActions(t *testing.T) {
	t.Parallel()
	allowed := true
	s := newSite(t, inspect.Config{AllowActions: func(*http.Request) bool { return allowed }})
	id := s.put(deadletter.Record{ItemID: "a"})
	discard := url.Values{"id": {id}, "do": {"discard"}, "reason": {"bad input"}}

	wants(t, s.get("item?id="+id), 200, "Discard")
	allowed = false
	if body := s.get("item?id=" + id).Body.String(); strings.Contains(body, "<button") {
		t.Error("a page for reading only has a button")
	}
	wants(t, s.post(discard), 403, "reading only")
	allowed = true

	wants(t, s.post(url.Values{"id": {id}, "do": {"discard"}, "reason": {"  "}}), 400, "reason")
	wants(t, s.post(url.Values{"id": {id}, "do": {"explode"}}), 400, "no such action")
	wants(t, s.post(url.Values{"do": {"discard"}, "reason": {"x"}}), 400)
	wants(t, s.post(url.Values{"id": {"none"}, "do": {"discard"}, "reason": {"x"}}), 404)
	wants(t, s.post(url.Values{"id": {id}, "do": {"revive"}}), 409, "the letter is dead")
	wants(t, s.post(url.Values{"id": {id}, "do": {"discard"}, "reason": {strings.Repeat("x", 70<<10)}}), 400, "too long")
	wants(t, s.get("act"), 405)
	if st := s.state(id); st != deadletter.Dead {
		t.Fatalf("the letter is %s", st)
	}

	// A form of another site changes nothing.
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/letters/act", strings.NewReader(discard.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set(name, value)
		wants(t, s.do(req), 403)
	}
	if st := s.state(id); st != deadletter.Dead {
		t.Fatalf("the letter is %s", st)
	}

	w := s.post(discard)
	if w.Code != 303 || w.Header().Get("Location") != "item?id="+id {
		t.Errorf("%d to %q", w.Code, w.Header().Get("Location"))
	}
	wants(t, s.post(discard), 409, "discarded already")
	wants(t, s.get("item?id="+id), 200, "bad input", "discarded")

	claimed := s.put(deadletter.Record{ItemID: "b"})
	claims, err := s.store.Claim(t.Context(), deadletter.ClaimReq{})
	if err != nil || len(claims) != 1 {
		t.Fatal(claims, err)
	}
	wants(t, s.post(url.Values{"id": {claimed}, "do": {"discard"}, "reason": {"x"}}), 409, "replayed just now")
	if err := s.store.Resolve(t.Context(), claims[0].Token, deadletter.Outcome{Verb: deadletter.Quarantine, Reason: "3 times in vain"}); err != nil {
		t.Fatal(err)
	}
	wants(t, s.get("item?id="+claimed), 200, "Let out of quarantine", "3 times in vain")
	wants(t, s.post(url.Values{"id": {claimed}, "do": {"revive"}}), 303)
	wants(t, s.post(url.Values{"id": {claimed}, "do": {"revive"}}), 409)
	if st := s.state(claimed); st != deadletter.Dead {
		t.Errorf("out of quarantine the letter is %s", st)
	}
}

// Many presses at once are one.
func TestActionsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, inspect.Config{AllowActions: func(*http.Request) bool { return true }})
	id := s.put(deadletter.Record{ItemID: "a"})
	codes := make([]int, 20)
	var wg sync.WaitGroup
	for i := range codes {
		wg.Go(func() { codes[i] = s.post(url.Values{"id": {id}, "do": {"discard"}, "reason": {"x"}}).Code })
	}
	wg.Wait()
	slices.Sort(codes)
	if codes[0] != 303 || codes[1] != 409 || codes[len(codes)-1] != 409 {
		t.Errorf("%v", codes)
	}
}
