package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/internal/show"
)

// everyState is for a letter that was named.
var everyState = []deadletter.State{
	deadletter.Dead, deadletter.Claimed, deadletter.Quarantined, deadletter.Acked, deadletter.Discarded,
}

// open opens the journal: for reading without touching it.
func (o *options) open(readOnly bool) (*deadletter.Journal, error) {
	return deadletter.StoreConfig{ReadOnly: readOnly}.Journal(o.dir)
}

// look opens the journal for reading, tells of damage, and runs fn with the
// filter that names the letters of the command line.
func look(ctx context.Context, o *options, errs io.Writer, fn func(*deadletter.Journal, deadletter.Filter) error) error {
	j, err := o.open(true)
	if err != nil {
		return err
	}
	defer j.Close()
	s, err := j.Stats(ctx, deadletter.Filter{})
	if err != nil {
		return err
	}
	if s.Corrupt > 0 {
		fmt.Fprintf(errs, "deadletter: the journal has %s; verify tells which\n", show.Count(s.Corrupt, "damaged line"))
	}
	f, err := o.chosen(ctx, j)
	if err != nil {
		return err
	}
	return fn(j, f)
}

// chosen is the filter of the command line, with what its ids stand for.
func (o *options) chosen(ctx context.Context, store deadletter.Reader) (deadletter.Filter, error) {
	f := o.filter
	if len(o.ids) == 0 {
		return f, nil
	}
	found := make([][]string, len(o.ids))
	for r, err := range store.List(ctx, deadletter.Filter{States: everyState}) {
		if err != nil && !errors.Is(err, deadletter.ErrCorrupt) {
			return f, err
		}
		for i, id := range o.ids {
			if err == nil && (r.ItemID == id || len(id) >= 4 && strings.HasPrefix(r.ID, id)) {
				found[i] = append(found[i], r.ID)
			}
		}
	}
	for i, id := range o.ids {
		switch len(found[i]) {
		case 0:
			return f, fmt.Errorf("%w: %q", deadletter.ErrNotFound, id)
		case 1:
			f.IDs = append(f.IDs, found[i]...)
		default:
			return f, fmt.Errorf("%q is %d letters: give more of a record id, one of %s", id, len(found[i]),
				strings.Join(found[i][:min(len(found[i]), 5)], " "))
		}
	}
	return f, nil
}

// leftOut tells of the letters that were named and are in none of the states:
// else they would be passed over in silence.
func leftOut(ctx context.Context, store deadletter.Reader, f deadletter.Filter, states []deadletter.State, errs io.Writer) error {
	for _, id := range f.IDs {
		r, err := store.Get(ctx, id)
		switch {
		case errors.Is(err, deadletter.ErrNotFound), errors.Is(err, deadletter.ErrCorrupt):
		case err != nil:
			return err
		case !slices.Contains(states, r.State):
			text := string(r.State)
			if r.State == deadletter.Quarantined {
				text += ", say -state quarantined"
			}
			fmt.Fprintf(errs, "deadletter: %s is left out: it is %s\n", show.Short(show.OrDash(r.ItemID), 60), text)
		}
	}
	return nil
}

// one returns the letter that was named.
func (o *options) one(ctx context.Context, errs io.Writer) (r deadletter.Record, err error) {
	err = look(ctx, o, errs, func(j *deadletter.Journal, f deadletter.Filter) error {
		r, err = j.Get(ctx, f.IDs[0])
		return err
	})
	return r, err
}

