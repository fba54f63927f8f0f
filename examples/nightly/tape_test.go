package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/deadletter/fixture"
	"github.com/nightfuse/nightfuse/deadletter/fixture/nighttest"
)

// maxCalls is how many calls an item may make in a run with one outage: three
// until the breaker opens before its fourth, one as a probe, and the four of a
// retry when it comes again.
const maxCalls = 8

// shelf is results in memory: thousands of files in each of several nights would
// take minutes to sync.
type shelf struct {
	mu    sync.Mutex
	items map[string]batch.Result
}

func (s *shelf) Load(_ context.Context, item string) (batch.Result, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.items[item]
	return r, ok, nil
}

func (s *shelf) Store(_ context.Context, r batch.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[r.Item] = r
	return nil
}

func (s *shelf) Sync(context.Context) error { return nil }

func (s *shelf) all(yield func(string, []byte) bool) {
	for id, r := range s.items {
		if !yield(id, r.Data) {
			return
		}
	}
}

// runTaped runs the program on base, and returns what it has left, as the
// results and letters say it and not the report: what is done has a result, what
// is dead has a letter.
func runTaped(t *testing.T, p *program, n int, args ...string) (outcome, nighttest.Night) {
	t.Helper()
	s := &shelf{items: map[string]batch.Result{}}
	p.results = s
	dir := nightDir(t, n)
	o := runProgram(t, p, dir, args...)
	return o, nightOf(t, dir, s, o)
}

func nightOf(t *testing.T, dir string, s *shelf, o outcome) nighttest.Night {
	t.Helper()
	n := nighttest.Night{
		Total: int(o.report.Total), Pending: o.report.PendingItems, Lost: o.report.LostItems,
		Results: s.all, Placeholder: saysNothing,
		Calls: int(o.report.Calls), MaxPerItem: maxCalls, Spent: o.report.Spent, SoftCap: o.report.SoftCap,
	}
	for id := range n.Results {
		n.Done = append(n.Done, id)
	}
	letters, err := deadletter.OpenJournal(filepath.Join(dir, "state", "letters"))
	if err != nil {
		t.Fatal(err)
	}
	defer letters.Close()
	for r, err := range letters.List(t.Context(), deadletter.Filter{Queue: "nightly"}) {
		if err != nil {
			t.Fatal(err)
		}
		n.Dead = append(n.Dead, r.ItemID)
	}
	return n
}

// saysNothing is the program's own rule, asked of what is stored.
func saysNothing(b []byte) bool { return checkResult(checkSummary)(batch.Item{}, b) != nil }

// failures runs an assertion and returns what it says.
type failures struct {
	testing.TB
	said []string
}

func (f *failures) Helper()                   {}
func (f *failures) Errorf(s string, a ...any) { f.said = append(f.said, fmt.Sprintf(s, a...)) }

func says(t *testing.T, assert func(testing.TB)) string {
	f := &failures{TB: t}
	assert(f)
	return strings.Join(f.said, "\n")
}

// replayOf is the recording in dir as a transport.
func replayOf(t *testing.T, dir string) *fixture.Replayer {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, tapeName))
	if err != nil {
		t.Fatal(err)
	}
	play, err := fixture.NewReplayer(fixture.ReplayerConfig{From: bytes.NewReader(b), Sticky: true})
	if err != nil {
		t.Fatal(err)
	}
	return play
}

// One night is recorded and replayed: as it was, with every third call refused,
// and three times with something taken out that keeps it safe.
func TestRecordedNight(t *testing.T) {
	t.Parallel()
	items := 1400 // long enough to run into the outage
	if n, err := strconv.Atoi(os.Getenv("NIGHTLY_TEST_ITEMS")); err == nil {
		items = n // 4000 is the demo's night
	}
	tape := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		up := upstream(t, "night")
		_, live := runTaped(t, &program{base: up}, items, "-record", tape)
		nighttest.Conserved(t, live)
		if b, err := os.ReadFile(filepath.Join(tape, tapeName)); err != nil || bytes.Contains(b, []byte(demoKey)) || bytes.Count(b, []byte(`"key"`)) != up.Stats().Calls {
			t.Errorf("%v: want a line a call and no key in the recording", err)
		}
	})

	t.Run("as it was", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			play := replayOf(t, tape)
			o, n := runTaped(t, &program{base: play}, items)
			nighttest.Conserved(t, n)
			nighttest.NoPlaceholders(t, n.Results, saysNothing)
			nighttest.AttemptsWithin(t, play.Counts(), maxCalls)
			nighttest.SpendWithin(t, n.Spent, n.SoftCap)
			if play.Counts().Total() != n.Calls || *o.report.CallsPerDone > 1.2 || n.Total != items {
				t.Errorf("%d calls, the run says %d, %v per item done", play.Counts().Total(), n.Calls, *o.report.CallsPerDone)
			}
		})
	})
	t.Run("every third call refused", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			nighttest.SurvivesEveryNth(t, replayOf(t, tape), 3, 429, func(rt http.RoundTripper) nighttest.Night {
				o, n := runTaped(t, &program{base: rt}, items)
				if !slices.ContainsFunc(o.report.Alerts, func(a batch.Alert) bool { return a.Kind == batch.CallsPerDone }) {
					t.Errorf("%v calls per item done, and no alarm: %v", *o.report.CallsPerDone, o.report.Alerts)
				}
				return n
			})
		})
	})
}

