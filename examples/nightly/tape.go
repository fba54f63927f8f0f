package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nightfuse/nightfuse/deadletter/fixture"
)

// tapeName is the recording's file in the folder of -record and -replay.
const tapeName = "night.jsonl"

// tape puts what -record, -replay and -fault ask for under the guards. stop ends
// it and tells what is wrong with the recording.
func (p *program) tape(o *options) (stop func() error, err error) {
	stop = func() error { return nil }
	switch {
	case o.record != "":
		if err := os.MkdirAll(o.record, 0o700); err != nil {
			return nil, fmt.Errorf("-record: %w", err)
		}
		// Prompts and answers are in it: for its owner only, and no older one
		// is written over.
		f, err := os.OpenFile(filepath.Join(o.record, tapeName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("-record: %w", err)
		}
		rec, err := fixture.NewRecorder(fixture.RecorderConfig{Base: p.base, W: f, Clock: p.clk})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("-record: %w", err), f.Close())
		}
		p.base = rec
		stop = func() error { return errors.Join(rec.Err(), f.Close()) }
	case o.replay != "":
		f, err := os.Open(filepath.Join(o.replay, tapeName))
		if err != nil {
			return nil, fmt.Errorf("-replay: %w", err)
		}
		defer f.Close()
		// Sticky: another order of the workers may have an item ask once more.
		play, err := fixture.NewReplayer(fixture.ReplayerConfig{From: f, Sticky: true, Clock: p.clk})
		if err != nil {
			return nil, fmt.Errorf("-replay: %w", err)
		}
		p.base = play
		if p.state == nil {
			// It costs nothing and proves nothing of the upstream as it is: the
			// real day's spend and breaker are not its to change.
			p.state = memoryState()
		}
	}
	if len(o.faults) > 0 {
		storm, err := fixture.NewFaults(fixture.FaultsConfig{Base: p.base, Faults: o.faults, Clock: p.clk})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("-fault: %w", err), stop())
		}
		p.base = storm
	}
	return stop, nil
}

// parseFault reads the value of -fault: every=3,status=429.
func parseFault(s string) ([]fixture.Fault, error) {
	every, status := 0, 0
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q in %q is no number", value, part)
		case name == "every":
			every = n
		case name == "status":
			status = n
		default:
			return nil, fmt.Errorf("%q is none of every, status", name)
		}
	}
	list := []fixture.Fault{{When: fixture.EveryNth(every), Do: fixture.Status(status, 0)}}
	_, err := fixture.NewFaults(fixture.FaultsConfig{Faults: list})
	return list, err
}
