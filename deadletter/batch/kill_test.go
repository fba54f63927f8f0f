package batch_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// childEnv makes the test binary a run of its own, on the folder and against the
// server that it names.
const childEnv = "BATCH_TEST_CHILD"

// killsEnv is how many kills TestKilledRun makes; the default is moderate.
const killsEnv = "BATCH_TEST_KILLS"

// killPlan returns the number of kills, and of items to spread them over.
func killPlan() (kills, n int) {
	kills = 8
	if v, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		kills = v
	}
	return kills, max(200, 10*kills)
}

func TestMain(m *testing.M) {
	if v := os.Getenv(childEnv); v != "" {
		dir, url, _ := strings.Cut(v, "|")
		os.Exit(child(dir, url))
	}
	os.Exit(m.Run())
}

func child(dir, url string) int {
	store, err := deadletter.OpenJournal(filepath.Join(dir, "letters"))
	if err != nil {
		fmt.Println(err)
		return batch.ExitUsage
	}
	letters, err := deadletter.New(deadletter.Config{Name: "night", Store: store})
	if err != nil {
		fmt.Println(err)
		return batch.ExitUsage
	}
	_, n := killPlan()
	rep, err := batch.Run(context.Background(), batch.Config{
		Dir: dir, Letters: letters, Workers: 8, Logger: slog.New(slog.NewTextHandler(os.Stdout, nil)),
	}, items(n),
		func(ctx context.Context, it batch.Item) ([]byte, error) {
			if strings.HasSuffix(url, "/deaf") {
				ctx = context.WithoutCancel(ctx)
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/"+it.ID, nil)
			if err != nil {
				return nil, err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return nil, err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return nil, statusError(resp.StatusCode)
			}
			return io.ReadAll(resp.Body)
		})
	fmt.Println(rep, err)
	return rep.Exit
}

// A run that is killed at any moment, over and over: what has a result keeps it
// and is never done again, what has a letter neither, and the last run finishes
// the rest.
func TestKilledRun(t *testing.T) {
	t.Parallel()
	kills, killItems := killPlan()
	var (
		mu    sync.Mutex
		calls = map[string]int{}
		kill  = make(chan struct{}, 1)
		left  int // calls until the next kill
		last  bool
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := strings.TrimPrefix(r.URL.Path, "/")
		mu.Lock()
		calls[id]++
		if left--; left == 0 && !last {
			kill <- struct{}{}
		}
		// A quick run has only so much to do until the kill comes.
		hold := !last && left < -killItems/(4*(kills+1))
		mu.Unlock()
		if hold {
			<-r.Context().Done()
			return
		}
		if strings.HasSuffix(id, "7") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		fmt.Fprint(w, "summary of ", id)
	}))
	t.Cleanup(server.Close)

	dir := filepath.Join(t.TempDir(), "run")
	rng := rand.New(rand.NewPCG(3, 4))
	finished := map[string]int{} // items with a result or a letter, and the calls for them until then
	check := func() {
		t.Helper()
		f, err := batch.OpenFolder(filepath.Join(dir, "results"))
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		stored := map[string]bool{}
		for id, data := range f.All(func(err error) { t.Error(err) }) {
			if stored[id] = true; string(data) != "summary of "+id {
				t.Errorf("the result of %s is %q", id, data)
			}
		}
		store, err := deadletter.OpenJournal(filepath.Join(dir, "letters"))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		for rec, err := range store.List(t.Context(), deadletter.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if stored[rec.ItemID] || !strings.HasSuffix(rec.ItemID, "7") || rec.Failures != 1 {
				t.Errorf("a letter of %s, %d failures", rec.ItemID, rec.Failures)
			}
			stored[rec.ItemID] = true
		}
		for id := range stored {
			if was, had := finished[id]; had && was != calls[id] {
				t.Errorf("%s was finished after %d calls and was called again", id, was)
			}
			finished[id] = calls[id]
		}
		for id := range finished {
			if !stored[id] {
				t.Errorf("the result or letter of %s is gone", id)
			}
		}
	}
	run := func() (*exec.Cmd, *strings.Builder, chan error) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir+"|"+server.URL)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		return cmd, &out, ended
	}
	killed := 0
	for k := range kills {
		mu.Lock()
		// So few calls a run that the kills are spread over all the items.
		left = 1 + rng.IntN(killItems/(2*(kills+1)))
		mu.Unlock()
		cmd, out, ended := run()
		select {
		case <-kill:
			// At any moment from the call on: in a sync, before a rename, in
			// the append of a letter.
			<-time.After(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-ended
			killed++
		case <-ended:
			t.Fatalf("run %d ended by itself\n%s", k, out)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "report.json")); err == nil {
			var rep batch.Report
			if json.Unmarshal(b, &rep) != nil || rep.Complete {
				t.Errorf("a killed run left the report %s", b)
			}
		}
		check()
	}
	mu.Lock()
	last = true
	mu.Unlock()
	cmd, out, ended := run()
	<-ended
	if code := cmd.ProcessState.ExitCode(); code != batch.ExitDead {
		t.Errorf("the last run: exit %d, want %d\n%s", code, batch.ExitDead, out)
	}
	check()
	if len(finished) != killItems || killed != kills {
		t.Errorf("%d items have a result or a letter, want %d; %d kills, want %d", len(finished), killItems, killed, kills)
	}
	line := ""
	for s := bufio.NewScanner(strings.NewReader(out.String())); s.Scan(); {
		if strings.HasPrefix(s.Text(), "state=") {
			line = s.Text()
		}
	}
	if !strings.HasPrefix(line, "state=finished") {
		t.Errorf("last line %q", line)
	}
	mu.Lock()
	defer mu.Unlock()
	total := 0
	for _, n := range calls {
		total += n
	}
	// The first of each run may be tried once more, and each kill cuts off at
	// most what was in flight.
	if most := killItems + kills*(8+1) + 1; total > most {
		t.Errorf("%d calls for %d items and %d kills, want at most %d", total, killItems, kills, most)
	}
}

// A million items from an iterator: what is held in memory does not grow with
// them beyond the hashes of their names.
func TestMillionItems(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("a million items: not in short mode, nor under the race detector")
	}
	e := newEnv(t)
	e.cfg.Results = &ones{}
	const n = 1_000_000
	var peak uint64
	rep, err := batch.Run(t.Context(), e.cfg, func(yield func(batch.Item) bool) {
		for i := range n {
			if i%100_000 == 99_999 {
				peak = max(peak, heap())
			}
			id := "item-" + strconv.Itoa(i)
			if !yield(batch.Item{ID: id, Input: []byte(id)}) {
				return
			}
		}
	}, func(_ context.Context, it batch.Item) ([]byte, error) { return []byte("fine"), nil })
	if err != nil || rep.Done != n || rep.Calls != n {
		t.Fatalf("%v, %v", rep, err)
	}
	if peak > 150<<20 {
		t.Errorf("%d MB at the most, want at most 150", peak>>20)
	}
	t.Logf("%d MB at the most, %v s", peak>>20, rep.Seconds)
}

// ones is a place for results that keeps none.
type ones struct{}

func (*ones) Load(context.Context, string) (batch.Result, bool, error) {
	return batch.Result{}, false, nil
}
func (*ones) Store(context.Context, batch.Result) error { return nil }
func (*ones) Sync(context.Context) error                { return nil }

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
