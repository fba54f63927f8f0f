package batch_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

func TestHeartbeatAndProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		var out strings.Builder
		e.cfg.Heartbeat = filepath.Join(t.TempDir(), "beat.json")
		e.cfg.Progress, e.cfg.Total, e.cfg.Workers = &out, 10, 1
		e.cfg.Gauges = func() batch.Gauges { return batch.Gauges{State: "closed", Estimated: 5, Actual: 4} }
		type beat struct {
			At    time.Time
			State string
			Done  int
			PID   int
		}
		read := func() (b beat) {
			raw, err := os.ReadFile(e.cfg.Heartbeat)
			if err == nil {
				err = json.Unmarshal(raw, &b)
			}
			if err != nil {
				t.Error(err)
			}
			return b
		}
		var oldest time.Duration
		rep, _ := e.run(items(10), func(context.Context, batch.Item) ([]byte, error) {
			time.Sleep(20 * time.Second)
			b := read()
			oldest = max(oldest, time.Since(b.At))
			if oldest > 16*time.Second || b.State != "running" || b.PID != os.Getpid() {
				t.Errorf("heartbeat %+v at %v", b, time.Now())
			}
			return []byte("fine"), nil
		})
		if b := read(); b.State != "finished" || b.Done != 10 {
			t.Errorf("last heartbeat %+v", b)
		}
		if oldest < 5*time.Second {
			t.Errorf("no heartbeat was older than %v: they are to be 15 s apart", oldest)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 7 {
			t.Errorf("%d lines in 200 s, want one each 30 s and the last:\n%s", len(lines), out.String())
		}
		if want := "4 of 10 items, 0.0444/s, 2m15s left, 4 calls (1.00 per item done), 1 in flight, closed"; lines[2] != want {
			t.Errorf("third line %q, want %q", lines[2], want)
		}
		if want := "state=finished calls=10 done=10 dead=0 pending=0 lost=0 calls_per_done=1.00 exit=0"; rep.String() != want {
			t.Errorf("last line %q, want %q", rep, want)
		}
		if rep.TokensActual != 0 || rep.TokensEstimated != 0 {
			t.Errorf("tokens %d of %d: want what they grew by", rep.TokensActual, rep.TokensEstimated)
		}
	})
}

// A terminal after ctrl-S, a writer that panics: the run goes on.
func TestProgressThatBlocks(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(free <-chan struct{}){
		"blocks": func(free <-chan struct{}) { <-free }, "panics": func(<-chan struct{}) { panic("no terminal") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				free := make(chan struct{})
				defer close(free)
				e.cfg.Progress = writerFunc(func(b []byte) (int, error) { write(free); return len(b), nil })
				slow := func(context.Context, batch.Item) ([]byte, error) {
					time.Sleep(10 * time.Second)
					return []byte("fine"), nil
				}
				rep, err := e.run(items(40), slow)
				if rep.Exit != 0 || rep.Seconds > 112 {
					t.Errorf("%v after %v s, %v", rep, rep.Seconds, err)
				}
				e.cfg.Version = "2"
				e.run(items(40), fails)
				time.Sleep(time.Hour)
				if rep, err = e.replay(slow, deadletter.Options{}); rep.Exit != 0 || rep.Done != 40 || rep.Seconds > 112 {
					t.Errorf("replay: %v after %v s, %v", rep, rep.Seconds, err)
				}
			})
		})
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }
