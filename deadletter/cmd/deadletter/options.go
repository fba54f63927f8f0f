package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// options are a parsed command line.
type options struct {
	dir    string
	ids    []string
	json   bool
	filter deadletter.Filter

	limit  int // ls, export
	reason string
	yes    bool
	dryRun bool
	max    int

	rate                  float64
	concurrency, attempts int
	maxReplays            int
	timeout               time.Duration
	early                 bool
	out                   string
	guards                guardOptions
}

// guardOptions say through what a replay goes.
type guardOptions struct {
	breaker, breakerName      string
	budget, budgetName        string
	window, zone, charge      string
	limit                     int64
	headroom                  float64
	authEnv, authHeader, host string
	credential                string
	hasLimit, hasHeadroom     bool
}

var errHelp = flag.ErrHelp

// parse reads the arguments behind the verb.
func parse(verb, takes string, args []string, errs io.Writer) (*options, error) {
	o := &options{}
	now := time.Now()
	fs := flag.NewFlagSet("deadletter "+verb, flag.ContinueOnError)
	fs.SetOutput(errs)
	fs.Usage = func() {
		fmt.Fprintf(errs, "usage: deadletter %s %s [flags]\n", verb, takes)
		fs.PrintDefaults()
	}
	fs.BoolVar(&o.json, "json", false, "print JSON")
	if strings.Contains(takes, "...") || verb == "groups" {
		o.filterFlags(fs, now)
	}
	switch verb {
	case "ls", "export":
		fs.IntVar(&o.limit, "limit", 0, "at most `n` letters; 0 = all")
	case "discard":
		fs.StringVar(&o.reason, "reason", "", "why, kept with the letters; required")
		fs.IntVar(&o.max, "max", 0, "at most `n` letters; 0 = all")
		fs.BoolVar(&o.yes, "yes", false, "do it, instead of telling what would be done")
	case "replay":
		o.replayFlags(fs)
	}
	var rest []string
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		ended := len(args) > fs.NArg() && args[len(args)-fs.NArg()-1] == "--"
		if args = fs.Args(); len(args) == 0 {
			break
		}
		if ended {
			rest = append(rest, args...)
			break
		}
		rest, args = append(rest, args[0]), args[1:]
	}
	if len(rest) == 0 {
		return nil, fmt.Errorf("%s needs the directory of a journal", verb)
	}
	o.dir, o.ids = rest[0], rest[1:]
	switch one := !strings.Contains(takes, "..."); {
	case one && takes == "DIR" && len(o.ids) > 0:
		return nil, fmt.Errorf("%s takes no %q", verb, o.ids[0])
	case one && takes != "DIR" && len(o.ids) != 1:
		return nil, fmt.Errorf("%s takes one letter", verb)
	case o.limit < 0 || o.max < 0:
		return nil, errors.New("a bound below zero")
	case verb == "discard" && o.reason == "":
		return nil, errors.New("discard needs a -reason, which is kept with the letters")
	}
	if verb == "replay" {
		fs.Visit(func(f *flag.Flag) {
			o.guards.hasLimit = o.guards.hasLimit || f.Name == "limit"
			o.guards.hasHeadroom = o.guards.hasHeadroom || f.Name == "headroom"
		})
		if err := o.guards.check(); err != nil {
			return nil, err
		}
	}
	return o, o.isJournal()
}

func (o *options) filterFlags(fs *flag.FlagSet, now time.Time) {
	f := &o.filter
	fs.StringVar(&f.Queue, "queue", "", "only letters of the queue of this `name`")
	fs.StringVar(&f.Signature, "signature", "", "only letters with this signature `id`, see groups")
	fs.StringVar(&f.Owner, "owner", "", "only letters that this `name` pays")
	fs.StringVar(&f.RunID, "run", "", "only letters that failed last in the run of this `id`")
	fs.Func("label", "only letters with this label, `key=value`; repeat for more", func(s string) error {
		k, v, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want key=value")
		}
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		f.Labels[k] = v
		return nil
	})
	fs.Func("status", "only letters with these HTTP `codes`, such as 429,503; 0 = no answer", func(s string) error {
		for p := range strings.SplitSeq(s, ",") {
			n, err := strconv.Atoi(p)
			if err != nil || n < 0 || n > 999 {
				return errors.New("want numbers such as 429,503")
			}
			f.Statuses = append(f.Statuses, n)
		}
		return nil
	})
	fs.Func("state", "only letters in these `states`, such as dead,quarantined; or all", func(s string) error {
		known := []deadletter.State{deadletter.Dead, deadletter.Claimed, deadletter.Quarantined, deadletter.Acked, deadletter.Discarded}
		for p := range strings.SplitSeq(s, ",") {
			switch {
			case p == "all":
				f.States = append(f.States, known...)
			case slices.Contains(known, deadletter.State(p)):
				f.States = append(f.States, deadletter.State(p))
			default:
				return errors.New("want dead, claimed, quarantined, acked, discarded or all")
			}
		}
		return nil
	})
	fs.Func("older", "only letters that failed last at least `24h` ago, or before a time", func(s string) (err error) {
		f.Until, err = before(now, s)
		return err
	})
	fs.Func("newer", "only letters that failed last at most `24h` ago, or after a time", func(s string) (err error) {
		f.Since, err = before(now, s)
		return err
	})
}

