package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/call"
)

// env is a run's surroundings.
type env struct {
	t       *testing.T
	store   *deadletter.Memory
	letters *deadletter.Queue
	signals chan os.Signal
	cfg     batch.Config

	mu    sync.Mutex
	calls []string // ids in the order of their calls
}

func newEnv(t *testing.T) *env {
	t.Helper()
	e := &env{t: t, store: deadletter.NewMemory(), signals: make(chan os.Signal, 4)}
	var err error
	if e.letters, err = deadletter.New(deadletter.Config{Name: "night", Store: e.store, ResolveOnSuccess: true}); err != nil {
		t.Fatal(err)
	}
	e.cfg = batch.Config{Dir: filepath.Join(t.TempDir(), "run"), Letters: e.letters, Signals: e.signals, Workers: 4}
	return e
}

// items are n items whose input is their id.
func items(n int) iter.Seq[batch.Item] {
	return func(yield func(batch.Item) bool) {
		for i := range n {
			id := fmt.Sprintf("item-%03d", i)
			if !yield(batch.Item{ID: id, Input: []byte(id), Labels: map[string]string{"n": fmt.Sprint(i)}}) {
				return
			}
		}
	}
}

func list(its ...batch.Item) iter.Seq[batch.Item] {
	return func(yield func(batch.Item) bool) {
		for _, it := range its {
			if !yield(it) {
				return
			}
		}
	}
}

// handle notes the call and does fn, which may be nil.
func (e *env) handle(fn func(ctx context.Context, it batch.Item) ([]byte, error)) batch.Handle {
	return func(ctx context.Context, it batch.Item) ([]byte, error) {
		e.mu.Lock()
		e.calls = append(e.calls, it.ID)
		e.mu.Unlock()
		if fn != nil {
			return fn(ctx, it)
		}
		return []byte("summary of " + it.ID), nil
	}
}

// run runs and checks what must hold after every run.
func (e *env) run(its iter.Seq[batch.Item], fn func(context.Context, batch.Item) ([]byte, error)) (batch.Report, error) {
	e.t.Helper()
	return e.checked(batch.Run(e.t.Context(), e.cfg, its, e.handle(fn)))
}

// replay replays and checks the same.
func (e *env) replay(fn func(context.Context, batch.Item) ([]byte, error), o deadletter.Options) (batch.Report, error) {
	e.t.Helper()
	rep, err := batch.Replay(e.t.Context(), e.cfg, e.store, e.handle(fn), o)
	return e.agreed("replay.json", rep, err)
}

func (e *env) checked(rep batch.Report, err error) (batch.Report, error) {
	e.t.Helper()
	return e.agreed("report.json", rep, err)
}

// agreed checks a report, and that the file says the same.
func (e *env) agreed(file string, rep batch.Report, err error) (batch.Report, error) {
	e.t.Helper()
	if rep.Done+rep.Dead+rep.Pending+rep.Lost != rep.Total {
		e.t.Errorf("done %d + dead %d + pending %d + lost %d is not total %d", rep.Done, rep.Dead, rep.Pending, rep.Lost, rep.Total)
	}
	if (rep.Exit == 0) != (err == nil) || rep.Complete != (rep.Exit == 0) || err != nil && rep.Exit != batch.ExitUsage && !errors.Is(err, batch.ErrIncomplete) {
		e.t.Errorf("exit %d, complete %v, error %v", rep.Exit, rep.Complete, err)
	}
	if len(rep.DeadItems) != int(rep.Dead) || len(rep.PendingItems) != int(rep.Pending) || len(rep.LostItems) != int(rep.Lost) {
		e.t.Errorf("named are %d dead, %d pending, %d lost; counted %d, %d, %d",
			len(rep.DeadItems), len(rep.PendingItems), len(rep.LostItems), rep.Dead, rep.Pending, rep.Lost)
	}
	written := e.file(file)
	a, _ := json.Marshal(rep)
	b, _ := json.Marshal(written)
	if string(a) != string(b) {
		e.t.Errorf("returned and written report differ:\n%s\n%s", a, b)
	}
	return rep, err
}

// written is the report in the folder.
func (e *env) written() batch.Report {
	e.t.Helper()
	return e.file("report.json")
}

func (e *env) file(name string) (rep batch.Report) {
	e.t.Helper()
	b, err := os.ReadFile(filepath.Join(e.cfg.Dir, name))
	if err == nil {
		err = json.Unmarshal(b, &rep)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return rep
}

// counts are the numbers of a report that most tests look at.
type counts struct{ Exit, Total, Skipped, Done, Dead, Pending, Lost, Calls int }

func of(r batch.Report) counts {
	return counts{r.Exit, int(r.Total), int(r.Skipped), int(r.Done), int(r.Dead), int(r.Pending), int(r.Lost), int(r.Calls)}
}

// refusal is what a guard says.
type refusal struct {
	by    string
	until time.Time
	await func(context.Context) error // nil = none
}

func (r *refusal) Error() string              { return r.by + " refuses" }
func (r *refusal) RefusedBy() string          { return r.by }
func (r *refusal) NotSent() bool              { return true }
func (r *refusal) Retryable() bool            { return false }
func (r *refusal) RetryAt() (time.Time, bool) { return r.until, !r.until.IsZero() }
func (r *refusal) Await(ctx context.Context) error {
	if r.await != nil {
		return r.await(ctx)
	}
	d := time.Until(r.until)
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// statusError is an answer with an error status.
type statusError int

func (e statusError) Error() string   { return fmt.Sprintf("upstream answered %d", int(e)) }
func (e statusError) StatusCode() int { return int(e) }

// fuse is a breaker in small: it opens for a while after some failures in a row,
// and then lets one probe pass. It is to be used in a bubble.
type fuse struct {
	after    int
	cooldown time.Duration

	mu      sync.Mutex
	fails   int
	until   time.Time
	open    bool
	probing bool
	trips   int64
	probes  []string
}

func (f *fuse) do(ctx context.Context, id string, fn func() error) error {
	box := call.From(ctx)
	f.mu.Lock()
	probe := false
	if f.open {
		if f.probing || time.Now().Before(f.until) {
			err := &refusal{by: "breaker", until: f.until}
			box.Item.Refuse(err)
			f.mu.Unlock()
			return err
		}
		probe, f.probing = true, true
		f.probes = append(f.probes, id)
	}
	f.mu.Unlock()
	box.Item.Pass()
	box.Item.Sent()
	err := fn()
	f.mu.Lock()
	defer f.mu.Unlock()
	if probe {
		f.probing = false
	}
	switch {
	case err == nil:
		f.fails, f.open = 0, false
	case probe:
		f.until = time.Now().Add(f.cooldown)
	case !f.open:
		if f.fails++; f.fails >= f.after {
			f.open, f.until = true, time.Now().Add(f.cooldown)
			f.trips++
		}
	}
	return err
}

// attempts is a failure after so many calls.
type attempts int

func (a attempts) Error() string { return fmt.Sprintf("failed after %d attempts", int(a)) }
func (a attempts) Attempts() int { return int(a) }
