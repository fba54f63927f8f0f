package batch_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter/batch"
)

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		signals []os.Signal
		hang    bool
		exit    int
		seconds float64
	}{
		{"the first drains", []os.Signal{os.Interrupt}, false, 130, 20},
		{"the second cancels", []os.Signal{os.Interrupt, os.Interrupt}, true, 130, 15},
		{"the grace ends", []os.Signal{syscall.SIGTERM}, true, 143, 42},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				for i, s := range c.signals {
					time.AfterFunc(12500*time.Millisecond+time.Duration(i)*2500*time.Millisecond, func() { e.signals <- s })
				}
				rep, err := e.run(items(100), func(ctx context.Context, it batch.Item) ([]byte, error) {
					if c.hang && it.ID > "item-000" {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					time.Sleep(10 * time.Second)
					return []byte("fine"), nil
				})
				done := 5
				if c.hang {
					done = 1
				}
				if rep.Exit != c.exit || rep.Done != int64(done) || rep.Dead != 0 || err == nil || rep.Calls != 5 {
					t.Errorf("%v, %v: want exit %d, %d done, none dead", rep, err, c.exit, done)
				}
				if !c.hang && (rep.Pending != 95 || rep.Uncounted) {
					t.Errorf("%d pending, uncounted %v: want the rest counted", rep.Pending, rep.Uncounted)
				}
				if rep.Seconds < c.seconds || rep.Seconds > c.seconds+1.1 {
					t.Errorf("ended after %v s, want %v", rep.Seconds, c.seconds)
				}
				e.signals = make(chan os.Signal)
				e.cfg.Signals = e.signals
				if rep, _ := e.run(items(100), nil); rep.Exit != 0 || rep.Skipped != int64(done) {
					t.Errorf("the next run: %v", rep)
				}
			})
		})
	}
}

// A channel that is closed brings no signal.
func TestSignalsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		close(e.signals)
		rep, err := e.run(items(9), func(context.Context, batch.Item) ([]byte, error) {
			time.Sleep(time.Second)
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(of(rep), counts{Total: 9, Done: 9, Calls: 9}); diff != "" {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
	})
}

func TestCallerCancels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		why := errors.New("machine goes down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		rep, err := e.checked(batch.Run(ctx, e.cfg, func(yield func(batch.Item) bool) {
			for it := range items(3) {
				if !yield(it) {
					return
				}
			}
			<-ctx.Done() // an iterator that waits for more
		}, e.handle(func(ctx context.Context, it batch.Item) ([]byte, error) {
			if it.ID == "item-002" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []byte("fine"), nil
		})))
		if rep.Exit != 130 || !errors.Is(err, why) || rep.Done != 2 || rep.Pending != 1 || rep.Dead != 0 {
			t.Errorf("%v, %v", rep, err)
		}
	})
	// An iterator that heeds the context as well has not given all there is.
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			ctx, cancel := context.WithCancel(t.Context())
			begin := time.Now()
			e.cfg.Gauges = func() batch.Gauges { // meanwhile both happen
				if time.Since(begin) > 50*time.Second {
					time.Sleep(time.Minute)
				}
				return batch.Gauges{}
			}
			rep, err := e.checked(batch.Run(ctx, e.cfg, func(yield func(batch.Item) bool) {
				yield(batch.Item{ID: "a"})
				time.Sleep(time.Minute)
				cancel()
			}, e.handle(nil)))
			if rep.Exit != 130 || !rep.Uncounted || rep.Done != 1 {
				t.Errorf("%v, uncounted %v, %v", rep, rep.Uncounted, err)
			}
		})
	}
}

// Run hears the signals of its process by itself: the first drains, the second
// cancels, and the third is not heard any more.
func TestRealSignals(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted by another")
	}
	for _, c := range []struct {
		name    string
		path    string
		signals int
	}{{"the first drains", "", 1}, {"the second cancels", "", 2}, {"the third ends the process", "/deaf", 3}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, all := killPlan()
			var n atomic.Int64
			inFlight, release := make(chan struct{}, 100), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inFlight <- struct{}{}
				if n.Add(1) > 1 { // the first goes alone
					select {
					case <-release:
					case <-r.Context().Done():
						return
					}
				}
				fmt.Fprint(w, "summary")
			}))
			t.Cleanup(server.Close)
			dir := filepath.Join(t.TempDir(), "run")
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), childEnv+"="+dir+"|"+server.URL+c.path)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for range 9 {
				select {
				case <-inFlight:
				case <-t.Context().Done():
					t.Fatal("it does not call")
				}
			}
			// A shell's background job is born deaf to SIGINT, and so again once
			// Run does not listen any more.
			sig := os.Interrupt
			if c.signals == 3 {
				sig = syscall.SIGTERM
			}
			interrupt := func() {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Error(err)
				}
			}
			interrupt()
			var said strings.Builder
			for out := bufio.NewScanner(stdout); out.Scan(); {
				said.WriteString(out.Text() + "\n")
				switch {
				case strings.Contains(out.Text(), "another signal cancels") && c.signals == 1:
					close(release)
				case strings.Contains(out.Text(), "another signal cancels"),
					strings.Contains(out.Text(), "another ends the process") && c.signals == 3:
					interrupt()
				}
			}
			_ = cmd.Wait()
			var rep batch.Report
			b, err := os.ReadFile(filepath.Join(dir, "report.json"))
			if err == nil {
				err = json.Unmarshal(b, &rep)
			}
			if err != nil {
				t.Fatal(err)
			}
			code := cmd.ProcessState.ExitCode()
			if c.signals == 3 {
				if code != -1 || rep.State != "running" || rep.Complete {
					t.Errorf("exit %d, state %q\n%s", code, rep.State, said.String())
				}
				return
			}
			if code != 130 || rep.State != "interrupted: interrupt" || rep.Complete {
				t.Errorf("exit %d, state %q\n%s", code, rep.State, said.String())
			}
			got, want := of(rep), counts{Exit: 130, Total: all, Done: 9, Pending: all - 9, Calls: 9}
			if c.signals == 2 { // what it had not seen yet is not counted
				want = counts{Exit: 130, Total: got.Total, Done: 1, Pending: got.Total - 1, Calls: 9}
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("report (-got +want):\n%s", diff)
			}
			if files, err := filepath.Glob(filepath.Join(dir, "results", "*")); err != nil || len(files) != int(rep.Done) {
				t.Errorf("%d results, %v; %d done", len(files), err, rep.Done)
			}
		})
	}
}
