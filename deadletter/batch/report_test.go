package batch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/deadletter/fixture/nighttest"
	"github.com/nightfuse/nightfuse/internal/call"
)

// The report's form is what other programs read: members are added to the file
// in testdata, and none of it changes.
func TestReportForm(t *testing.T) {
	t.Parallel()
	per := 1.25
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rep := batch.Report{
		V: 1, Name: "nightly", State: "stopped: the breaker refuses", Exit: 2,
		Total: 12, Skipped: 1, Done: 5, Dead: 3, DeadBefore: 1, Pending: 3, Lost: 1, Uncounted: true, Duplicates: 1,
		Calls: 5, Retries: 1, CallsPerDone: &per, P50: 10, P95: 20,
		Stuck: &batch.Stuck{Items: 100, P50: 1, P95: 9, FirstP50: 1, FirstP95: 2},
		Trips: 1, StoppedBy: "breaker", Refusal: "open", TokensEstimated: 100, TokensActual: 90,
		Signatures: []batch.SignatureCount{{Signature: "1:0123456789ab", Template: "503 service unavailable", Count: 2}},
		DeadItems:  []string{"a"}, PendingItems: []string{"b"}, LostItems: []string{"c"},
		Alerts: []batch.Alert{{At: at, Kind: batch.Tripped, Text: "the breaker opened"}}, Warnings: []string{"w"},
		Started: at, Seconds: 1.5,
	}
	for i, v := range reflect.ValueOf(rep).Fields() {
		if v.IsZero() && i.Name != "Complete" {
			t.Errorf("%s is not in this test", i.Name)
		}
	}
	got, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/report.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got)+"\n", string(want)); diff != "" {
		t.Errorf("the form of the report (-got +want):\n%s", diff)
	}
}

// A run's report has every list as a list and what it does not know as null.
func TestReportOfARun(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.cfg.AllowEmpty = true
	if _, err := e.run(items(0), nil); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(e.cfg.Dir + "/report.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"signatures", "dead_items", "pending_items", "lost_items", "alerts", "warnings"} {
		if _, ok := doc[name].([]any); !ok {
			t.Errorf("%s is %v, want a list", name, doc[name])
		}
	}
	if v, ok := doc["calls_per_done"]; v != nil || !ok || doc["complete"] != true || doc["state"] != "finished" {
		t.Errorf("report %s", b)
	}
}

// By the signature in the report the letter is found, also where the handle has
// put its own words in the place of what a guard has counted.
func TestSignaturesAreTheLetters(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	rep, _ := e.run(items(6), func(ctx context.Context, it batch.Item) ([]byte, error) {
		if it.ID == "item-000" {
			return []byte("fine"), nil
		}
		noted := statusError(503)
		call.From(ctx).Item.Fail(noted)
		return nil, fmt.Errorf("no summary of %s: %w", it.ID, noted)
	})
	r, err := e.letters.Get(t.Context(), "item-003")
	if err != nil || len(rep.Signatures) != 1 || rep.Signatures[0].Signature != r.Signature || rep.Signatures[0].Count != 5 {
		t.Errorf("%v, the letter's is %s, the report's are %v", err, r.Signature, rep.Signatures)
	}
	if len(rep.Alerts) != 1 || !strings.Contains(rep.Alerts[0].Text, r.Signature) {
		t.Errorf("alerts %v, want one about %s", rep.Alerts, r.Signature)
	}
}

