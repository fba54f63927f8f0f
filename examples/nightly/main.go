// Nightly asks a model for a summary of every file in an inbox folder, 32 at a
// time, and guards the night with all five packages of nightfuse: no more calls
// than the upstream's state warrants, no more tokens than the day has, and no
// failure that looks like a result.
//
//	go run ./examples/nightly           a night in half a minute, on a fake upstream
//	go run ./examples/nightly -naive    the same night with the loop everybody writes first
//
// guard.go is the wiring, for pasting into a program of your own, and night.go
// the run, which package batch does. The rest is the program: inbox, model, what
// is printed.
//
//	go run ./examples/nightly -record tape                                       records the night
//	go run ./examples/nightly -replay tape -n 100 -fault every=3,status=429      replays some of it, with a storm
//
// A replay books nothing: spend, breaker and dead letters are in memory, and gone
// with it. Waits are real, and the pacer takes every 429 for a sign to slow down,
// so this storm goes at a call or two a second; the tests replay all 4,000 items on
// a fake clock, in a second or two.
//
// Run again on the same -dir it does only what is missing. -base-url, -model,
// -limit and a key in the environment point it at any OpenAI-compatible server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/durable"
)

func main() {
	p := &program{
		args: os.Args[1:], getenv: os.Getenv, stdout: os.Stdout, stderr: os.Stderr, clk: wallClock{},
		notify: func() <-chan os.Signal {
			signals := make(chan os.Signal, 2)
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
			return signals
		},
	}
	os.Exit(p.run(context.Background()))
}

// program is one run with what it takes from the outside.
type program struct {
	args           []string
	getenv         func(string) string
	stdout, stderr io.Writer
	clk            clock

	// notify has signals sent to the program from here on. Before, and under
	// -naive, they just kill it: nothing is in flight that could be lost.
	notify func() <-chan os.Signal

	// results is where results go; nil = the work folder's.
	results batch.Results

	// state is what the run would leave for the next one; nil = the work
	// folder's, and in memory under -replay.
	state *state

	// check refuses a summary that says nothing; nil = checkSummary.
	check func(string) error

	// base is the transport under the guards; nil = the demo's fake on
	// loopback, or the network with -base-url.
	base http.RoundTripper
}

func (p *program) run(ctx context.Context) int {
	o, err := parseOptions(p.args, p.getenv, p.stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	var rep *report
	if err == nil {
		rep, err = p.night(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(p.stderr, "nightly:", err)
	}
	if rep == nil {
		return exitUsage
	}
	if err != nil {
		rep.fail()
	}
	rep.print(p.stdout)
	return rep.Exit
}

// night prepares the folder and runs one loop over what is to be done. Without
// a report nothing was sent.
func (p *program) night(ctx context.Context, o *options) (_ *report, err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "nightly-"); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, err
	}
	fmt.Fprintln(p.stdout, "work folder:", o.dir)
	if err := checkReport(o.reportPath()); err != nil {
		return nil, err
	}
	lock, err := durable.TryLock(nil, filepath.Join(o.dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("another run works in %s: %w", o.dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()

	rep, err := p.locked(ctx, o)
	if rep == nil {
		return nil, err
	}
	if err != nil {
		rep.fail()
	}
	return rep, errors.Join(err, rep.write(o.reportPath()))
}

// locked is the night in a folder that is its own. When it returns everything is
// closed, so the report can tell what could not be kept.
func (p *program) locked(ctx context.Context, o *options) (rep *report, err error) {
	inbox := filepath.Join(o.dir, "inbox")
	if _, err := os.Stat(inbox); errors.Is(err, os.ErrNotExist) && o.demo() {
		if err := writeInbox(inbox, o.n); err != nil {
			return nil, err
		}
	}
	items, err := readInbox(inbox)
	if err != nil {
		return nil, err
	}

	m := &model{baseURL: o.baseURL, name: o.model, key: o.key}
	if o.demo() {
		stop, err := p.startFake(o, m, items)
		if err != nil {
			return nil, err
		}
		defer stop()
	}

	stop, err := p.tape(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if o.naive {
		begin := p.clk.Now()
		m.client = &http.Client{Transport: p.base}
		if rep, err = naive(ctx, p.clk, m, filepath.Join(o.dir, "naive"), items, o.workers); rep != nil {
			rep.finish(begin, p.clk.Now())
		}
		return rep, err
	}
	return p.guarded(ctx, o, m, items)
}

// startFake points m at the demo's upstream. Where a test has put a transport
// in place, that is the upstream.
func (p *program) startFake(o *options, m *model, items []item) (stop func(), err error) {
	m.baseURL = "http://fake-model.test/v1"
	quota, err := fakeQuota(m, items)
	if err != nil {
		return nil, err
	}
	if o.limit == 0 {
		o.limit = quota
	}
	if p.base != nil || o.replay != "" {
		return func() {}, nil
	}
	fake, err := demoUpstream(o.upstream, o.seed, quota, p.clk)
	if err != nil {
		return nil, err
	}
	server, err := fake.Start()
	if err != nil {
		return nil, err
	}
	m.baseURL = server.URL
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = o.workers
	p.base = transport
	return func() { transport.CloseIdleConnections(); server.Close() }, nil
}

// fakeQuota is a daily quota that twice the whole inbox fits into.
func fakeQuota(m *model, items []item) (int64, error) {
	var need int64
	for _, it := range items {
		body, err := m.request(it)
		if err != nil {
			return 0, err
		}
		need += budget.EstimateBody(nil, body)
	}
	return 2 * need, nil
}
