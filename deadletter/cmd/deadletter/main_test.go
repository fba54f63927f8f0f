package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
)

// The test binary is the command, and a program that writes letters, when the
// environment says so: then exit codes, signals and locks are the real ones.
func TestMain(m *testing.M) {
	switch dir := os.Getenv("DEADLETTER_WRITES_TO"); {
	case os.Getenv("DEADLETTER_IS_COMMAND") != "":
		main()
	case dir != "":
		writeUntilClosed(dir)
	default:
		os.Exit(m.Run())
	}
}

// writeUntilClosed puts letters into the journal until its input ends, and says
// how many at the end.
func writeUntilClosed(dir string) {
	j, err := deadletter.OpenJournal(dir)
	if err != nil {
		panic(err)
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	for n := 0; ; n++ {
		select {
		case <-over:
			fmt.Println(n)
			os.Exit(0)
		default:
		}
		err := j.Put(context.Background(), deadletter.Record{Queue: "other", ItemID: fmt.Sprint("w", n), Payload: []byte("{}"), Signature: "1:writer"})
		if err != nil {
			panic(err)
		}
		if n == 0 {
			fmt.Println("writing")
		}
	}
}

// result is what a run of the command printed.
type result struct {
	code      int
	out, errs string
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "DEADLETTER_IS_COMMAND=1", "GORACE=atexit_sleep_ms=0", "TEST_KEY=sk-test-marker-4711")
	return cmd
}

// cli runs the command to its end.
func cli(t *testing.T, args ...string) result {
	t.Helper()
	cmd := command(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

func (r result) want(t *testing.T, code int, words ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\n%s%s", r.code, code, r.out, r.errs)
	}
	for _, w := range words {
		if !strings.Contains(r.out+r.errs, w) {
			t.Errorf("%q is missing in\n%s%s", w, r.out, r.errs)
		}
	}
}

// fill puts letters into a new journal and returns its directory.
func fill(t *testing.T, letters ...deadletter.Record) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "letters")
	add(t, dir, letters...)
	return dir
}

func add(t *testing.T, dir string, letters ...deadletter.Record) {
	t.Helper()
	j, err := deadletter.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, r := range letters {
		if r.Queue == "" {
			r.Queue = "nightly"
		}
		if err := j.Put(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// states counts the letters of a journal by state.
func states(t *testing.T, dir string) map[deadletter.State]int {
	t.Helper()
	j, err := deadletter.StoreConfig{ReadOnly: true}.Journal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	s, err := j.Stats(t.Context(), deadletter.Filter{States: everyState})
	if err != nil {
		t.Fatal(err)
	}
	return s.States
}

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

func TestLooking(t *testing.T) {
	t.Parallel()
	dir := fill(t,
		deadletter.Record{
			ItemID: "doc-1", Status: 503, Signature: "1:aaaaaaaaaaaa", SignatureText: "503 overloaded", Err: "overloaded", Owner: "nightly",
			Labels: map[string]string{"file": "a.json"}, Payload: []byte("one\x00\xff"), EstTokens: 70, Method: "POST", URL: "https://api.example/v1", RunID: "r1",
		},
		deadletter.Record{ItemID: "doc-2", Status: 503, Signature: "1:aaaaaaaaaaaa", SignatureText: "503 overloaded", Err: "overloaded", Owner: "day", EstTokens: 30},
		deadletter.Record{ItemID: "doc-3", Signature: "1:bbbbbbbbbbbb", SignatureText: "connection reset", Err: "connection reset", LastFailedAt: time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)},
	)
	id := deadletter.ID("nightly", "doc-1")

	for _, tt := range []struct {
		args string
		want []string // items listed
	}{
		{"", []string{"doc-3", "doc-1", "doc-2"}},
		{"-signature 1:bbbbbbbbbbbb", []string{"doc-3"}},
		{"-status 503", []string{"doc-1", "doc-2"}},
		{"-status 0,404", []string{"doc-3"}},
		{"-owner day", []string{"doc-2"}},
		{"-label file=a.json", []string{"doc-1"}},
		{"-run r1", []string{"doc-1"}},
		{"-older 24h", []string{"doc-3"}},
		{"-newer 24h", []string{"doc-1", "doc-2"}},
		{"-older 2021-01-01T00:00:00Z", []string{"doc-3"}},
		{"-queue other", nil},
		{"-state acked,discarded", nil},
		{"-state all -limit 2", []string{"doc-3", "doc-1"}},
		{"doc-2 " + id[:8], []string{"doc-1", "doc-2"}},
		{"-status 503 doc-3", nil},
	} {
		args := append([]string{"ls", "--json", dir}, strings.Fields(tt.args)...)
		r := cli(t, args...)
		r.want(t, 0)
		var got []string
		for d := json.NewDecoder(strings.NewReader(r.out)); ; {
			var rec deadletter.Record
			if err := d.Decode(&rec); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			got = append(got, rec.ItemID)
		}
		if diff := cmp.Diff(got, tt.want); diff != "" {
			t.Errorf("ls %s: %s", tt.args, diff)
		}
	}

	r := cli(t, "ls", dir)
	r.want(t, 0, "SIGNATURE")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines:\n%s", len(lines), r.out)
	}
	cli(t, "show", dir, strings.Fields(lines[1])[0]).want(t, 0, "doc-3") // what is shown can be given back
	for _, l := range lines {                                            // aligned: every column begins where its head does
		if strings.Index(lines[0], "SIGNATURE") < 1 || l[strings.Index(lines[0], "SIGNATURE")-1] != ' ' {
			t.Errorf("not aligned:\n%s", r.out)
		}
	}
	cli(t, "groups", dir).want(t, 0, "503 overloaded", "connection reset", "100", "3 dead")
	cli(t, "groups", dir, "-json").want(t, 0, `"count":2`, `"dead":3`)
	cli(t, "show", dir, "doc-1").want(t, 0, id, "https://api.example/v1", "label file", "a.json", "nightly", "5 B")
	cli(t, "show", dir, "doc-1", "-json").want(t, 0, `"item_id":"doc-1"`)
	if r := cli(t, "payload", dir, "doc-1"); r.out != "one\x00\xff" || r.code != 0 {
		t.Errorf("%q", r.out)
	}
	cli(t, "payload", dir, "doc-1", "-json").want(t, 0, `"payload":"b25lAP8="`)
	cli(t, "export", dir, "-status", "503").want(t, 0, `"payload":"b25lAP8="`, `"item_id":"doc-2"`)
	cli(t, "verify", dir).want(t, 0, "3 letters", "no damage")
	cli(t, "verify", dir, "-json").want(t, 0, `"damage":[]`, `"letters":3`)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	dir := fill(t, deadletter.Record{ItemID: "a", Payload: []byte("p")}, deadletter.Record{ItemID: "b", Payload: []byte("p")})
	empty := t.TempDir()
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"", 1, "usage:"},
		{"help", 0, "usage:"},
		{"ls -help", 0, "-signature"},
		{"open " + dir, 1, "no such verb"},
		{"ls", 1, "directory"},
		{"ls " + empty, 1, "no journal"},
		{"ls " + empty + "/missing", 1, "missing"},
		{"ls " + dir + " -status many", 1, "numbers"},
		{"ls " + dir + " -state gone", 1, "quarantined"},
		{"ls " + dir + " -label x", 1, "key=value"},
		{"ls " + dir + " -older -3h", 1, "duration"},
		{"ls " + dir + " nothing", 1, "no such letter"},
		{"groups " + dir + " a", 1, "takes no"},
		{"show " + dir, 1, "one letter"},
		{"show " + dir + " nothing", 1, "no such letter"},
		{"payload " + dir + " a b", 1, "one letter"},
		{"replay " + dir + " -limit 5", 1, "-budget"},
		{"replay " + dir + " -budget " + empty, 1, "-limit"},
		{"replay " + dir + " -yes -budget " + empty + "/none -limit 5", 1, "none"},
		{"replay " + dir + " -yes -breaker " + empty + "/none", 1, "none"},
		{"replay " + dir + " -breaker-name x", 1, "-breaker"},
		{"replay " + dir + " -auth-env DEADLETTER_NOT_SET", 1, "empty"},
		{"replay " + dir + " -queue other -yes", 1, "no letter matches"},
		{"replay " + dir + " -state acked", 1, "acked"},
		{"discard " + dir, 1, "-reason"},
		{"discard " + dir + " -reason old -queue other", 1, "no letter matches"},
		{"discard " + dir + " -reason old -state claimed", 1, "claimed"},
	} {
		cli(t, strings.Fields(tt.args)...).want(t, tt.code, tt.want)
	}
	if _, err := os.Stat(filepath.Join(empty, "missing")); err == nil {
		t.Error("a journal was made where there was none")
	}
	if got := states(t, dir); got[deadletter.Dead] != 2 {
		t.Errorf("%v", got)
	}
}

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
	cli(t, "replay", dir, "-yes").want(t, 0, "sent 0 of 0")
	cli(t, "replay", dir, "-yes", "-state", "quarantined").want(t, 4, "sent 1 of 1")
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
	cli(t, "replay", dir, "-yes", "-max", "2", "-rate", "1000").want(t, 4, "sent 2 of 4", "2 not tried")
	cli(t, "replay", dir, "-yes").want(t, 4, "sent 1 of 2", "1 not tried", "waiting")
	cli(t, "replay", dir, "-yes", "-early").want(t, 0, "sent 1 of 1")
	cli(t, "replay", dir, "-yes").want(t, 0)
	if n := u.total(); n != 4 {
		t.Errorf("%d calls, want 4", n)
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
	cli(t, "replay", dir, "-yes", "-budget", ledger, "-limit", "100000").want(t, 0, "3 acked")
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

func TestDiscard(t *testing.T) {
	t.Parallel()
	var letters []deadletter.Record
	for i := range 250 {
		letters = append(letters, deadletter.Record{ItemID: fmt.Sprint("doc-", i), Status: 400 + i%2})
	}
	dir := fill(t, letters...)
	cli(t, "discard", dir, "-status", "400", "-reason", "bad input").want(t, 1, "to discard: 125 letters", "-yes")
	if got := states(t, dir); got[deadletter.Dead] != 250 {
		t.Fatalf("%v", got)
	}
	cli(t, "discard", dir, "-status", "400", "-reason", "bad input", "-max", "5", "-yes").want(t, 4, "discarded 5 of 125")
	cli(t, "discard", dir, "-status", "400", "-reason", "bad input", "-yes", "-json").want(t, 0, `"discarded":120`)
	cli(t, "discard", dir, "doc-1", "-reason", "by name", "-yes").want(t, 0, "discarded 1 of 1")
	if got := states(t, dir); got[deadletter.Discarded] != 126 {
		t.Errorf("%v", got)
	}
	cli(t, "show", dir, "doc-1").want(t, 0, "by name", "discarded")
}

// What hostile letters hold is shown, not obeyed.
func TestHostileText(t *testing.T) {
	t.Parallel()
	evil := "\x1b[2J\u202eevil\u2066\x07\u200f\u0085\u2028\xff\r\n\tend"
	dir := fill(t, deadletter.Record{
		ItemID: evil, Queue: evil, Err: evil, Signature: evil, SignatureText: evil, Owner: evil, RunID: evil, Reason: evil, ErrType: evil,
		URL: "https://x/" + evil, Method: evil, Labels: map[string]string{evil: evil}, Header: http.Header{"Accept": {evil}}, UpstreamRequestID: evil,
		Payload: []byte(evil),
	})
	id := deadletter.ID(evil, evil)
	for _, args := range [][]string{
		{"ls", dir},
		{"ls", dir, "-json"},
		{"groups", dir},
		{"groups", dir, "-json"},
		{"show", dir, id},
		{"show", dir, id, "-json"},
		{"export", dir},
		{"payload", dir, id, "-json"},
		{"replay", dir},
		{"replay", dir, "-yes"},
		{"discard", dir, "-reason", evil},
		{"show", dir, evil + "x"},
	} {
		r := cli(t, args...)
		if i := strings.IndexFunc(r.out+r.errs, func(r rune) bool {
			return r != '\n' && r != '…' && r != utf8.RuneError && (r < ' ' || r > '~')
		}); i >= 0 {
			t.Errorf("%q prints %q", args[:1], (r.out + r.errs)[i:min(i+20, len(r.out+r.errs))])
		}
	}
	dir = fill(t, deadletter.Record{ItemID: "a", Err: evil})
	r := cli(t, "ls", dir, "-json")
	var rec deadletter.Record
	if err := json.Unmarshal([]byte(r.out), &rec); err != nil || !strings.Contains(rec.Err, "\u202eevil\u2066") {
		t.Errorf("the JSON says something else: %q, %v", rec.Err, err)
	}
}

func TestVerifyTellsDamage(t *testing.T) {
	t.Parallel()
	dir := fill(t, deadletter.Record{ItemID: "a", Err: "first", Payload: []byte("p")}, deadletter.Record{ItemID: "b"}, deadletter.Record{ItemID: "c"})
	seg := filepath.Join(dir, "deadletter-000001.jsonl")
	b, err := os.ReadFile(seg)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	lines[1] = bytes.Replace(lines[1], []byte(`"nightly"`), []byte(`"daylily"`), 1)
	if err := os.WriteFile(seg, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	cli(t, "verify", dir).want(t, 5, "deadletter-000001.jsonl", "1 place damaged", "2 letters")
	cli(t, "verify", dir, "-json").want(t, 5, `"line":2`)
	cli(t, "ls", dir).want(t, 0, "1 damaged line", "verify")
}

// Looking, discarding and replaying work beside a program that writes.
func TestBesideAWriter(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, ok)
	dir := fill(t, u.request("a"), u.request("b"), u.request("c"))
	w := exec.CommandContext(t.Context(), os.Args[0])
	w.Env = append(os.Environ(), "DEADLETTER_WRITES_TO="+dir)
	var werr bytes.Buffer
	w.Stderr = &werr
	in, err := w.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	var first string
	if _, err := fmt.Fscan(out, &first); err != nil || first != "writing" {
		t.Fatalf("%q, %v, %s", first, err, werr.String())
	}
	cli(t, "ls", dir, "-queue", "nightly").want(t, 0, "a", "b", "c")
	cli(t, "groups", dir).want(t, 0, "1:writer", "1:aaaaaaaaaaaa")
	cli(t, "verify", dir).want(t, 0, "no damage")
	cli(t, "replay", dir, "-yes", "-queue", "nightly", "a", "b").want(t, 0, "2 acked")
	cli(t, "discard", dir, "-queue", "nightly", "-reason", "not needed", "-yes").want(t, 0, "discarded 1 of 1")
	_ = in.Close()
	var wrote int
	if _, err := fmt.Fscan(out, &wrote); err != nil {
		t.Fatalf("%v, %s", err, werr.String())
	}
	if err := w.Wait(); err != nil {
		t.Fatalf("%v, %s", err, werr.String())
	}
	got := states(t, dir)
	if got[deadletter.Acked] != 2 || got[deadletter.Discarded] != 1 || got[deadletter.Dead] != wrote {
		t.Errorf("%v, want 2 acked, 1 discarded and %d dead", got, wrote)
	}
	cli(t, "verify", dir).want(t, 0, "no damage")
}

// The first signal gives the claims back.
func TestSignal(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be sent an interrupt on Windows")
	}
	for sig, code := range map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143} {
		called := make(chan struct{}, 1)
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body) // only then is the client's going noticed
			called <- struct{}{}
			<-req.Context().Done()
		}))
		r := (&upstream{Server: srv}).request("a")
		dir := fill(t, r)
		cmd := command(t, "replay", dir, "-yes", "-json")
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-called
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		srv.Close()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(out.String(), `"released":1`) {
			t.Errorf("%v: exit code %d, want %d: %s", sig, got, code, out.String())
		}
		if got := states(t, dir); got[deadletter.Dead] != 1 {
			t.Errorf("%v: %v", sig, got)
		}
	}
}
