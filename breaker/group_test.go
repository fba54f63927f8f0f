package breaker_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
)

func newGroup(t *testing.T, cfg breaker.Config) *breaker.Group {
	t.Helper()
	g, err := breaker.NewGroup(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// 10,000 keys: memory stays bounded, and the open one stays open.
func TestGroupIsBounded(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	g := newGroup(t, cfg)
	fail(t, g.Get("down"), 3)
	fail(t, g.Get("shaky"), 1)
	out := allow(t, g.Get("busy"))
	for i := range 10_000 {
		allow(t, g.Get(fmt.Sprint("key-", i))).Success()
	}
	got := map[string]bool{}
	for key := range g.All() {
		got[key] = true
	}
	if len(got) != 1000 || !got["down"] || !got["shaky"] || !got["busy"] {
		t.Errorf("%d breakers, down %v, shaky %v, busy %v; want 1000 and all three", len(got), got["down"], got["shaky"], got["busy"])
	}
	refusal(t, g.Get("down"))
	out.Success()
	if s := g.Stats(); s.Admitted != 10_005 || s.Successes != 10_001 || s.Trips != 1 {
		t.Errorf("%d admitted, %d successes, %d trips; want 10005, 10001, 1", s.Admitted, s.Successes, s.Trips)
	}
}

// When all are open a new upstream shares a breaker instead of having none.
func TestGroupFullOfOpenBreakers(t *testing.T) {
	t.Parallel()
	g := newGroup(t, plain(newClock()))
	for i := range 1000 {
		fail(t, g.Get(fmt.Sprint("key-", i)), 3)
	}
	if g.Get("new") != g.Get("newer") {
		t.Error("new upstreams have breakers of their own beyond the bound")
	}
	fail(t, g.Get("new"), 3)
	refusal(t, g.Get("newer"))
}

func TestGroupMakesOneBreakerPerKey(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.Store = newFile(t, t.TempDir())
	g := newGroup(t, cfg)
	got := make([]*breaker.Breaker, 32)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = g.Get("API.example.com/\u00fc/" + strings.Repeat("long", 60)) })
	}
	wg.Wait()
	for _, b := range got {
		if b != got[0] {
			t.Fatal("two breakers for one key")
		}
	}
	if name := got[0].Name(); len(name) > 150 || !strings.HasPrefix(name, "up/API.example.com/_/") {
		t.Errorf("name %q", name)
	}
	// Another process finds the same state under the same key.
	fail(t, got[0], 3)
	refusal(t, newGroup(t, cfg).Get("API.example.com/\u00fc/"+strings.Repeat("long", 60)))
	allow(t, newGroup(t, cfg).Get("API.example.com/\u00fb/"+strings.Repeat("long", 60)))
}

// What zero and negative fields mean survives the way through a group.
func TestGroupPassesTheConfig(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.MaxHint = -1
	b := newGroup(t, cfg).Get("x")
	for range 3 {
		allow(t, b).Done(breaker.Result{Err: errUp, Wait: time.Hour})
	}
	if got := refusal(t, b).Until.Sub(start); got != 10*time.Second {
		t.Errorf("open for %v, want the cooldown without jitter and hint", got)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	request := func(url, body string) *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return req
	}
	unread := request("https://API.Example.com:8443/v1/chat/completions", `{"model":"m"}`)
	unread.GetBody = nil
	got := []string{
		breaker.ByHost(request("https://API.Example.com:8443/v1", "")),
		breaker.ByHost(&http.Request{Host: "inbound.example.com", URL: request("/", "").URL}),
		breaker.ByHostAndModel(request("https://api.example.com/v1/chat/completions", `{"model":"m","messages":[]}`)),
		breaker.ByHostAndModel(request("https://api.example.com/v1beta/models/gemini-pro:generateContent", `{}`)),
		breaker.ByHostAndModel(request("https://api.example.com/v1/files", `no json`)),
		breaker.ByHostAndModel(unread),
	}
	want := []string{
		"api.example.com:8443", "inbound.example.com", "api.example.com/m", "api.example.com/gemini-pro", "api.example.com", "api.example.com:8443",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("keys (-got +want):\n%s", diff)
	}
}

// A group over files keeps no more of them open than it must, and what was
// closed in between is found again.
func TestGroupOverFiles(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.Store = newFile(t, t.TempDir())
	g := newGroup(t, cfg)
	fail(t, g.Get("down"), 3)
	for i := range 300 {
		allow(t, g.Get(fmt.Sprint("key-", i))).Success()
	}
	refusal(t, g.Get("down"))
	allow(t, g.Get("key-0")).Success()
	if n := openFiles(t); n >= 300 {
		t.Errorf("%d files are open", n)
	}
}

// openFiles counts the open files of this process, 0 where that is not told.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