// What the caller's code says may hold a key. Report and log are read by many.
func TestReportAndLogHoldNoKeys(t *testing.T) {
	t.Parallel()
	const key = "sk-abcdefghijklmnopqrstuvwxyz0123"
	asked := &url.Error{Op: "Post", URL: "https://model.test/v1?key=" + key, Err: statusError(401)}
	broken := fmt.Errorf("disk gone at https://store.test/?key=%s", key)
	for _, tt := range []struct {
		name string
		set  func(*batch.Config)
		err  error
		want string // in the report
	}{
		{"a refused key", func(*batch.Config) {}, asked, "upstream answered 401"},
		{"a result that is lost", func(c *batch.Config) { c.Results = failing{store: broken} }, nil, "disk gone"},
		{"a folder that cannot be read", func(c *batch.Config) { c.Results = failing{load: broken} }, nil, "disk gone"},
		{"a sync that fails", func(c *batch.Config) { c.Results = failing{sync: broken} }, nil, "disk gone"},
		{"hooks that panic", func(c *batch.Config) {
			c.OnAlert = func(batch.Alert) { panic(errors.New("no alert: " + key)) }
			c.Gauges = func() batch.Gauges { panic("no gauges: " + key) }
		}, asked, "upstream answered 401"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			var log bytes.Buffer
			e.cfg.Logger, e.cfg.Workers, e.cfg.RepeatTrip = slog.New(slog.NewTextHandler(&log, nil)), 1, 2
			tt.set(&e.cfg)
			_, _ = e.run(items(5), func(context.Context, batch.Item) ([]byte, error) { return []byte("fine"), tt.err })
			report, err := os.ReadFile(filepath.Join(e.cfg.Dir, "report.json"))
			if err != nil || !strings.Contains(string(report), tt.want) {
				t.Errorf("%v, the report does not say %q:\n%s", err, tt.want, report)
			}
			for _, text := range []string{string(report), log.String()} {
				if strings.Contains(text, key) {
					t.Errorf("the key is in\n%s", text)
				}
			}
			if tt.name == "hooks that panic" && (!strings.Contains(log.String(), "no alert") || !strings.Contains(log.String(), "no gauges")) {
				t.Errorf("the log does not tell the panics:\n%s", log.String())
			}
		})
	}
}

// failing are results that fail.
type failing struct{ load, store, sync error }

func (k failing) Load(context.Context, string) (batch.Result, bool, error) {
	return batch.Result{}, false, k.load
}
func (k failing) Store(context.Context, batch.Result) error { return k.store }
func (k failing) Sync(context.Context) error                { return k.sync }

// Names end at ten thousand of a kind. The counts do not, and what package
// nighttest's guide makes of them holds.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.cfg.Workers = 1
	rep, _ := batch.Run(t.Context(), e.cfg, items(10_050), e.handle(func(_ context.Context, it batch.Item) ([]byte, error) {
		if len(e.calls) > 1 {
			return nil, silent("breaker")
		}
		return []byte("fine"), nil
	}))
	if rep.Done != 1 || rep.Pending != 10_049 || len(rep.PendingItems) != 10_000 {
		t.Errorf("%v, %d named", rep, len(rep.PendingItems))
	}
	unnamed := int(rep.Dead+rep.Pending+rep.Lost) - len(rep.DeadItems) - len(rep.PendingItems) - len(rep.LostItems)
	night := nighttest.Night{
		Total: int(rep.Total) - unnamed, Dead: rep.DeadItems, Pending: rep.PendingItems, Lost: rep.LostItems,
		Results: results(t, e).All(func(err error) { t.Error(err) }),
	}
	for id := range night.Results {
		night.Done = append(night.Done, id)
	}
	nighttest.Conserved(t, night)
}

// A run that cannot say in its report that all is done has not done all: whoever
// reads the file finds a run that still works.
func TestReportThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	dir := filepath.Join(t.TempDir(), "reports")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	e.cfg.Report = filepath.Join(dir, "night.json")
	rep, err := batch.Run(t.Context(), e.cfg, items(1), e.handle(func(context.Context, batch.Item) ([]byte, error) {
		return []byte("fine"), os.RemoveAll(dir)
	}))
	if rep.Done != 1 || rep.Exit != batch.ExitLost || rep.Complete || !errors.Is(err, batch.ErrIncomplete) || !strings.Contains(rep.State, "report") {
		t.Errorf("%v, %q, %v", rep, rep.State, err)
	}
}

// The heartbeat is for whoever watches: what is done is done without the last one.
func TestLastHeartbeatFails(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	dir := filepath.Join(t.TempDir(), "beats")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	e.cfg.Heartbeat = filepath.Join(dir, "beat.json")
	rep, err := e.run(items(1), func(context.Context, batch.Item) ([]byte, error) { return []byte("fine"), os.RemoveAll(dir) })
	if rep.Exit != 0 || err != nil || len(rep.Warnings) != 1 || !strings.Contains(rep.Warnings[0], "heartbeat") {
		t.Errorf("%v, %v, warnings %q", rep, err, rep.Warnings)
	}
}
