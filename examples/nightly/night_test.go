package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// outcome is what a run left behind.
type outcome struct {
	exit           int
	report         report
	stdout, stderr string
}

// runNight runs the program on dir with the demo's flags and args.
func runNight(t *testing.T, base http.RoundTripper, dir string, args ...string) outcome {
	t.Helper()
	return runProgram(t, &program{base: base}, dir, args...)
}

func runProgram(t *testing.T, p *program, dir string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p.args = append([]string{"-dir", dir}, args...)
	p.stdout, p.stderr = &stdout, &stderr
	if p.getenv == nil {
		p.getenv = func(string) string { return "" }
	}
	if p.clk == nil {
		p.clk = wallClock{}
	}
	o := outcome{exit: p.run(t.Context())}
	o.stdout, o.stderr = stdout.String(), stderr.String()
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(b, &o.report)
	}
	if err != nil && o.exit != exitUsage {
		t.Fatalf("exit %d without a report: %v\n%s%s", o.exit, err, o.stdout, o.stderr)
	}
	return o
}

// inboxes are the demo's inboxes by size, written once for all tests.
var inboxes struct {
	sync.Mutex
	dir  string
	made map[int]string
}

// nightDir returns a work folder whose inbox has n items.
func nightDir(t *testing.T, n int) string {
	t.Helper()
	inboxes.Lock()
	defer inboxes.Unlock()
	inbox := inboxes.made[n]
	if inbox == "" {
		inbox = filepath.Join(inboxes.dir, fmt.Sprint(n))
		if err := writeInbox(inbox, n); err != nil {
			t.Fatal(err)
		}
		inboxes.made[n] = inbox
	}
	dir := t.TempDir()
	if err := os.Symlink(inbox, filepath.Join(dir, "inbox")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// upstream returns the demo's fake called name.
func upstream(t *testing.T, name string) *fakemodel.Model {
	t.Helper()
	m, err := demoUpstream(name, 1, 1<<40, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// checkConserved checks what must hold after every run whatever happened.
func checkConserved(t *testing.T, dir string, o outcome) {
	t.Helper()
	r := o.report
	if r.Done+r.Dead+r.Pending+r.Lost != r.Total || r.Lost != 0 {
		t.Errorf("done %d + dead %d + pending %d + lost %d is not total %d", r.Done, r.Dead, r.Pending, r.Lost, r.Total)
	}
	if len(r.DeadItems) != int(r.Dead) || len(r.PendingItems) != int(r.Pending) {
		t.Errorf("named are %d dead and %d pending, counted %d and %d", len(r.DeadItems), len(r.PendingItems), r.Dead, r.Pending)
	}
	if r.Exit != o.exit {
		t.Errorf("exit %d, the report says %d", o.exit, r.Exit)
	}
	files, err := filepath.Glob(filepath.Join(dir, "results", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != int(r.Done) {
		t.Errorf("%d result files, %d done", len(files), r.Done)
	}
	for id, b := range folder(t, dir).All(func(err error) { t.Error(err) }) {
		if err := checkResult(checkSummary)(batch.Item{}, b); err != nil {
			t.Errorf("%s is no result: %v", id, err)
		}
	}
	if r.Spent > r.SoftCap {
		t.Errorf("spent %d above the soft cap %d", r.Spent, r.SoftCap)
	}
	last := lastLine(o.stdout)
	if last != r.String() || !strings.Contains(last, fmt.Sprintf(" calls=%d done=%d ", r.Calls, r.Done)) {
		t.Errorf("last line %q, want %q", last, r)
	}
}

// folder is the results in a work folder.
func folder(t *testing.T, dir string) *batch.Folder {
	t.Helper()
	f, err := batch.OpenFolder(filepath.Join(dir, "results"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func TestNight(t *testing.T) {
	t.Parallel()
	const items = 1400 // long enough to run into the outage
	synctest.Test(t, func(t *testing.T) {
		dir, up := nightDir(t, items), upstream(t, "night")
		first := runNight(t, up, dir)
		checkConserved(t, dir, first)
		r := first.report
		if r.Total != items || r.Pending != 0 || first.exit != batch.ExitDead {
			t.Errorf("total %d, pending %d, exit %d: want %d, 0, %d\n%s", r.Total, r.Pending, first.exit, items, batch.ExitDead, first.stdout)
		}
		seen := up.Stats()
		poisoned := int64(seen.Fates[fakemodel.FatePoison])
		if r.Dead < poisoned || r.Dead > poisoned+20 {
			t.Errorf("%d dead letters of %d poison items and a few that stay empty", r.Dead, poisoned)
		}
		if int(r.Calls) != seen.Calls {
			t.Errorf("%d calls reported, the upstream saw %d", r.Calls, seen.Calls)
		}
		if *r.CallsPerDone > 1.2 || r.Trips < 1 {
			t.Errorf("calls per done %v, trips %d: want at most 1.2 and the outage's trip", *r.CallsPerDone, r.Trips)
		}
		if r.TokensActual != seen.Tokens || r.TokensEstimated < r.TokensActual {
			t.Errorf("tokens %d of estimated %d, billed %d", r.TokensActual, r.TokensEstimated, seen.Tokens)
		}

		again := runNight(t, up, dir)
		checkConserved(t, dir, again)
		if n := up.Stats().Calls - seen.Calls; n != 0 || again.report.Skipped != r.Done {
			t.Errorf("the second run made %d calls and skipped %d of %d", n, again.report.Skipped, r.Done)
		}
	})
}

func TestOnlyRateLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, up := nightDir(t, 4000), upstream(t, "429")
		o := runNight(t, up, dir)
		checkConserved(t, dir, o)
		calls := up.Stats().Calls
		if calls > 64 || o.exit != batch.ExitStopped || o.report.Pending != 4000 {
			t.Errorf("%d calls, exit %d, %d pending: want at most 64, %d, 4000", calls, o.exit, o.report.Pending, batch.ExitStopped)
		}
		if tr := o.report.Tripped; tr == nil || tr.Signature == "" || !strings.Contains(tr.Template, "429") {
			t.Errorf("tripped = %+v, want the signature of a 429", tr)
		}

		// The state outlives the run: at once again, nothing is sent.
		o = runNight(t, up, dir, "-hold", "0")
		if n := up.Stats().Calls - calls; n != 0 || o.exit != batch.ExitStopped {
			t.Errorf("%d calls against an open breaker, exit %d", n, o.exit)
		}
	})
}

func TestNaiveStorm(t *testing.T) {
	t.Parallel()
	const items = 600
	synctest.Test(t, func(t *testing.T) {
		dir, up := nightDir(t, items), upstream(t, "429")
		o := runNight(t, up, dir, "-naive")
		calls := up.Stats().Calls
		if want := items * naiveAttempts; calls != want || int(o.report.Calls) != want {
			t.Errorf("%d calls, reported %d, want %d", calls, o.report.Calls, want)
		}
		if o.exit != exitDone || o.report.Done != items || o.report.Empty != items {
			t.Errorf("exit %d, done %d, silently empty %d: want the green night of the story", o.exit, o.report.Done, o.report.Empty)
		}
	})
}

func TestRefusedKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, up := nightDir(t, 4000), upstream(t, "401")
		o := runNight(t, up, dir)
		checkConserved(t, dir, o)
		if n := up.Stats().Calls; n > 33 || o.exit != batch.ExitStopped || o.report.Pending != 4000 {
			t.Errorf("%d calls, exit %d, pending %d: want at most 33, %d, 4000", n, o.exit, o.report.Pending, batch.ExitStopped)
		}

		// With the key mended everything is done: no item died of the old one.
		dir = nightDir(t, 200)
		if o := runNight(t, up, dir); o.exit != batch.ExitStopped {
			t.Errorf("exit %d\n%s", o.exit, o.stdout)
		}
		time.Sleep(time.Hour)
		if o := runNight(t, upstream(t, "ok"), dir); o.exit != exitDone {
			t.Errorf("with a good key: exit %d\n%s", o.exit, o.stdout)
		}
	})
}

func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		whole := upstream(t, "ok")
		if o := runNight(t, whole, nightDir(t, 600), "-headroom", "0"); o.exit != exitDone {
			t.Fatalf("without a limit: exit %d\n%s", o.exit, o.stdout)
		}
		need := whole.Stats().Tokens

		dir, up := nightDir(t, 600), upstream(t, "ok")
		limit := []string{"-limit", fmt.Sprint(need * 6 / 10)}
		o := runNight(t, up, dir, limit...)
		checkConserved(t, dir, o)
		r := o.report
		if o.exit != batch.ExitBudget || r.Pending == 0 || r.Spent != up.Stats().Tokens || r.SoftCap > need*6/10 {
			t.Errorf("exit %d, pending %d, spent %d (billed %d) of soft cap %d, limit %d", o.exit, r.Pending, r.Spent, up.Stats().Tokens, r.SoftCap, need*6/10)
		}
		if float64(r.Spent) < 0.95*float64(r.SoftCap) {
			t.Errorf("spent %d: far below the soft cap %d", r.Spent, r.SoftCap)
		}

		for day := 0; o.exit == batch.ExitBudget && day < 5; day++ {
			time.Sleep(24 * time.Hour)
			o = runNight(t, up, dir, limit...)
			checkConserved(t, dir, o)
		}
		if o.exit != exitDone {
			t.Errorf("later windows: exit %d\n%s", o.exit, o.stdout)
		}
		for id, it := range up.Stats().Items {
			if it.Calls != 1 {
				t.Errorf("item %s was called %d times", id, it.Calls)
			}
		}
	})
}

func TestHeldThroughAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := nightDir(t, 600)
		up, err := fakemodel.New(fakemodel.Config{
			Key: demoKey, SinceFirstCall: true,
			Latency: fakemodel.Latency{Median: 100 * time.Millisecond, Reject: 5 * time.Millisecond},
			Faults:  fakemodel.Faults{Outages: []fakemodel.Outage{{From: time.Second, To: 40 * time.Minute}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		o := runNight(t, up, dir, "-hold", "1h")
		checkConserved(t, dir, o)
		if o.exit != exitDone {
			t.Errorf("exit %d\n%s", o.exit, o.stdout)
		}
		if n := up.Stats().Fates[fakemodel.FateOutage]; n > 90 {
			t.Errorf("%d calls into an outage of 40 minutes", n)
		}
	})
}

func TestInboxFileThatIsNoItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, up := t.TempDir(), upstream(t, "ok")
		inbox := filepath.Join(dir, "inbox")
		write(t, filepath.Join(inbox, "a.json"), `{"symbol":"a","text":"What a does."}`)
		write(t, filepath.Join(inbox, "b.json"), `{"symbol":`)
		write(t, filepath.Join(inbox, "c.json"), `{"symbol":"c","text":"  "}`)
		write(t, filepath.Join(inbox, "notes.txt"), `not an item`)

		o := runNight(t, up, dir)
		checkConserved(t, dir, o)
		if diff := cmp.Diff(o.report.DeadItems, []string{"b.json", "c.json"}); diff != "" || o.report.Done != 1 || o.exit != batch.ExitDead {
			t.Errorf("exit %d, done %d, dead items (-got +want):\n%s", o.exit, o.report.Done, diff)
		}
		if n := up.Stats().Calls; n != 1 {
			t.Errorf("%d calls, want 1: what is no item is not sent", n)
		}

		// Mended, it is done; the others are not touched.
		write(t, filepath.Join(inbox, "b.json"), `{"symbol":"b","text":"What b does."}`)
		o = runNight(t, up, dir)
		checkConserved(t, dir, o)
		if diff := cmp.Diff(o.report.DeadItems, []string{"c.json"}); diff != "" || up.Stats().Calls != 2 {
			t.Errorf("%d calls, dead items (-got +want):\n%s", up.Stats().Calls, diff)
		}
		// Asked to, the next run tries the dead ones again, in vain here.
		if again := runNight(t, up, dir, "-again"); again.report.Dead != 1 || again.report.Pending != 0 || up.Stats().Calls != 2 {
			t.Errorf("-again: dead %d, pending %d, %d calls", again.report.Dead, again.report.Pending, up.Stats().Calls)
		}
		if len(o.report.Signatures) != 1 {
			t.Errorf("signatures %v, want only that of c.json: b.json's letter is resolved", o.report.Signatures)
		}
	})
}

func TestChangedInputIsDoneAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, up := t.TempDir(), upstream(t, "ok")
		file := filepath.Join(dir, "inbox", "a.json")
		write(t, file, `{"symbol":"a","text":"What a does."}`)
		runNight(t, up, dir)
		write(t, file, `{"symbol":"a","text":"What a does today."}`)
		if o := runNight(t, up, dir); o.report.Skipped != 0 || up.Stats().Calls != 2 {
			t.Errorf("skipped %d, %d calls: want it done again", o.report.Skipped, up.Stats().Calls)
		}
		// Half a result, such as a full disk leaves with other tools, is none.
		write(t, folder(t, dir).Path("a.json"), `{"item":"a.json","summ`)
		if o := runNight(t, up, dir); o.report.Skipped != 0 || o.exit != exitDone {
			t.Errorf("skipped %d, exit %d: half a result passed as done", o.report.Skipped, o.exit)
		}
	})
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		signals []os.Signal
		hang    bool
		exit    int
	}{
		{"the first drains", []os.Signal{os.Interrupt}, false, 130},
		{"the second cancels", []os.Signal{os.Interrupt, os.Interrupt}, true, 130},
		{"patience ends", []os.Signal{syscall.SIGTERM}, true, 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := fakemodel.Config{Key: demoKey, Latency: fakemodel.Latency{Median: time.Second}}
				if c.hang {
					cfg.Faults.Hang.Share = 1
				}
				up, err := fakemodel.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				signals := make(chan os.Signal, len(c.signals))
				go func() {
					for _, s := range c.signals {
						time.Sleep(1500 * time.Millisecond)
						signals <- s
					}
				}()
				dir := nightDir(t, 200)
				begin := time.Now()
				o := runProgram(t, &program{base: up, notify: func() <-chan os.Signal { return signals }}, dir, "-workers", "4")
				checkConserved(t, dir, o)
				if o.exit != c.exit || o.report.Pending == 0 || o.report.Dead != 0 {
					t.Errorf("exit %d, pending %d, dead %d\n%s", o.exit, o.report.Pending, o.report.Dead, o.stdout)
				}
				if d := time.Since(begin); d > time.Minute {
					t.Errorf("stopped after %v", d)
				}
				if !c.hang && int(o.report.Done) != up.Stats().Calls {
					t.Errorf("%d done of %d calls: those in flight were not waited for", o.report.Done, up.Stats().Calls)
				}
			})
		})
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	key := func(name string) string { return map[string]string{"OPENAI_API_KEY": "k"}[name] }
	for _, c := range []struct {
		name   string
		before func(t *testing.T, dir string)
		getenv func(string) string
		args   []string
		want   string // in the message
	}{
		{"empty inbox", func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "inbox")) }, nil, nil, "inbox has no *.json file"},
		{"results cannot be written", func(t *testing.T, dir string) { write(t, filepath.Join(dir, "results"), "a file") }, nil, []string{"-n", "3"}, "results"},
		{"report is a folder", func(t *testing.T, dir string) { mkdir(t, filepath.Join(dir, "report.json")) }, nil, []string{"-n", "3"}, "report.json is a folder"},
		{"no key", nil, nil, []string{"-base-url", "http://127.0.0.1:1/v1", "-limit", "5", "-model", "m"}, "NIGHTLY_API_KEY or OPENAI_API_KEY"},
		{"no limit", nil, key, []string{"-base-url", "http://127.0.0.1:1/v1", "-model", "m"}, "needs -limit"},
		{"no model", nil, key, []string{"-base-url", "http://127.0.0.1:1/v1", "-limit", "5"}, "needs -model"},
		{"no inbox for a real upstream", nil, key, []string{"-base-url", "http://127.0.0.1:1/v1", "-limit", "5", "-model", "m"}, "inbox"},
		{"base URL", nil, key, []string{"-base-url", "localhost:1", "-limit", "5", "-model", "m"}, "no http or https URL"},
		{"a limit that no item fits under", nil, nil, []string{"-n", "3", "-limit", "10"}, "after the headroom"},
		{"headroom", nil, nil, []string{"-headroom", "1"}, "-headroom"},
		{"not a number", nil, nil, []string{"-headroom", "NaN"}, "-headroom"},
		{"workers", nil, nil, []string{"-workers", "0"}, "-workers"},
		{"upstream", nil, nil, []string{"-upstream", "moon", "-n", "3"}, "moon"},
		{"more items than there are", nil, nil, []string{"-n", "100000000"}, "-n 100000000 asks for more"},
		{"unknown flag", nil, nil, []string{"-turbo"}, "-turbo"},
		{"stray argument", nil, nil, []string{"now"}, `"now"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.before != nil {
				c.before(t, dir)
			}
			o := runProgram(t, &program{getenv: c.getenv}, dir, c.args...)
			if o.exit != exitUsage || !strings.Contains(o.stderr, c.want) {
				t.Errorf("exit %d, message %q: want %d and %q", o.exit, o.stderr, exitUsage, c.want)
			}
			for _, touched := range []string{"state/letters/deadletter-000001.jsonl", "naive"} {
				if _, err := os.Stat(filepath.Join(dir, touched)); err == nil {
					t.Errorf("%s was made", touched)
				}
			}
		})
	}
}

func TestSecondRunOnTheSameFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var second outcome
		model := upstream(t, "ok")
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			if second.exit == 0 {
				second = runNight(t, model, dir, "-n", "1")
			}
			return model.RoundTrip(req)
		})
		first := runNight(t, base, dir, "-n", "1")
		if first.exit != exitDone || second.exit != exitUsage || !strings.Contains(second.stderr, fmt.Sprint(os.Getpid())) {
			t.Errorf("exits %d and %d, message %q: want the second to name the first's process", first.exit, second.exit, second.stderr)
		}
	})
}

// The disk goes away in the middle: the answers that could not be kept are
// named, nothing more is paid for, and the next run does them again.
func TestResultsCannotBeKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, up := nightDir(t, 200), upstream(t, "ok")
		results := filepath.Join(dir, "results")
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := up.RoundTrip(req)
			if up.Stats().Calls == 20 {
				if err := os.RemoveAll(results); err != nil {
					t.Error(err)
				}
				write(t, results, "in the way")
			}
			return resp, err
		})
		o := runNight(t, base, dir, "-workers", "4")
		r := o.report
		if o.exit != exitLost || r.Lost == 0 || len(r.LostItems) != int(r.Lost) || r.Lost > 4 || len(r.Warnings) == 0 {
			t.Errorf("exit %d, lost %d %v, warnings %v", o.exit, r.Lost, r.LostItems, r.Warnings)
		}
		if calls := up.Stats().Calls; calls > 24 {
			t.Errorf("%d calls: went on paying", calls)
		}
		if err := os.Remove(results); err != nil {
			t.Fatal(err)
		}
		o = runNight(t, up, dir)
		checkConserved(t, dir, o)
		if o.exit != exitDone {
			t.Errorf("with the disk back: exit %d\n%s", o.exit, o.stdout)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The demo over a real loopback server, as a newcomer starts it.
func TestLoopback(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := runNight(t, nil, dir, "-n", "60", "-upstream", "ok")
	checkConserved(t, dir, o)
	if o.exit != exitDone || o.report.Done != 60 || o.report.Calls != 60 {
		t.Errorf("exit %d, done %d, calls %d\n%s%s", o.exit, o.report.Done, o.report.Calls, o.stdout, o.stderr)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Whatever lies in the inbox, the good items are done and the bad ones named.
func TestOddInboxFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, up := t.TempDir(), upstream(t, "ok")
		inbox := filepath.Join(dir, "inbox")
		write(t, filepath.Join(inbox, "good.json"), `{"symbol":"a","text":"What a does."}`)
		write(t, filepath.Join(inbox, "empty.json"), ``)
		write(t, filepath.Join(inbox, "line\nbreak.json"), `{"symbol":"b","text":"What b does."}`)
		write(t, filepath.Join(inbox, strings.Repeat("n", 230)+".json"), `{"symbol":"c","text":"What c does."}`)
		write(t, filepath.Join(inbox, "huge.json"), strings.Repeat(" ", maxItem+1))
		mkdir(t, filepath.Join(inbox, "folder.json"))
		for name, to := range map[string]string{"dangling.json": "nowhere", "to-a-folder.json": "folder.json"} {
			if err := os.Symlink(to, filepath.Join(inbox, name)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			o := runNight(t, up, dir)
			checkConserved(t, dir, o)
			if o.report.Done != 2 || o.report.Dead != 5 || o.exit != batch.ExitDead || up.Stats().Calls != 2 {
				t.Errorf("done %d, dead %v, exit %d, %d calls", o.report.Done, o.report.DeadItems, o.exit, up.Stats().Calls)
			}
		}
	})
}

func TestCheckSummary(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", " \n", "N/A", "n/a.", "...", "\u00ad", "\u3164", "\u2800", "\u200bN/A", "<br>", "\ufeff"} {
		if checkSummary(s) == nil {
			t.Errorf("%q passes as a summary", s)
		}
	}
	for _, s := range []string{"Two refunds.", "\u4e8c", "42", "No error handling is needed."} {
		if err := checkSummary(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
}
