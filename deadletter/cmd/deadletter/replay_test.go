package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
)

const goodAnswer = `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a summary"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}}`

// upstream is a model API on loopback that counts what it gets.
type upstream struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int // by body
	auth  map[string]bool
}

func newUpstream(t *testing.T, status func(body string) int) *upstream {
	t.Helper()
	u := &upstream{calls: map[string]int{}, auth: map[string]bool{}}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		b, _ := io.ReadAll(req.Body)
		u.mu.Lock()
		u.calls[string(b)]++
		u.auth[req.Header.Get("Authorization")+req.Header.Get("X-Api-Key")] = true
		u.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if s := status(string(b)); s != 200 {
			w.WriteHeader(s)
			_, _ = io.WriteString(w, `{"error":{"message":"no","type":"server_error"}}`)
			return
		}
		_, _ = io.WriteString(w, goodAnswer)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) total() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for _, k := range u.calls {
		n += k
	}
	return n
}

// credentials are what came with the calls so far.
func (u *upstream) credentials() map[string]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.auth)
}

// request is a letter that goes to u.
func (u *upstream) request(item string) deadletter.Record {
	return deadletter.Record{
		ItemID: item, Method: "POST", URL: u.URL + "/v1/chat/completions", Header: http.Header{"Content-Type": {"application/json"}},
		Payload: []byte(`{"prompt":"` + item + `"}`), Status: 503, Signature: "1:aaaaaaaaaaaa", SignatureText: "503 overloaded", Err: "overloaded", EstTokens: 100,
	}
}

func ok(string) int { return 200 }

func TestReplay(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(body string) int {
		if strings.Contains(body, "poison") {
			return 400
		}
		return 200
	})
	dir := fill(t, u.request("doc/1"), u.request("doc-2"), u.request("poison"))
	out := filepath.Join(t.TempDir(), "out")

	// Without -yes nothing happens, and a script can see it.
	r := cli(t, "replay", dir, "-out", out)
	r.want(t, 1, "to send: 3 of 3 letters", "about 300 tokens", strings.TrimPrefix(u.URL, "http://"), "-yes")
	cli(t, "replay", dir, "-dry-run", "-json").want(t, 0, `"matched":3`, `"dry_run":true`, `"est_tokens":300`, `"sent":0`)
	if n := u.total(); n != 0 {
		t.Fatalf("%d calls of a preview", n)
	}

	r = cli(t, "replay", dir, "-yes", "-out", out, "-auth-env", "TEST_KEY", "-json")
	r.want(t, 4, `"acked":2`, `"returned":1`, `"exit":4`)
	if diff := cmp.Diff(states(t, dir), map[deadletter.State]int{deadletter.Acked: 2, deadletter.Dead: 1}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(u.credentials(), map[string]bool{"Bearer sk-test-marker-4711": true}); diff != "" {
		t.Error(diff)
	}
	files, err := filepath.Glob(filepath.Join(out, "*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err != nil || string(b) != goodAnswer {
			t.Errorf("%s: %q, %v", f, b, err)
		}
		if name := filepath.Base(f); !strings.HasPrefix(name, "doc_1-") && !strings.HasPrefix(name, "doc-2-") {
			t.Errorf("an answer in %s", f)
		}
	}

	// The letter that failed goes by its state until a person decides.
	for range 2 {
		cli(t, "replay", dir, "-yes", "-auth-env", "TEST_KEY", "-auth-header", "x-api-key").want(t, 4)
	}
	if got := u.credentials(); !got["sk-test-marker-4711"] {
		t.Errorf("sent the credentials %v", got)
	}
	cli(t, "ls", dir).want(t, 0, "quarantined")
	cli(t, "replay", dir, "-yes").want(t, 0, "tried 0 of 0")
	cli(t, "replay", dir, "-yes", "-state", "quarantined").want(t, 4, "tried 1 of 1")
	if n := u.total(); n != 6 {
		t.Errorf("%d calls, want 6", n)
	}
	r = cli(t, "export", dir, "-state", "all")
	if r.want(t, 0); strings.Contains(r.out, "4711") {
		t.Error("a credential was kept")
	}
}

func TestReplayIsPartial(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	later := u.request("later")
	later.RetryAfter = time.Now().Add(time.Hour)
	dir := fill(t, u.request("a"), u.request("b"), u.request("c"), later)
	cli(t, "replay", dir, "-yes", "-max", "2", "-rate", "1000").want(t, 4, "tried 2 of 4", "2 not tried")
	cli(t, "replay", dir, "-yes").want(t, 4, "tried 1 of 2", "1 not tried", "waiting")
	cli(t, "replay", dir, "-yes", "-early").want(t, 0, "tried 1 of 1")
	cli(t, "replay", dir, "-yes").want(t, 0)
	if n := u.total(); n != 4 {
		t.Errorf("%d calls, want 4", n)
	}
}

// A batch's letters hold no request: who wants them sent is told what does it.
func TestReplayOfABatch(t *testing.T) {
	t.Parallel()
	dir := fill(t, deadletter.Record{ItemID: "a.txt", Payload: []byte("text")})
	cli(t, "replay", dir, "-dry-run").want(t, 0, "without an HTTP request: 1; batch.Replay sends")
	cli(t, "replay", dir, "-yes").want(t, 4, "tried 1 of 1", "1 released", "batch.Replay", "holds no HTTP request")
	if diff := cmp.Diff(states(t, dir), map[deadletter.State]int{deadletter.Dead: 1}); diff != "" {
		t.Error(diff)
	}
}

