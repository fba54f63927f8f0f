package batch

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/nils"
)

// Config says how a run works. Dir and Letters are required.
type Config struct {
	Dir     string            // the run's folder: lock, results and report; made when it is missing
	Letters *deadletter.Queue // where failed items go
	Name    string            // in the report and the heartbeat; "" = the name of Dir
	Results Results           // nil = OpenFolder("results" in Dir)
	Version string            // of whatever makes a result beside the input (prompt, model): with another one items are done again
	Owner   string            // who pays; see budget.WithOwner

	Workers int // items at once; 0 = 8
	Total   int // items to come, for the progress; 0 = not known

	// Validate says why a result must not pass for one. It is asked before a
	// result is stored, and again before one from an earlier run is believed, by
	// several goroutines at once. An empty result, or one of white space, is
	// none and Validate is not asked. nil = CheckResult.
	Validate func(Item, []byte) error

	// Hold is how long a run waits for a refusal to lift (an open breaker, a
	// budget), counted anew after every item done. 0 = the first refusal ends
	// the run. A wait that the refusal says to be longer is not begun.
	Hold time.Duration

	Until    time.Time     // start nothing at or after this; zero = no end
	Patience time.Duration // end the run when no item is done for so long, holds left out; 0 = 5m before the first, then 1h; <0 = never
	Grace    time.Duration // for calls in flight after a signal or the end of patience, and for counting the rest after any stop; 0 = 30s

	Again      bool // do the items with a dead letter again, too
	AllowEmpty bool // a run without items is a success, not an error

	// RepeatTrip is the breaker's: one failed item before so many have the same
	// signature an alert is raised. The breaker sees the calls, the run the items
	// that have ended: where many are out at once, or a retry tries them again, the
	// breaker opens before it. 0 = 5, <0 = no such alert.
	RepeatTrip int

	// Gauges is asked for what only the guards know, about once a second. If it
	// panics, that is logged and its last answer stands. nil = the report has
	// no trips and tokens.
	Gauges func() Gauges

	// Signals ends the run: the first drains, the second cancels. nil = Run
	// listens to os.Interrupt and SIGTERM itself, until the second; give a channel
	// in a testing/synctest bubble, where package signal does not work.
	Signals <-chan os.Signal

	Report    string // file for the JSON report; "" = report.json in Dir, of Replay replay.json
	Heartbeat string // file rewritten every 15 s, for an external watcher; "" = none. Once the run is under way, a write that fails is a warning

	Progress io.Writer    // nil = none. On a terminal one line, written over; else a line every 30 s. Used by a goroutine of its own
	OnAlert  func(Alert)  // every alert once, as it is raised, with no lock held; a panic in it is logged
	Clock    Clock        // nil = real time
	Logger   *slog.Logger // nil = silent
}

// Gauges is what the guards of a run say of themselves. Counters may begin
// anywhere: the report has what they grew by.
type Gauges struct {
	Trips     int64  // of the breaker; breaker.Stats.TripsTotal
	Estimated int64  // reserved for settled calls, in the budget's unit; budget.Stats.SettledEstimates
	Actual    int64  // what these calls have cost; budget.Stats.SettledUnits
	State     string // for the progress line, such as the breaker's state
}

// The defaults.
const (
	defaultWorkers = 8
	defaultGrace   = 30 * time.Second
	firstPatience  = 5 * time.Minute
	laterPatience  = time.Hour
	defaultRepeat  = 5
)

// filled checks c and fills in the defaults. The error names every field that
// cannot be.
func (c Config) filled(handle Handle) (Config, error) {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf("batch: "+format, a...)) }
	if c.Dir == "" {
		bad("Dir is missing: where are lock, results and report to go?")
	}
	if c.Letters == nil {
		bad("Letters is missing: where are failed items to go?")
	}
	if !utf8.ValidString(c.Version) {
		bad("Version %q is not UTF-8", c.Version)
	}
	if handle == nil {
		bad("the handle is missing")
	}
	for _, f := range []struct {
		name string
		n    int64
	}{{"Workers", int64(c.Workers)}, {"Total", int64(c.Total)}, {"Hold", int64(c.Hold)}, {"Grace", int64(c.Grace)}} {
		if f.n < 0 {
			bad("%s %d is negative", f.name, f.n)
		}
	}
	errs = append(errs, nils.Field("batch: Results", c.Results), nils.Field("batch: Progress", c.Progress), nils.Field("batch: Clock", c.Clock))
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	if c.Name == "" {
		c.Name = filepath.Base(c.Dir)
	}
	if c.Workers == 0 {
		c.Workers = defaultWorkers
	}
	if c.Validate == nil {
		c.Validate = func(_ Item, result []byte) error { return CheckResult(result) }
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.RepeatTrip == 0 {
		c.RepeatTrip = defaultRepeat
	}
	if c.Gauges == nil {
		c.Gauges = func() Gauges { return Gauges{} }
	}
	if c.Report == "" {
		c.Report = filepath.Join(c.Dir, "report.json")
	}
	c.Clock = orReal(c.Clock)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