// The assertions fail when what they watch over is taken out.
func TestMutatedNights(t *testing.T) {
	t.Parallel()
	const items = 400
	synctest.Test(t, func(t *testing.T) {
		tape := t.TempDir()
		recorded, _ := runTaped(t, &program{base: upstream(t, "ok")}, items, "-record", tape)
		if recorded.exit != exitDone {
			t.Fatal(recorded.stdout)
		}

		// The guards taken out: the naive loop over the same storm.
		said := says(t, func(tb testing.TB) {
			nighttest.SurvivesEveryNth(tb, alwaysBusy{}, 3, 429, func(rt http.RoundTripper) nighttest.Night {
				dir := nightDir(t, items)
				o := runNight(t, rt, dir, "-naive")
				n := nighttest.Night{Total: items, Calls: int(o.report.Calls), Placeholder: saysNothing}
				stored := map[string][]byte{}
				files, err := filepath.Glob(filepath.Join(dir, "naive", "*.json"))
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range files {
					b, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					id := filepath.Base(f)
					stored[id], n.Done = b, append(n.Done, id)
				}
				n.Results = func(yield func(string, []byte) bool) {
					for id, b := range stored {
						if !yield(id, b) {
							return
						}
					}
				}
				return n
			})
		})
		if want := fmt.Sprintf("%d of %d results are placeholders", items, items); !strings.Contains(said, want) {
			t.Errorf("without the guards the assertions say %q, want %q", said, want)
		}

		// A placeholder let through, where the model says such for one item in ten.
		for _, check := range []func(string) error{nil, func(string) error { return nil }} {
			_, n := runTaped(t, &program{base: &mute{base: replayOf(t, tape)}, check: check}, items)
			said := says(t, func(tb testing.TB) { nighttest.NoPlaceholders(tb, n.Results, saysNothing) })
			if (said != "") != (check != nil) {
				t.Errorf("with the check %v: the assertion says %q", check == nil, said)
			}
		}

		// The cap raised: the plan was for two thirds of what the night needs.
		plan := recorded.report.Spent * 2 / 3
		for _, limit := range []int64{plan, 10 * plan} {
			o, _ := runTaped(t, &program{base: replayOf(t, tape)}, items, "-headroom", "0", "-limit", fmt.Sprint(limit))
			said := says(t, func(tb testing.TB) { nighttest.SpendWithin(tb, o.report.Spent, plan) })
			if (said != "") != (limit > plan) {
				t.Errorf("limit %d, plan %d, spent %d: the assertion says %q", limit, plan, o.report.Spent, said)
			}
		}
	})
}

// alwaysBusy answers every call with a 429.
type alwaysBusy struct{}

func (alwaysBusy) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 429, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// mute makes the model say for one item in ten what only this program knows to be
// a placeholder.
type mute struct{ base http.RoundTripper }

func (m *mute) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := m.base.RoundTrip(req)
	if err != nil || req.ContentLength%10 != 0 {
		return resp, err
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	doc["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)["content"] = "Summary"
	if b, err = json.Marshal(doc); err != nil {
		return nil, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	return resp, nil
}

// The flags, over a real loopback server and without one.
func TestTapeFlags(t *testing.T) {
	t.Parallel()
	tape := filepath.Join(t.TempDir(), "tape")
	o := runNight(t, nil, t.TempDir(), "-n", "30", "-upstream", "ok", "-record", tape)
	if o.exit != exitDone {
		t.Fatalf("recording: exit %d\n%s%s", o.exit, o.stdout, o.stderr)
	}
	o = runNight(t, nil, t.TempDir(), "-n", "30", "-replay", tape)
	if o.exit != exitDone || o.report.Done != 30 || o.report.Calls != 30 {
		t.Errorf("replay: exit %d\n%s%s", o.exit, o.stdout, o.stderr)
	}
	o = runNight(t, nil, t.TempDir(), "-n", "30", "-replay", tape, "-fault", "every=3,status=503")
	// Which calls are met depends on the order of the workers: an item may meet
	// four.
	if r := o.report; r.Done < 20 || r.Done+r.Dead != 30 || r.Calls <= 30 {
		t.Errorf("with faults: exit %d\n%s%s", o.exit, o.stdout, o.stderr)
	}
	for _, c := range []struct{ args, want string }{
		{"-record " + tape, "night.jsonl"},
		{"-replay " + t.TempDir(), "-replay"},
		{"-record a -replay b", "one of them"},
		{"-fault every=0,status=429", "EveryNth(0)"},
		{"-fault every=3,status=200", "Status(200)"},
		{"-fault every=x,status=429", `no number`},
		{"-fault often=3,status=429", `none of every, status`},
	} {
		o := runNight(t, nil, t.TempDir(), append([]string{"-n", "3"}, strings.Fields(c.args)...)...)
		if o.exit != exitUsage || !strings.Contains(o.stderr, c.want) {
			t.Errorf("%s: exit %d, %q, want %q", c.args, o.exit, o.stderr, c.want)
		}
	}
}
