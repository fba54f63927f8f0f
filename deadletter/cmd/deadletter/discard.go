package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/internal/show"
)

// discarded is what a discard prints as JSON.
type discarded struct {
	Matched   int                `json:"matched"`
	Discarded int                `json:"discarded"`
	Kept      int                `json:"kept"` // claimed meanwhile, or beyond -max
	Groups    []deadletter.Group `json:"groups"`
	DryRun    bool               `json:"dry_run,omitempty"`
	Exit      int                `json:"exit"`
}

func discard(ctx context.Context, o *options, out, errs io.Writer) (int, error) {
	j, err := o.open(!o.yes)
	if err != nil {
		return exitOK, err
	}
	defer j.Close()
	f, err := o.chosen(ctx, j)
	if err != nil {
		return exitOK, err
	}
	if len(f.States) == 0 {
		f.States = []deadletter.State{deadletter.Dead, deadletter.Quarantined}
	}
	if err := checkStates(f.States, "discarded"); err != nil {
		return exitOK, err
	}
	if err := leftOut(ctx, j, f, f.States, errs); err != nil {
		return exitOK, err
	}
	sum, err := j.Stats(ctx, f)
	if err != nil {
		return exitOK, err
	}
	d := discarded{Matched: sum.Letters(), Groups: sum.Groups, DryRun: !o.yes, Exit: exitOK}
	if d.Matched == 0 {
		return exitOK, deadletter.ErrNoMatch
	}
	if !o.json {
		if err := groupTable(out, d.Groups); err != nil {
			return exitOK, err
		}
		fmt.Fprintf(out, "to discard: %s\n", show.Count(d.Matched, "letter"))
	}
	if o.yes {
		d.Discarded, err = o.discardAll(ctx, j, f, d.Matched)
	} else {
		d.Exit = exitUsage
		if !o.json {
			fmt.Fprintln(errs, "deadletter: nothing was discarded: say -yes to discard them")
		}
	}
	d.Kept = d.Matched - d.Discarded
	if o.yes && d.Kept > 0 {
		d.Exit = exitRemain
	}
	if o.json {
		return d.Exit, errors.Join(err, printJSON(out, d))
	}
	if o.yes {
		fmt.Fprintf(out, "discarded %d of %s\n", d.Discarded, show.Count(d.Matched, "letter"))
	}
	return d.Exit, err
}

// checkStates refuses states that end a letter, or in which somebody else has it.
func checkStates(states []deadletter.State, what string) error {
	for _, s := range states {
		if s != deadletter.Dead && s != deadletter.Quarantined {
			return fmt.Errorf("letters in state %s cannot be %s; those that are dead or quarantined can", s, what)
		}
	}
	return nil
}

// discardAll discards at most n letters that matched, those that come in
// meanwhile not among them.
func (o *options) discardAll(ctx context.Context, j *deadletter.Journal, f deadletter.Filter, n int) (int, error) {
	if o.max > 0 {
		n = min(n, o.max)
	}
	var ids []string
	for r, err := range j.List(ctx, f) {
		if err == nil {
			ids = append(ids, r.ID)
		} else if !errors.Is(err, deadletter.ErrCorrupt) {
			return 0, err
		}
	}
	done := 0
	for chunk := range slices.Chunk(ids[:min(len(ids), n)], 100) {
		f.IDs = chunk
		claims, err := j.Claim(ctx, deadletter.ClaimReq{N: len(chunk), By: fmt.Sprintf("discard:%d", os.Getpid()), Filter: f})
		if err != nil {
			return done, err
		}
		for _, c := range claims {
			if err := j.Resolve(context.WithoutCancel(ctx), c.Token, deadletter.Outcome{Verb: deadletter.Discard, Reason: o.reason}); err != nil {
				return done, err
			}
			done++
		}
	}
	return done, nil
}
