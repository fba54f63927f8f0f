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
	"testing"

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

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
