package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/deadletter/fixture"
	"github.com/nightfuse/nightfuse/deadletter/fixture/nighttest"
	"github.com/nightfuse/nightfuse/internal/fakemodel"
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

// bill counts what the answers that pass through it say that they cost.
type bill struct {
	base   http.RoundTripper
	tokens atomic.Int64
}

func (b *bill) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.base.RoundTrip(req)
	if err != nil {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var a chatAnswer
	if json.Unmarshal(body, &a) == nil {
		b.tokens.Add(a.Usage.Total)
	}
	return resp, nil
}

// runTaped runs the program on base with all of its state in memory, and returns
// what it has left, as results, letters and bill say it and not the report.
func runTaped(t *testing.T, p *program, n int, args ...string) (outcome, nighttest.Night) {
	t.Helper()
	s, b := &shelf{items: map[string]batch.Result{}}, &bill{base: p.base}
	p.base, p.results, p.state = b, s, memoryState()
	o := runProgram(t, p, nightDir(t, n), args...)
	night := nighttest.Night{
		Total: int(o.report.Total), Pending: o.report.PendingItems, Lost: o.report.LostItems,
		Results: s.all, Placeholder: saysNothing,
		Calls: int(o.report.Calls), MaxPerItem: maxCalls, Spent: b.tokens.Load(), SoftCap: o.report.SoftCap,
	}
	for id := range night.Results {
		night.Done = append(night.Done, id)
	}
	for r, err := range p.state.letters.List(t.Context(), deadletter.Filter{Queue: "nightly"}) {
		if err != nil {
			t.Fatal(err)
		}
		night.Dead = append(night.Dead, r.ItemID)
	}
	return o, night
}

