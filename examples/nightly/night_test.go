package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

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

// What fails when the state is closed is in the report's exit, too: it is
// written last.
func TestFailedClose(t *testing.T) {
	t.Parallel()
	st := memoryState()
	st.files = append(st.files, closer(func() error { return errors.New("the disk is gone") }))
	o := runProgram(t, &program{base: upstream(t, "ok"), state: st}, nightDir(t, 20))
	if r := o.report; o.exit != exitLost || r.Exit != exitLost || r.Complete || r.Done != 20 {
		t.Errorf("exit %d, the report says %d, complete %v\n%s", o.exit, r.Exit, r.Complete, o.stderr)
	}
	if !strings.Contains(o.stderr, "the disk is gone") {
		t.Errorf("the reason is not told: %q", o.stderr)
	}
}

type closer func() error

func (c closer) Close() error { return c() }
