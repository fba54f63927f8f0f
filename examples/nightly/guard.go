package main

// This file is the wiring. It uses the public API only: paste it into your own
// program and change the numbers.

import (
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/retry"
)

// guards are what stands between the workers and the upstream.
type guards struct {
	client  *http.Client
	up      *breaker.Breaker
	day     *budget.Budget
	again   *retry.Retrier
	letters *deadletter.Queue
}

// state is what must survive a crash: the breaker's state, the day's spend, the
// items that failed.
type state struct {
	up      breaker.Store
	day     budget.Store
	letters deadletter.Store

	files []io.Closer
}

// openState opens the files of the state in dir.
func openState(dir string) (_ *state, err error) {
	s := &state{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.up, err = breaker.File(filepath.Join(dir, "breaker")); err != nil {
		return nil, err
	}
	day, err := budget.OpenFile(filepath.Join(dir, "budget"))
	if err != nil {
		return nil, err
	}
	s.day, s.files = day, append(s.files, day)
	letters, err := deadletter.OpenJournal(filepath.Join(dir, "letters"))
	if err != nil {
		return nil, err
	}
	s.letters, s.files = letters, append(s.files, letters)
	return s, nil
}

// memoryState is the state of a run that costs nothing, such as a replay. It
// leaves the real day alone, and waits for no disk.
func memoryState() *state {
	return &state{up: breaker.Memory(), day: budget.NewMemory(), letters: deadletter.NewMemory()}
}

func (s *state) close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// guardConfig is what differs between nights.
type guardConfig struct {
	state    *state            // see openState
	base     http.RoundTripper // nil = http.DefaultTransport
	owner    string            // who pays
	limit    int64             // tokens a day
	headroom float64           // share kept back; 0 = none
	rpm      int               // calls a minute the key allows; 0 = measure it
	cooldown time.Duration     // how long the breaker stays open at first; 0 = 30s
	backoff  time.Duration     // the longest first wait before a retry; 0 = 1.5s
	clock    budget.Clock      // nil = real time
}

// newGuards puts the chain together.
func newGuards(c guardConfig) (*guards, error) {
	g := &guards{}
	headroom := c.headroom
	if headroom == 0 {
		headroom = -1 // 0 would mean the default
	}

	var err error
	if g.day, err = budget.New(budget.Config{
		Name: "day", Limit: c.limit, Headroom: headroom, Window: budget.Daily(time.UTC),
		Owners: []budget.Owner{{Name: c.owner}},
		Store:  c.state.day, Clock: c.clock,
	}); err != nil {
		return nil, err
	}
	if g.up, err = breaker.New(breaker.Config{
		Name: "upstream", Cooldown: c.cooldown, Store: c.state.up, Clock: c.clock,
	}); err != nil {
		return nil, err
	}
	pace, err := budget.NewPacer(budget.PacerConfig{
		Name: "key", Requests: int64(c.rpm), Adapt: c.rpm == 0, Headroom: headroom, Clock: c.clock,
	})
	if err != nil {
		return nil, err
	}
	if g.again, err = retry.New(retry.Config{
		Base: c.backoff, Clock: c.clock,
	}); err != nil {
		return nil, err
	}
	if g.letters, err = deadletter.New(deadletter.Config{
		Name: "nightly", Store: c.state.letters, Clock: c.clock,
		ResolveOnSuccess: true, // an item whose input was mended is done again
		Classify:         notTheItemsFault,
	}); err != nil {
		return nil, err
	}

	// Innermost first. A wrong order is an error of every call.
	rt := c.base
	rt = budget.NewTransport(rt, g.day)         // no token is spent that was not reserved
	rt = breaker.NewTransport(rt, g.up)         // no call goes to an upstream that is down
	rt = budget.NewPacedTransport(rt, pace)     // all workers together keep to the key's rate
	rt = retry.NewTransport(rt, g.again)        // bounded, jittered, as the server asks
	rt = deadletter.NewTransport(rt, g.letters) // what failed for good is kept
	g.client = &http.Client{Transport: rt}
	return g, nil
}

// notTheItemsFault keeps items out of the dead letters that met a refused key
// or an empty account: they are pending, and the breaker opens at once.
func notTheItemsFault(resp *http.Response, err error) deadletter.Decision {
	status := 0
	var s interface{ StatusCode() int }
	if errors.As(err, &s) {
		status = s.StatusCode()
	} else if resp != nil {
		status = resp.StatusCode
	}
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired:
		return deadletter.Pass
	}
	return deadletter.Auto
}