func ls(ctx context.Context, o *options, out, errs io.Writer) (int, error) {
	rows := [][]string{{"ID", "ITEM", "STATE", "FAILS", "STATUS", "SIGNATURE", "LAST FAILURE", "ERROR"}}
	bad := 0
	err := look(ctx, o, errs, func(j *deadletter.Journal, f deadletter.Filter) error {
		if len(f.IDs) > 0 && len(f.States) == 0 {
			f.States = everyState
		}
		f.Limit = o.limit
		for r, err := range j.List(ctx, f) {
			switch {
			case errors.Is(err, deadletter.ErrCorrupt):
				bad++
				fmt.Fprintln(errs, "deadletter:", show.Printable(err.Error()))
			case err != nil:
				return err
			case o.json:
				if err := printJSON(out, r); err != nil {
					return err
				}
			default:
				rows = append(rows, []string{
					shortID(r.ID), show.Short(show.OrDash(r.ItemID), 32), string(r.State), strconv.Itoa(r.Failures), show.Status(r.Status),
					show.Short(show.OrDash(r.Signature), 14), show.When(r.LastFailedAt), show.Short(r.Err, 60),
				})
			}
		}
		return nil
	})
	if err == nil && !o.json && len(rows) > 1 {
		err = table(out, rows)
	}
	return lostIf(bad), err
}

func lostIf(bad int) int {
	if bad > 0 {
		return exitLost
	}
	return exitOK
}