// runNaive runs the loop without guards on base.
func runNaive(t *testing.T, base http.RoundTripper, n int) nighttest.Night {
	t.Helper()
	dir, b := nightDir(t, n), &bill{base: base}
	o := runNight(t, b, dir, "-naive")
	stored := map[string][]byte{}
	night := nighttest.Night{
		Total: n, Results: maps.All(stored), Placeholder: saysNothing,
		Calls: int(o.report.Calls), MaxPerItem: maxCalls, Spent: b.tokens.Load(),
	}
	files, err := filepath.Glob(filepath.Join(dir, "naive", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		id := filepath.Base(f)
		night.Done = append(night.Done, id)
		if stored[id], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return night
}

// saysNothing is the program's own rule, asked of what is stored.
func saysNothing(b []byte) bool { return checkResult(checkSummary)(batch.Item{}, b) != nil }

// failures runs assertions and keeps what they say.
type failures struct {
	testing.TB
	said []string
}

func (f *failures) Helper()                   {}
func (f *failures) Errorf(s string, a ...any) { f.said = append(f.said, fmt.Sprintf(s, a...)) }

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

// The demo's night is recorded once, and replayed: as it was, with every third
// call refused, and so again with something taken out that keeps it safe. Then
// the assertions fail.
func TestRecordedNight(t *testing.T) {
	t.Parallel()
	const items = 4000
	const some = 400 // of them, where a few are enough
	tape := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		up := upstream(t, "night")
		_, live := runTaped(t, &program{base: up}, items, "-record", tape)
		nighttest.Conserved(t, live)
		b, err := os.ReadFile(filepath.Join(tape, tapeName))
		if err != nil || bytes.Contains(b, []byte(demoKey)) || bytes.Count(b, []byte(`"key"`)) != up.Stats().Calls {
			t.Errorf("%v: want a line a call and no key in the recording", err)
		}
		if up.Stats().Fates[fakemodel.FateOutage] == 0 {
			t.Error("the night had no outage")
		}
	})

	t.Run("as it was", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			play := replayOf(t, tape)
			o, n := runTaped(t, &program{base: play}, items)
			nighttest.Played(t, play)
			nighttest.Conserved(t, n)
			nighttest.NoPlaceholders(t, n.Results, saysNothing)
			nighttest.AttemptsWithin(t, play.Counts(), maxCalls)
			nighttest.SpendWithin(t, n.Spent, n.SoftCap)
			if play.Counts().Total() != n.Calls || *o.report.CallsPerDone > 1.2 || n.Total != items {
				t.Errorf("%d calls, the run says %d, %v per item done; %+v", play.Counts().Total(), n.Calls, *o.report.CallsPerDone, play.Stats())
			}
			if n.Spent != o.report.Spent || n.Spent != o.report.TokensActual {
				t.Errorf("booked %d, of this run %d; the answers say %d", o.report.Spent, o.report.TokensActual, n.Spent)
			}
		})
	})

	// The plan for some of the items: two thirds of what they need.
	var plan int64
	synctest.Test(t, func(t *testing.T) {
		_, n := runTaped(t, &program{base: replayOf(t, tape)}, some)
		plan = n.Spent * 2 / 3
	})
	planned := func(t *testing.T, rt http.RoundTripper, limit int64) nighttest.Night {
		_, n := runTaped(t, &program{base: rt}, some, "-headroom", "0", "-limit", fmt.Sprint(limit))
		n.SoftCap = plan
		return n
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, http.RoundTripper) nighttest.Night
		want []string // what the assertions say
	}{
		{"every third call refused", func(t *testing.T, rt http.RoundTripper) nighttest.Night {
			// It holds: the recorded outage comes on top, in whatever order the
			// workers meet it.
			o, n := runTaped(t, &program{base: rt}, items, "-hold", "1h")
			if !slices.ContainsFunc(o.report.Alerts, func(a batch.Alert) bool { return a.Kind == batch.CallsPerDone }) {
				t.Errorf("%v calls per item done, and no alarm: %v", *o.report.CallsPerDone, o.report.Alerts)
			}
			if n.Total != items || len(n.Done) < items*9/10 || o.report.Pending != 0 {
				t.Errorf("%d items, %d done\n%s", n.Total, len(n.Done), o.stdout)
			}
			return n
		}, nil},
		{"the guards taken out", func(t *testing.T, rt http.RoundTripper) nighttest.Night {
			return runNaive(t, rt, some)
		}, []string{"results are placeholders", "made more than 8 calls"}},
		{"a model that says placeholders", func(t *testing.T, rt http.RoundTripper) nighttest.Night {
			_, n := runTaped(t, &program{base: &mute{base: rt}}, some)
			return n
		}, nil},
		{"and no check of them", func(t *testing.T, rt http.RoundTripper) nighttest.Night {
			_, n := runTaped(t, &program{base: &mute{base: rt}, check: func(string) error { return nil }}, some)
			return n
		}, []string{"results are placeholders"}},
		{"a cap of two thirds", func(t *testing.T, rt http.RoundTripper) nighttest.Night {
			return planned(t, rt, plan)
		}, nil},
		{"and the cap raised", func(t *testing.T, rt http.RoundTripper) nighttest.Night {
			return planned(t, rt, 10*plan)
		}, []string{"above the soft cap"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &failures{TB: t}
				nighttest.SurvivesEveryNth(f, replayOf(t, tape), 3, 429, func(rt http.RoundTripper) nighttest.Night { return c.run(t, rt) })
				if len(f.said) != len(c.want) {
					t.Errorf("the assertions say %q, want %q", f.said, c.want)
				}
				for _, w := range c.want {
					if !strings.Contains(strings.Join(f.said, "\n"), w) {
						t.Errorf("the assertions say %q, want %q", f.said, w)
					}
				}
			})
		})
	}
}

// mute makes the model say for one item in ten what only this program knows to be
// a placeholder.
type mute struct{ base http.RoundTripper }

func (m *mute) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := m.base.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK || req.ContentLength%10 != 0 {
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
	dir := t.TempDir()
	o = runNight(t, nil, dir, "-n", "30", "-replay", tape)
	if o.exit != exitDone || o.report.Done != 30 || o.report.Calls != 30 {
		t.Errorf("replay: exit %d\n%s%s", o.exit, o.stdout, o.stderr)
	}
	left, err := os.ReadDir(filepath.Join(dir, "state"))
	if err != nil || len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("a replay left %v, %v in the state of the real day", left, err)
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