// before reads a time, or how long ago it was.
func before(now time.Time, s string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return time.Time{}, errors.New("want a duration such as 36h, or a time such as 2026-11-03T04:00:00Z")
	}
	return now.Add(-d), nil
}

func (o *options) replayFlags(fs *flag.FlagSet) {
	fs.BoolVar(&o.yes, "yes", false, "do it, instead of telling what would be done")
	fs.BoolVar(&o.dryRun, "dry-run", false, "only tell what would be done, and exit with 0")
	fs.IntVar(&o.max, "max", 0, "send at most `n` letters; 0 = all")
	fs.Float64Var(&o.rate, "rate", 0, "start at most `n` letters a second; 0 = no bound")
	fs.IntVar(&o.concurrency, "concurrency", 0, "letters at once; 0 = 4")
	fs.IntVar(&o.attempts, "attempts", 0, "calls for one letter; 0 = 4")
	fs.IntVar(&o.maxReplays, "max-replays", 0, "replays in vain before a letter is quarantined; 0 = 3, negative = never")
	fs.DurationVar(&o.timeout, "timeout", 0, "of one call, up to its answer's headers; 0 = 10m")
	fs.BoolVar(&o.early, "early", false, "also letters whose retry-after has not come")
	fs.StringVar(&o.out, "out", "", "write answers into this `directory`, each before its letter is acked")
	g := &o.guards
	fs.StringVar(&g.breaker, "breaker", "", "`directory` of the breaker's state, as given to breaker.File")
	fs.StringVar(&g.breakerName, "breaker-name", "", "the breaker's `name`, when there are several")
	fs.StringVar(&g.budget, "budget", "", "`file` of the budget, as given to budget.OpenFile")
	fs.StringVar(&g.budgetName, "budget-name", "", "the budget's `name`, as in its Config, where the file has the counts of several")
	fs.Int64Var(&g.limit, "limit", 0, "the budget's hard cap in `units`, as in its Config")
	fs.Float64Var(&g.headroom, "headroom", 0, "the `share` of the cap kept back; not said = 0.15")
	fs.StringVar(&g.window, "window", "daily", "the budget's window: minutely, hourly, `daily` or monthly")
	fs.StringVar(&g.zone, "zone", "UTC", "the window's time `zone`, such as Europe/Vienna")
	fs.StringVar(&g.charge, "charge", "", "the `owner` who pays for all; not said = each letter's own")
	fs.StringVar(&g.authEnv, "auth-env", "", "environment variable of this `name` holds the credential")
	fs.StringVar(&g.authHeader, "auth-header", "Authorization", "`header` for it; Authorization says Bearer, others take it bare")
	fs.StringVar(&g.host, "auth-host", "", "the `host` that gets it, when the letters go to several")
}

// check reads what the environment holds, and finds flags that miss others.
func (c *guardOptions) check() error {
	var errs []error
	if c.authEnv != "" {
		if c.credential = strings.TrimSpace(os.Getenv(c.authEnv)); c.credential == "" {
			errs = append(errs, fmt.Errorf("-auth-env: the variable %s is empty", c.authEnv))
		}
	}
	if (c.budget == "") == c.hasLimit {
		errs = append(errs, errors.New("-budget and -limit go together: the file holds what was spent, not the cap"))
	}
	if c.breakerName != "" && c.breaker == "" {
		errs = append(errs, errors.New("-breaker-name needs -breaker"))
	}
	return errors.Join(errs...)
}

// isJournal makes sure that a mistyped name does not look like an empty journal.
func (o *options) isJournal() error {
	list, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Name() == "LOCK" || strings.HasPrefix(e.Name(), "deadletter-") && strings.HasSuffix(e.Name(), ".jsonl") {
			return nil
		}
	}
	return fmt.Errorf("%s holds no journal", o.dir)
}
