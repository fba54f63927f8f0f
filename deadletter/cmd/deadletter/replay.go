package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/internal/show"
	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// outcome is what a replay prints as JSON.
type outcome struct {
	deadletter.Report
	DryRun bool     `json:"dry_run,omitempty"`
	Hosts  []string `json:"hosts,omitempty"`
	Exit   int      `json:"exit"`
	Error  string   `json:"error,omitempty"`
}

func replay(ctx context.Context, o *options, out, errs io.Writer) (int, error) {
	// A preview takes no lock and changes nothing.
	j, err := o.open(!o.yes || o.dryRun)
	if err != nil {
		return exitOK, err
	}
	defer j.Close()
	f, err := o.chosen(ctx, j)
	if err != nil {
		return exitOK, err
	}
	if err := checkStates(f.States, "replayed"); err != nil {
		return exitOK, err
	}
	states := f.States
	if len(states) == 0 {
		states = []deadletter.State{deadletter.Dead}
	}
	if err := leftOut(ctx, j, f, states, errs); err != nil {
		return exitOK, err
	}
	opt := deadletter.Options{
		Filter: f, Concurrency: o.concurrency, Rate: o.rate, Max: o.max, MaxReplays: o.maxReplays, Early: o.early, DryRun: true,
	}
	rep, err := deadletter.Replay(ctx, j, nil, opt)
	if err != nil {
		return exitOK, err
	}
	who, err := parties(ctx, j, f)
	if err != nil {
		return exitOK, err
	}
	if !o.yes || o.dryRun {
		return o.preview(out, errs, rep, who)
	}
	if !o.json {
		if err := o.tell(out, rep, who); err != nil {
			return exitOK, err
		}
	}
	g, err := o.guards.open(who, o)
	if err != nil {
		return exitOK, err
	}
	defer g.close()
	sender := deadletter.HTTPSender{Client: g.client, Authorize: g.authorize}
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o700); err != nil {
			return exitOK, err
		}
		sender.Accept = o.keep
	}
	unkept := 0
	opt.DryRun = false
	opt.OnResult = func(r deadletter.Result) {
		if r.Kept != nil && !errors.Is(r.Kept, deadletter.ErrClaimLost) {
			unkept++
		}
		if r.Err != nil && !o.json {
			fmt.Fprintf(errs, "%s: %s: %s\n", r.Verb, show.Short(show.OrDash(r.Record.ItemID), 60), show.Printable(redact.Err(r.Err, 300)))
		}
	}
	rep, err = deadletter.Replay(ctx, j, func(ctx context.Context, r deadletter.Record) error {
		if o.guards.charge != "" {
			ctx = budget.WithOwner(ctx, o.guards.charge)
		}
		return sender.Send(ctx, r)
	}, opt)
	code := exitOK
	switch {
	case unkept > 0:
		code = exitLost
	case err != nil:
		code = codeOf(err)
	case rep.Returned+rep.Quarantined+rep.Lost > 0:
		code = exitRemain
	}
	if o.json {
		text := ""
		if err != nil {
			text = redact.Err(err, 4<<10)
		}
		return code, printJSON(out, outcome{Report: rep, Hosts: who.hosts, Exit: code, Error: text})
	}
	fmt.Fprintf(out, "tried %d of %s: %d acked, %d returned, %d quarantined, %d released, %d lost claims; %d not tried\n",
		rep.Sent, show.Count(rep.Matched, "letter"), rep.Acked, rep.Returned, rep.Quarantined, rep.Released, rep.Lost, rep.Remaining)
	if err != nil {
		complain(errs, err)
	}
	return code, nil
}

// preview tells what a replay would do.
func (o *options) preview(out, errs io.Writer, rep deadletter.Report, who party) (int, error) {
	code := exitUsage // nothing was done, and a script should see that
	if o.dryRun {
		code = exitOK
	}
	if o.json {
		return code, printJSON(out, outcome{Report: rep, DryRun: true, Hosts: who.hosts, Exit: code})
	}
	if err := o.tell(out, rep, who); err != nil {
		return code, err
	}
	if !o.dryRun {
		fmt.Fprintln(errs, "deadletter: nothing was sent: say -yes to send them")
	}
	return code, nil
}

func (o *options) tell(out io.Writer, rep deadletter.Report, who party) error {
	if err := groupTable(out, rep.Groups); err != nil {
		return err
	}
	n := rep.Matched
	if o.max > 0 {
		n = min(n, o.max)
	}
	fmt.Fprintf(out, "to send: %d of %s", n, show.Count(rep.Matched, "letter"))
	if rep.EstTokens > 0 {
		fmt.Fprintf(out, ", about %d tokens for all", rep.EstTokens)
	}
	if len(who.hosts) > 0 {
		fmt.Fprintf(out, ", to %s", show.Printable(strings.Join(who.hosts, " ")))
	}
	fmt.Fprintln(out)
	if rep.Skipped > 0 {
		fmt.Fprintf(out, "waiting for their retry-after: %d; -early sends them as well\n", rep.Skipped)
	}
	if who.without > 0 {
		fmt.Fprintf(out, "without an HTTP request: %d; batch.Replay sends those of a batch, deadletter.Replay in a program of yours the others\n", who.without)
	}
	if o.out == "" && n > 0 {
		fmt.Fprintln(out, "the answers will be thrown away: no -out")
	}
	return nil
}

// party is who takes part in a replay.
type party struct {
	hosts, owners []string
	without       int // letters that hold no request
}

func parties(ctx context.Context, j *deadletter.Journal, f deadletter.Filter) (party, error) {
	if len(f.States) == 0 {
		f.States = []deadletter.State{deadletter.Dead}
	}
	var p party
	hosts, owners := map[string]bool{}, map[string]bool{}
	for r, err := range j.List(ctx, f) {
		if errors.Is(err, deadletter.ErrCorrupt) {
			continue // the replay quarantines it
		}
		if err != nil {
			return p, err
		}
		owners[r.Owner] = true
		if u, err := url.Parse(r.URL); err == nil && u.Host != "" {
			hosts[strings.ToLower(u.Host)] = true
		} else {
			p.without++
		}
	}
	p.hosts, p.owners = slices.Sorted(maps.Keys(hosts)), slices.Sorted(maps.Keys(owners))
	return p, nil
}

// keep writes an answer where the batch's results go, before the ack.
func (o *options) keep(_ context.Context, r deadletter.Record, _ *http.Response, body []byte) error {
	return durable.WriteFile(nil, filepath.Join(o.out, fileName(r)), body, 0o600)
}

// fileName is the item's name as far as it can be a file's name anywhere, and
// what tells it from others.
func fileName(r deadletter.Record) string {
	var b strings.Builder
	for _, c := range r.ItemID {
		switch {
		case b.Len() >= 80:
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && b.Len() > 0:
			b.WriteRune(c)
		default:
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 {
		b.WriteString("item")
	}
	id := ""
	for _, c := range r.ID {
		if len(id) < 8 && ('a' <= c && c <= 'z' || '0' <= c && c <= '9') {
			id += string(c)
		}
	}
	return b.String() + "-" + id + ".json"
}
