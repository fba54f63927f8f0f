package main

// This file is the wiring. It uses the public API only: paste it into your own
// program and change the numbers.

import (
	"errors"
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

	journal *deadletter.Journal
	ledger  *budget.File
}

// guardConfig is what differs between nights.
type guardConfig struct {
	dir      string            // for what outlives the process
	base     http.RoundTripper // nil = http.DefaultTransport
	owner    string            // who pays
	limit    int64             // tokens a day
	headroom float64           // share kept back; 0 = none
	rpm      int               // calls a minute the key allows; 0 = measure it
	cooldown time.Duration     // how long the breaker stays open at first; 0 = 30s
	backoff  time.Duration     // the longest first wait before a retry; 0 = 1.5s
	clock    budget.Clock      // nil = real time
}

// newGuards opens the state in c.dir and puts the chain together.
func newGuards(c guardConfig) (_ *guards, err error) {
	g := &guards{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	headroom := c.headroom
	if headroom == 0 {
		headroom = -1 // 0 would mean the default
	}

	// What must survive a crash: the breaker's state, the day's spend, the
	// items that failed.
	states, err := breaker.File(filepath.Join(c.dir, "breaker"))
	if err != nil {
		return nil, err
	}
	if g.ledger, err = budget.OpenFile(filepath.Join(c.dir, "budget")); err != nil {
		return nil, err
	}
	if g.journal, err = deadletter.OpenJournal(filepath.Join(c.dir, "letters")); err != nil {
		return nil, err
	}

	if g.day, err = budget.New(budget.Config{
		Name: "day", Limit: c.limit, Headroom: headroom, Window: budget.Daily(time.UTC),
		Owners: []budget.Owner{{Name: c.owner}},
		Store:  g.ledger, Clock: c.clock,
	}); err != nil {
		return nil, err
	}
	if g.up, err = breaker.New(breaker.Config{
		Name: "upstream", Cooldown: c.cooldown, Store: states, Clock: c.clock,
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
		Name: "nightly", Store: g.journal, Clock: c.clock,
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
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return deadletter.Pass
	}
	return deadletter.Auto
}

func (g *guards) close() error {
	var errs []error
	if g.journal != nil {
		errs = append(errs, g.journal.Close())
	}
	if g.ledger != nil {
		errs = append(errs, g.ledger.Close())
	}
	return errors.Join(errs...)
}