// An answer that cannot be written is no result: its letter stays.
func TestReplayWritesBeforeTheAck(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	dir := fill(t, u.request("a"))
	out := t.TempDir()
	// A folder in the place of the file.
	name := fileName(deadletter.Record{ID: deadletter.ID("nightly", "a"), ItemID: "a"})
	if err := os.MkdirAll(filepath.Join(out, name, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	cli(t, "replay", dir, "-yes", "-out", out).want(t, 4, "returned")
	if got := states(t, dir); got[deadletter.Dead] != 1 {
		t.Errorf("%v", got)
	}
}

func TestReplayThroughTheBreaker(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(string) int { return 503 })
	var letters []deadletter.Record
	for i := range 30 {
		letters = append(letters, u.request(fmt.Sprint("doc-", i)))
	}
	dir := fill(t, letters...)
	state := t.TempDir()
	store, err := breaker.File(state)
	if err != nil {
		t.Fatal(err)
	}
	up, err := breaker.New(breaker.Config{Name: "model-api", Store: store, Cooldown: time.Hour, MaxCooldown: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := up.Allow(t.Context()); err != nil {
		t.Fatal(err)
	} else {
		p.Failure(errors.New("another failure")) // which makes the file
	}
	// It opens while the replay runs, at the fifth failure of one kind.
	r := cli(t, "replay", dir, "-yes", "-breaker", state, "-attempts", "1", "-json")
	r.want(t, 2, `"stopped_by":"breaker"`, `"returned":5`, `"released":1`)
	// And stays so for the next one: nothing is sent.
	cli(t, "replay", dir, "-yes", "-breaker", state, "-breaker-name", "model-api").want(t, 2, "breaker")
	if n := u.total(); n != 5 {
		t.Errorf("%d calls, want 5", n)
	}
	if got := states(t, dir); got[deadletter.Dead] != 30 {
		t.Errorf("%v", got)
	}
	cli(t, "replay", dir, "-yes", "-breaker", t.TempDir()).want(t, 1, "0 breakers", "-breaker-name")
}

func TestReplayWithinTheBudget(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	var letters []deadletter.Record
	for i := range 10 {
		r := u.request(fmt.Sprint("doc-", i))
		r.Owner = "nightly"
		letters = append(letters, r)
	}
	dir := fill(t, letters...)
	ledger := filepath.Join(t.TempDir(), "spend")
	f, err := budget.OpenFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	day, err := budget.New(budget.Config{Limit: 1000, Headroom: -1, Store: f, Owners: []budget.Owner{{Name: "nightly"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := day.Adjust(t.Context(), "nightly", 850); err != nil {
		t.Fatal(err)
	}
	// Each call reserves 100 and costs 8.
	r := cli(t, "replay", dir, "-yes", "-budget", ledger, "-limit", "1000", "-headroom", "0", "-concurrency", "1", "-json")
	r.want(t, 3, `"stopped_by":"budget"`, `"acked":7`, `"released":1`)
	s, err := day.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(s); !strings.Contains(text, "906") {
		t.Errorf("spent %s, want 850 and 7 times 8", text)
	}
	// Another name would be another count, with the whole cap before it.
	replay := []string{"replay", dir, "-yes", "-budget", ledger, "-limit", "100000"}
	cli(t, append(replay, "-budget-name", "dya")...).want(t, 1, "1 budget,", "-budget-name", "budget")
	cli(t, replay...).want(t, 0, "3 acked")
}

// A file with the counts of several budgets, or of none, does not say where to
// book.
func TestReplayAsksForTheBudgetsName(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	dir := fill(t, u.request("a"))
	ledger := filepath.Join(t.TempDir(), "spend")
	f, err := budget.OpenFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	replay := []string{"replay", dir, "-yes", "-budget", ledger, "-limit", "1000"}
	cli(t, replay...).want(t, 1, "0 budgets", "-budget-name")
	for _, name := range []string{"day", "caf\u00e9"} {
		b, err := budget.New(budget.Config{Name: name, Limit: 1000, Store: f})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Adjust(t.Context(), "", 10); err != nil {
			t.Fatal(err)
		}
	}
	cli(t, replay...).want(t, 1, "2 budgets", "caf\u00e9 day")
	cli(t, append(replay, "-budget-name", "caf\u00e9")...).want(t, 0, "1 acked")
}

// A letter must not choose who gets the credential.
func TestCredentialGoesToOneHost(t *testing.T) {
	t.Parallel()
	u, other := newUpstream(t, ok), newUpstream(t, ok)
	dir := fill(t, u.request("a"), other.request("b"))
	cli(t, "replay", dir, "-yes", "-auth-env", "TEST_KEY").want(t, 1, "-auth-host")
	cli(t, "replay", dir, "-yes", "-auth-env", "TEST_KEY", "-auth-host", "elsewhere").want(t, 1, "elsewhere")
	cli(t, "replay", dir, "-yes", "-auth-env", "TEST_KEY", "-auth-host", strings.TrimPrefix(u.URL, "http://")).want(t, 0, "2 acked")
	if diff := cmp.Diff([]map[string]bool{u.credentials(), other.credentials()}, []map[string]bool{{"Bearer sk-test-marker-4711": true}, {"": true}}); diff != "" {
		t.Error(diff)
	}

	// Nor must an upstream, by a redirect.
	away := httptest.NewServer(http.RedirectHandler(other.URL+"/v1", http.StatusTemporaryRedirect))
	t.Cleanup(away.Close)
	r := u.request("c")
	r.URL = away.URL
	dir = fill(t, r)
	before := other.total()
	cli(t, "replay", dir, "-yes", "-auth-env", "TEST_KEY", "-auth-header", "x-api-key", "-attempts", "1").want(t, 4, "another host")
	if n := other.total(); n != before {
		t.Error("a redirect took the credential along")
	}
}
