package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// childArgs is the environment variable that makes the test binary the program
// itself, with the arguments it holds.
const childArgs = "NIGHTLY_TEST_ARGS"

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(childArgs); ok {
		var a []string
		if err := json.Unmarshal([]byte(args), &a); err != nil {
			panic(err)
		}
		p := &program{args: a, getenv: os.Getenv, stdout: os.Stdout, stderr: os.Stderr, clk: wallClock{}}
		os.Exit(p.run(context.Background()))
	}
	dir, err := os.MkdirTemp("", "nightly-test-")
	if err != nil {
		panic(err)
	}
	inboxes.dir, inboxes.made = dir, map[int]string{}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// child is a run in a process of its own.
type child struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

func startChild(t *testing.T, dir, baseURL string, args ...string) *child {
	t.Helper()
	a, err := json.Marshal(append([]string{
		"-dir", dir, "-base-url", baseURL, "-model", "m", "-limit", "100000000", "-rpm", "60000",
	}, args...))
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.cmd.Env = append(os.Environ(), childArgs+"="+string(a), "NIGHTLY_API_KEY="+demoKey)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// wait returns the exit code, -1 after a kill.
func (c *child) wait() int {
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

// watched serves a model and tells when the calls have reached a number.
type watched struct {
	*fakemodel.Model
	url     string
	calls   atomic.Int64
	killAt  atomic.Int64
	reached chan struct{}
}

func watch(t *testing.T, cfg fakemodel.Config) *watched {
	t.Helper()
	cfg.Key = demoKey
	m, err := fakemodel.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{Model: m, reached: make(chan struct{}, 1)}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.calls.Add(1) == w.killAt.Load() {
			w.reached <- struct{}{}
		}
		m.ServeHTTP(rw, r)
	}))
	t.Cleanup(s.Close)
	w.url = s.URL + "/v1"
	return w
}

func TestKilledNight(t *testing.T) {
	t.Parallel()
	const items, workers, kills = 240, 16, 10
	up := watch(t, fakemodel.Config{
		Seed: 7, Latency: fakemodel.Latency{Median: 10 * time.Millisecond, Sigma: 1},
	})
	dir := nightDir(t, items)
	inbox, err := readInbox(filepath.Join(dir, "inbox"))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	finished := map[string]int{} // prompt of an item with a result -> calls for it until then

	for k := range kills {
		// Some runs are killed at their first calls, some in the middle.
		up.killAt.Store(up.calls.Load() + 1 + rng.Int64N(items/kills))
		c := startChild(t, dir, up.url, "-workers", "16")
		ended := make(chan int, 1)
		go func() { ended <- c.wait() }()
		select {
		case <-up.reached:
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-ended
		case code := <-ended:
			t.Fatalf("run %d ended by itself, exit %d\n%s", k, code, c.out.String())
		}
		// The server may still be answering calls of the dead process; it
		// bills them when they end.
		checkKilled(t, up, dir, inbox, finished, (k+1)*workers)
	}
	up.killAt.Store(0)
	c := startChild(t, dir, up.url)
	if code := c.wait(); code != exitDone {
		t.Fatalf("after the kills: exit %d\n%s", code, c.out.String())
	}
	checkKilled(t, up, dir, inbox, finished, kills*workers)
	if len(finished) != items {
		t.Errorf("%d of %d items have a result", len(finished), items)
	}
	if n := int(up.calls.Load()); n > items+kills*workers {
		t.Errorf("%d calls for %d items and %d kills with %d calls in flight", n, items, kills, workers)
	}
}

// checkKilled checks what must hold after a kill. inFlight is how many calls
// the kills so far can have cut off.
func checkKilled(t *testing.T, up *watched, dir string, inbox []item, finished map[string]int, inFlight int) {
	t.Helper()
	res := folder(t, dir)
	m := &model{name: "m"}
	stats := up.Stats()
	var estimates int64
	for _, it := range inbox {
		body, err := m.request(it)
		if err != nil {
			t.Fatal(err)
		}
		estimates = max(estimates, int64(len(body)))
		prompt := it.Symbol + "\n\n" + it.Text
		calls := stats.Prompt(prompt).Calls
		r, ok, err := res.Load(t.Context(), it.File)
		sum := sha256.Sum256(it.Bytes)
		ok = ok && r.InputHash == hex.EncodeToString(sum[:]) && checkResult(checkSummary)(batch.Item{}, r.Data) == nil
		if err != nil {
			t.Fatal(err)
		}
		if was, had := finished[prompt]; had && (!ok || calls != was) {
			t.Errorf("%s had a result after %d calls, now %v after %d: done twice", it.File, was, ok, calls)
		} else if ok {
			finished[prompt] = calls
		}
	}

	// The spend survives: all that was billed is booked, and at most the
	// estimates of what was in flight on top.
	ledger, err := budget.OpenFile(filepath.Join(dir, "state", "budget"))
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	day, err := budget.New(budget.Config{Name: "day", Limit: 100_000_000, Store: ledger, Owners: []budget.Owner{{Name: "nightly"}}})
	if err != nil {
		t.Fatal(err)
	}
	status, err := day.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status.Spent < stats.Tokens || status.Spent > stats.Tokens+int64(inFlight)*(estimates+maxSummary) {
		t.Errorf("booked %d, billed %d, at most %d calls cut off", status.Spent, stats.Tokens, inFlight)
	}
}

func TestKilledWhileOpen(t *testing.T) {
	t.Parallel()
	up := watch(t, fakemodel.Config{Faults: fakemodel.Faults{Always: fakemodel.Failure{Status: 429}}})
	dir := nightDir(t, 200)
	c := startChild(t, dir, up.url, "-hold", "1h")
	store, err := breaker.File(filepath.Join(dir, "state", "breaker"))
	if err != nil {
		t.Fatal(err)
	}
	br, err := breaker.New(breaker.Config{Name: "upstream", Store: store})
	if err != nil {
		t.Fatal(err)
	}
	for br.State() != breaker.Open {
		select {
		case <-t.Context().Done():
			t.Fatalf("the breaker never opened\n%s", c.out.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.wait()

	c = startChild(t, dir, up.url, "-hold", "0")
	code := c.wait()
	// The server may still be counting calls of the killed run: the report
	// tells what this one has sent.
	var rep report
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(b, &rep)
	}
	if err != nil || code != batch.ExitStopped || rep.Calls != 0 {
		t.Errorf("exit %d and %d calls after the restart (%v), want %d and none\n%s", code, rep.Calls, err, batch.ExitStopped, c.out.String())
	}
	if s := br.Stats(); s.TripsTotal != 1 || s.State != breaker.Open {
		t.Errorf("state %v, %d trips: want the one trip of the killed run", s.State, s.TripsTotal)
	}
}
