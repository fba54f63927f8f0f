package breaker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
)

// What a process of these tests is told on its command line's place.
const (
	childDir   = "BREAKER_TEST_DIR"
	childLease = "BREAKER_TEST_LEASE"
	ready      = "ready"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// shared is the configuration that the processes of a test have in common, in
// real time.
func shared(dir string, lease time.Duration) (breaker.Config, error) {
	store, err := breaker.File(dir)
	return breaker.Config{
		Name: "up", Store: store, Threshold: 3, RepeatTrip: -1, Jitter: -1, StoreTimeout: time.Minute,
		Cooldown: 300 * time.Millisecond, MaxCooldown: 300 * time.Millisecond, ProbeLease: lease,
	}, err
}

// child is another process: it obeys one command a line and answers with a
// line.
func child(dir string, in io.Reader, out io.Writer) error {
	lease, err := time.ParseDuration(os.Getenv(childLease))
	if err != nil {
		return err
	}
	cfg, err := shared(dir, lease)
	if err != nil {
		return err
	}
	b, err := breaker.New(cfg)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, ready)
	ctx := context.Background()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		switch lines.Text() {
		case "fail":
			p, err := b.Allow(ctx)
			if err == nil {
				p.Failure(errUp)
			}
			fmt.Fprintln(out, err == nil)
		case "state":
			fmt.Fprintln(out, b.State())
		case "wait":
			fmt.Fprintln(out, b.Wait(ctx))
		case "probe":
			p, err := b.Allow(ctx)
			fmt.Fprintln(out, err == nil && p.Probe())
		case "ask":
			var passed atomic.Int32
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					if _, err := b.Allow(ctx); err == nil {
						passed.Add(1)
					}
				})
			}
			wg.Wait()
			fmt.Fprintln(out, passed.Load())
		case "storm":
			// Change the state as fast as it goes, until killed.
			for {
				p, err := b.Allow(ctx)
				if err != nil {
					if err := b.Reset(ctx, "storm"); err != nil {
						return err
					}
					continue
				}
				p.Failure(errUp)
			}
		default:
			return errors.New("unknown command " + lines.Text())
		}
	}
	return lines.Err()
}

// process is a child as its parent sees it.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newProcess(t *testing.T, dir string, lease time.Duration) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), self)}
	p.cmd.Env = append(os.Environ(), childDir+"="+dir, childLease+"="+lease.String())
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if got := p.answer(); got != ready {
		t.Fatalf("a child began with %q", got)
	}
	return p
}

func (p *process) send(command string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) answer() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("a child ended early: %v", err)
	}
	return strings.TrimSpace(line)
}

func (p *process) ask(command string) string {
	p.t.Helper()
	p.send(command)
	return p.answer()
}

// kill is kill -9, and does nothing the second time.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// Four processes with fifty callers each, after the cooldown: one probe.
func TestOneProbeOfFourProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var all []*process
	for range 4 {
		all = append(all, newProcess(t, dir, time.Hour))
	}
	// A trip of one is seen by the others at their next call.
	for range 3 {
		if got := all[0].ask("fail"); got != "true" {
			t.Fatalf("a closed breaker refused: %q", got)
		}
	}
	for i, p := range all {
		if got := p.ask("state"); got != "open" {
			t.Fatalf("process %d: state %q right after another's trip, want open", i, got)
		}
	}
	for _, p := range all {
		if got := p.ask("wait"); got != "<nil>" {
			t.Fatalf("Wait: %q", got)
		}
	}
	for _, p := range all {
		p.send("ask")
	}
	total := 0
	for _, p := range all {
		n := 0
		if _, err := fmt.Sscan(p.answer(), &n); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != 1 {
		t.Errorf("%d calls of 200 in 4 processes went out, want one probe", total)
	}
}

// Killed with the probe in hand: another process gets one after the lease.
func TestKilledProbe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const lease = 300 * time.Millisecond
	first, second := newProcess(t, dir, lease), newProcess(t, dir, lease)
	for range 3 {
		first.ask("fail")
	}
	first.ask("wait")
	if got := first.ask("probe"); got != "true" {
		t.Fatalf("probe: %q", got)
	}
	first.kill()
	if got := second.ask("state"); got != "half-open" {
		t.Fatalf("state after the kill: %q", got)
	}
	if got := second.ask("wait"); got != "<nil>" {
		t.Fatalf("Wait: %q", got)
	}
	if got := second.ask("probe"); got != "true" {
		t.Errorf("no probe after the lease: %q", got)
	}
}

// Killed at any moment of a write: the state is readable, nothing was damaged,
// and the lock is free.
func TestKilledWriters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	last := uint64(0)
	for i := range 8 {
		p := newProcess(t, dir, time.Hour)
		p.send("storm")
		// Kill at a moment that has nothing to do with the writes.
		watch := newProcess(t, dir, time.Hour)
		for range i {
			watch.ask("state")
		}
		p.kill()
		watch.kill()
		cfg, err := shared(dir, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		s := newBreaker(t, cfg).Stats()
		if s.Damaged != 0 || s.StoreErrors != 0 || s.TripsTotal < last {
			t.Fatalf("after kill %d: %d damaged, %d store errors, %d trips after %d", i, s.Damaged, s.StoreErrors, s.TripsTotal, last)
		}
		last = s.TripsTotal
	}
	if got := list(t, dir, ".json"); len(got) != 1 || last == 0 {
		t.Errorf("files: %q, %d trips; want one file and some trips", got, last)
	}
}
