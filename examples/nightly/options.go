package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/deadletter/fixture"
)

// options are what the flags and the environment say.
type options struct {
	dir      string
	n        int
	workers  int
	upstream string
	limit    int64
	headroom float64
	owner    string
	rpm      int
	hold     time.Duration
	seed     uint64
	report   string
	naive    bool
	again    bool
	record   string
	replay   string
	faults   []fixture.Fault
	baseURL  string
	model    string
	key      string
}

// keyNames are the environment variables that may hold the key of a real
// upstream, the first that is set wins.
var keyNames = []string{"NIGHTLY_API_KEY", "OPENAI_API_KEY"}

// demo reports whether the upstream is the fake.
func (o *options) demo() bool { return o.baseURL == "" }

func parseOptions(args []string, getenv func(string) string, output io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("nightly", flag.ContinueOnError)
	f.SetOutput(output)
	f.Usage = func() {
		fmt.Fprintln(output, `nightly asks a model for a summary of every file in an inbox folder, and guards
the night. Run again on the same -dir, it does only what is missing.

Exit codes: 0 all done, 1 usage, 2 breaker open, 3 budget used up, 4 dead
letters remain, 5 something was lost, 130 interrupted.

Flags:`)
		f.PrintDefaults()
	}
	f.StringVar(&o.dir, "dir", "", "work `folder` for inbox, results and state (default: a new temp folder, printed)")
	f.IntVar(&o.n, "n", 4000, "`items` to write into an inbox that is not there yet")
	f.IntVar(&o.workers, "workers", 32, "calls in flight at most")
	f.StringVar(&o.upstream, "upstream", "night", "the fake upstream: "+strings.Join(upstreams, ", "))
	f.Int64Var(&o.limit, "limit", 0, "`tokens` a day; required with -base-url (default: the fake's quota)")
	f.Float64Var(&o.headroom, "headroom", 0.15, "share of -limit and -rpm kept back for people and retries")
	f.StringVar(&o.owner, "owner", "nightly", "who the tokens are booked to")
	f.IntVar(&o.rpm, "rpm", 0, "`calls` a minute that the key allows (default: the fake's; with -base-url it is measured)")
	f.DurationVar(&o.hold, "hold", 0, "how long the run waits for an open breaker (default 10s; with -base-url 1h)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the fake's night")
	f.StringVar(&o.report, "report", "", "`file` for the JSON report (default: report.json in -dir)")
	f.BoolVar(&o.again, "again", false, "do the dead letters again, too; what succeeds is a dead letter no more")
	f.BoolVar(&o.naive, "naive", false, "run the loop that caused the stories instead, on the same night")
	f.StringVar(&o.baseURL, "base-url", "", "an OpenAI-compatible server, `URL` up to /v1; the key comes from "+strings.Join(keyNames, " or "))
	f.StringVar(&o.model, "model", "", "model name (required with -base-url)")
	f.StringVar(&o.record, "record", "", "`folder` to record every call in, for -replay")
	f.StringVar(&o.replay, "replay", "", "`folder` of a recording that answers in place of the upstream")
	f.Func("fault", "make calls fail: `every=3,status=429` answers every third with a 429", func(s string) (err error) {
		o.faults, err = parseFault(s)
		return err
	})
	if err := f.Parse(args); err != nil {
		return nil, err
	}

	set := map[string]bool{}
	f.Visit(func(f *flag.Flag) { set[f.Name] = true })
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if f.NArg() > 0 {
		bad("unexpected argument %q", f.Arg(0))
	}
	if o.n < 1 {
		bad("-n: %d items; at least 1", o.n)
	}
	if o.workers < 1 {
		bad("-workers: %d; at least 1", o.workers)
	}
	if o.record != "" && o.replay != "" {
		bad("-record and -replay: one of them")
	}
	if o.rpm < 0 {
		bad("-rpm: %d; calls a minute, 0 = not known", o.rpm)
	}
	if set["limit"] && o.limit < 1 {
		bad("-limit: %d; tokens a day, at least 1", o.limit)
	}
	if !(o.headroom >= 0 && o.headroom < 1) {
		bad("-headroom: %v; a share from 0 to below 1", o.headroom)
	}
	if o.hold < 0 {
		bad("-hold: %v; 0 stops at the first refusal", o.hold)
	}
	if o.demo() {
		o.key = demoKey
		if !set["rpm"] {
			o.rpm = demoRPM
		}
		if !set["hold"] {
			o.hold = 10 * time.Second
		}
		if set["model"] {
			bad("-model goes with -base-url")
		}
		o.model = "fake-model"
	} else {
		for _, name := range keyNames {
			if o.key = getenv(name); o.key != "" {
				break
			}
		}
		if o.key == "" {
			bad("-base-url needs a key in the environment: set %s", strings.Join(keyNames, " or "))
		}
		if !set["limit"] {
			bad("-base-url needs -limit: how many tokens a day may this cost?")
		}
		if o.model == "" {
			bad("-base-url needs -model")
		}
		if set["upstream"] {
			bad("-upstream names a fake; it does not go with -base-url")
		}
		if u, err := url.Parse(o.baseURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			bad("-base-url: %q is no http or https URL", o.baseURL)
		}
		o.baseURL = strings.TrimSuffix(o.baseURL, "/")
		if !set["hold"] {
			o.hold = time.Hour
		}
	}
	return o, errors.Join(errs...)
}

func (o *options) reportPath() string {
	if o.report != "" {
		return o.report
	}
	return filepath.Join(o.dir, "report.json")
}