// export prints whole records, payloads included.
func export(ctx context.Context, o *options, out, errs io.Writer) (int, error) {
	bad := 0
	err := look(ctx, o, errs, func(j *deadletter.Journal, f deadletter.Filter) error {
		if len(f.IDs) > 0 && len(f.States) == 0 {
			f.States = everyState
		}
		f.Limit = o.limit
		for r, err := range j.List(ctx, f) {
			if err == nil {
				r, err = j.Get(ctx, r.ID)
			}
			switch {
			case errors.Is(err, deadletter.ErrNotFound): // purged meanwhile
			case errors.Is(err, deadletter.ErrCorrupt):
				bad++
				fmt.Fprintln(errs, "deadletter:", show.Printable(err.Error()))
			case err != nil:
				return err
			default:
				if err := printJSON(out, r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return lostIf(bad), err
}

func groups(ctx context.Context, o *options, out, errs io.Writer) (int, error) {
	return exitOK, look(ctx, o, errs, func(j *deadletter.Journal, f deadletter.Filter) error {
		s, err := j.Stats(ctx, f)
		if err != nil {
			return err
		}
		if o.json {
			return printJSON(out, s)
		}
		if err := groupTable(out, s.Groups); err != nil {
			return err
		}
		var states []string
		for _, st := range everyState {
			if n := s.States[st]; n > 0 {
				states = append(states, fmt.Sprint(n, " ", st))
			}
		}
		if len(states) == 0 {
			states = []string{"no letters"}
		}
		_, err = fmt.Fprintln(out, strings.Join(states, ", "))
		return err
	})
}

func groupTable(out io.Writer, list []deadletter.Group) error {
	if len(list) == 0 {
		return nil
	}
	rows := [][]string{{"SIGNATURE", "LETTERS", "TOKENS", "PAYLOAD", "FIRST FAILURE", "LAST FAILURE", "SAMPLE", "TEXT"}}
	for _, g := range list {
		rows = append(rows, []string{
			show.OrDash(show.Printable(g.Signature)), strconv.Itoa(g.Count), tokens(g.EstTokens), show.Size(g.Bytes), show.When(g.First), show.When(g.Last),
			shortID(g.Sample), show.Short(g.Text, 80),
		})
	}
	return table(out, rows)
}

// shortID is enough of a record id to be given back to the command.
func shortID(id string) string {
	if len(id) > 12 {
		id = id[:12]
	}
	return show.Printable(id)
}

// tokens is an estimate; letters without one count as nothing.
func tokens(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func showOne(ctx context.Context, o *options, out, errs io.Writer) (int, error) {
	r, err := o.one(ctx, errs)
	if err != nil {
		return exitOK, err
	}
	r.Payload = nil
	if o.json {
		return exitOK, printJSON(out, r)
	}
	rows := [][]string{
		{"id", r.ID},
		{"item", r.ItemID},
		{"queue", r.Queue},
		{"run", r.RunID},
		{"state", string(r.State)},
		{"reason", r.Reason},
		{"owner", r.Owner},
	}
	for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
		rows = append(rows, []string{"label " + k, r.Labels[k]})
	}
	if r.State == deadletter.Claimed {
		rows = append(rows, []string{"claimed", r.ClaimedBy + " until " + show.When(r.ClaimUntil)})
	}
	rows = append(rows,
		[]string{"failures", fmt.Sprintf("%d, the first %s, the last %s", r.Failures, show.When(r.FirstFailedAt), show.When(r.LastFailedAt))},
		[]string{"calls", fmt.Sprintf("%d in the last failure, %d in all", r.Attempts, r.TotalCalls)},
		[]string{"replays", strconv.Itoa(r.Replays)},
		[]string{"status", show.Status(r.Status)},
		[]string{"signature", r.Signature},
		[]string{"template", r.SignatureText},
		[]string{"error type", r.ErrType},
		[]string{"error", r.Err},
		[]string{"upstream id", r.UpstreamRequestID},
	)
	if !r.RetryAfter.IsZero() {
		rows = append(rows, []string{"not before", show.When(r.RetryAfter)})
	}
	rows = append(rows, []string{"request", strings.TrimSpace(r.Method + " " + r.URL)})
	for _, k := range slices.Sorted(maps.Keys(r.Header)) {
		rows = append(rows, []string{"header " + k, strings.Join(r.Header[k], ", ")})
	}
	rows = append(rows,
		[]string{"tokens", tokens(r.EstTokens)},
		[]string{"payload", strings.TrimSpace(show.Size(r.PayloadSize) + " " + r.PayloadHash)},
	)
	for i, f := range r.History {
		rows = append(rows, []string{
			fmt.Sprintf("failure %d", i+1),
			fmt.Sprintf("%s  status %s  %s  %s", show.When(f.At), show.Status(f.Status), show.Count(f.Attempts, "call"), f.Signature),
		})
	}
	rows = slices.DeleteFunc(rows, func(r []string) bool { return r[1] == "" })
	for _, row := range rows {
		row[0], row[1] = show.Short(row[0], 40), show.Printable(row[1])
	}
	return exitOK, table(out, rows)
}

// payload prints the payload as it was sent, to a pipe byte for byte.
func payload(ctx context.Context, o *options, out, errs io.Writer) (int, error) {
	r, err := o.one(ctx, errs)
	if err != nil {
		return exitOK, err
	}
	switch {
	case o.json:
		return exitOK, printJSON(out, map[string]any{
			"id": r.ID, "item_id": r.ItemID, "payload": r.Payload, "payload_size": r.PayloadSize, "payload_hash": r.PayloadHash,
		})
	case isTerminal(out):
		_, err = fmt.Fprintln(out, show.Lines(string(r.Payload)))
	default:
		_, err = out.Write(r.Payload)
	}
	return exitOK, err
}

func verify(ctx context.Context, o *options, out, _ io.Writer) (int, error) {
	j, err := o.open(true)
	if err != nil {
		return exitOK, err
	}
	defer j.Close()
	damage, err := j.Verify(ctx)
	if err != nil {
		return exitOK, err
	}
	s, err := j.Stats(ctx, deadletter.Filter{States: everyState})
	if err != nil {
		return exitOK, err
	}
	code := lostIf(len(damage))
	if o.json {
		if damage == nil {
			damage = []deadletter.Damage{}
		}
		return code, printJSON(out, map[string]any{"letters": s.Letters(), "bytes": s.Disk, "damage": damage})
	}
	for _, d := range damage {
		fmt.Fprintln(out, show.Printable(d.String()))
	}
	_, err = fmt.Fprintf(out, "%s in %s, %s\n", show.Count(s.Letters(), "letter"), show.Size(s.Disk), damaged(len(damage)))
	return code, err
}

func damaged(n int) string {
	if n == 0 {
		return "no damage"
	}
	return show.Count(n, "place") + " damaged or set aside"
}
