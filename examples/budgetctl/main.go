// Command budgetctl shows and corrects what is spent of a budget in a file,
// also while the programs that spend it run:
//
//	budgetctl -file state/spend -limit 5000000 -owner nightly -owner human+ status
//	budgetctl -file state/spend -limit 5000000 -owner nightly -owner human+ adjust nightly -40000
//
// The flags repeat what the program says in its budget.Config, since the file
// holds counters only. An owner is a name, =N behind it is a ceiling, + behind
// it is the headroom. adjust adds to what is spent in the current window; with
// a negative amount it gives back what a killed program has left reserved.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without its surroundings: 0 is success, 1 a mistake in the
// command line, 2 a failure.
func run(args []string, stdout, stderr io.Writer) int {
	var c command
	fs := flag.NewFlagSet("budgetctl", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&c.file, "file", "", "the budget's `path`, as given to OpenFile")
	fs.StringVar(&c.config.Name, "name", "", "the budget's name, as in its Config; another one is another count")
	fs.Int64Var(&c.config.Limit, "limit", 0, "the hard cap in `units`")
	fs.Float64Var(&c.config.Headroom, "headroom", 0, "the `share` kept back; 0 = 0.15, negative = none")
	fs.StringVar(&c.window, "window", "daily", "`daily`, hourly or monthly")
	fs.StringVar(&c.zone, "zone", "UTC", "the window's time `zone`, such as America/Los_Angeles")
	fs.BoolVar(&c.json, "json", false, "print JSON")
	fs.Func("owner", "an owner: `name`, name=ceiling, name+ for the headroom; repeat for each", c.addOwner)
	fs.Usage = func() {
		_, _ = fmt.Fprintln(stderr, "usage: budgetctl -file path -limit units [flags] status | adjust owner units")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 1
	}
	err := c.do(context.Background(), fs.Args(), stdout)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintln(stderr, "budgetctl:", err)
	var usage usageError
	if errors.As(err, &usage) {
		return 1
	}
	return 2
}

// usageError is a mistake in the command line.
type usageError string

func (e usageError) Error() string { return string(e) }

type command struct {
	file, window, zone string
	json               bool
	config             budget.Config
}

func (c *command) addOwner(text string) error {
	var o budget.Owner
	text, o.UseHeadroom = strings.CutSuffix(text, "+")
	name, ceiling, limited := strings.Cut(text, "=")
	o.Name = name
	if limited {
		n, err := strconv.ParseInt(ceiling, 10, 64)
		if err != nil {
			return fmt.Errorf("the ceiling %q is not a number", ceiling)
		}
		o.Limit = n
	}
	c.config.Owners = append(c.config.Owners, o)
	return nil
}

func (c *command) do(ctx context.Context, args []string, stdout io.Writer) (err error) {
	if c.file == "" || len(args) == 0 {
		return usageError("-file and a command are needed; -h tells more")
	}
	loc, err := time.LoadLocation(c.zone)
	if err != nil {
		return usageError(fmt.Sprintf("-zone %s: %v", c.zone, err))
	}
	windows := map[string]func(*time.Location) budget.Window{"daily": budget.Daily, "hourly": budget.Hourly, "monthly": budget.Monthly}
	if windows[c.window] == nil {
		return usageError(fmt.Sprintf("-window %s: must be daily, hourly or monthly", c.window))
	}
	c.config.Window = windows[c.window](loc)
	// A path with a typing mistake must not become a new budget.
	if _, err := os.Stat(c.file + ".0"); err != nil {
		return fmt.Errorf("no budget at %s: %w", c.file, err)
	}
	store, err := budget.OpenFile(c.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c.config.Store = store
	b, err := budget.New(c.config)
	if err != nil {
		return usageError(err.Error())
	}
	switch {
	case args[0] == "status" && len(args) == 1:
	case args[0] == "adjust" && len(args) == 3:
		delta, err := strconv.ParseInt(args[2], 10, 64)
		if err != nil {
			return usageError(fmt.Sprintf("adjust: %q is not a number", args[2]))
		}
		if err := b.Adjust(ctx, args[1], delta); err != nil {
			return err
		}
	default:
		return usageError("the command is status, or adjust with an owner and an amount")
	}
	st, err := b.Status(ctx)
	if err != nil {
		return err
	}
	return c.print(stdout, st)
}

func (c *command) print(w io.Writer, st budget.Status) error {
	if c.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(st)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(t, "%s %s\tspent\tof\t\n", st.Budget, st.Window)
	_, _ = fmt.Fprintf(t, "all\t%d\t%d\t\n", st.Spent, st.SoftCap)
	for _, o := range st.Owners {
		if o.Name == "" {
			continue
		}
		limit := o.Limit
		switch {
		case limit == 0 && o.UseHeadroom:
			limit = st.Limit
		case limit == 0:
			limit = st.SoftCap
		}
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t\n", o.Name, o.Spent, limit)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(w, "until %s, %d with the headroom\n", st.End.Format(time.RFC3339), st.Limit)
	if st.Spent == 0 {
		_, _ = fmt.Fprintln(w, "nothing is spent: are -name, -window and -zone as in the program's Config?")
	}
	return nil
}
