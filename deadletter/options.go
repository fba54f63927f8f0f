package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"time"

	"github.com/nightfuse/nightfuse/internal/nils"
)

// Send does a letter's item again. A nil error means that the result is safe:
// the letter is acked next. ctx carries the item, its owner, estimate and
// labels, so guards charge and count it as they did at first. An error that
// says RefusedBy ends the replay.
type Send func(ctx context.Context, r Record) error

// Options say what to replay and how fast.
type Options struct {
	// Filter chooses the letters. No States = Dead; quarantined ones are replayed
	// only when that state is named. After and Limit are ignored.
	Filter Filter

	Concurrency int           // sends at once; 0 = 4. It is 1 until one has succeeded
	Rate        float64       // sends started per second at most; 0 = no bound
	Max         int           // letters to send at most, without those that stay as they were; 0 = all
	Order       Order         // of those after the first success
	MaxReplays  int           // replays in vain before quarantine; 0 = 3, <0 = never
	Lease       time.Duration // of a claim, extended at a third while it is sent; 0 = 10 min
	Early       bool          // also letters whose RetryAfter has not come
	DryRun      bool          // only tell what matches: nothing is claimed or sent

	By       string       // who replays, for people; "" = host and pid
	OnResult func(Result) // with every letter after its claim has ended, one at a time; a panic in it is logged
	Clock    Clock        // nil = real time; should be the store's
	Logger   *slog.Logger // nil = silent
}

// Result is what became of one letter.
type Result struct {
	Record Record // as it was claimed; without the payload where the letter stays as it was
	Verb   Verb   // how the claim was to end
	Err    error  // of the send, nil after a success
	Kept   error  // of the store: the claim did not end so (ErrClaimLost and others)
}

// Report counts what a replay did.
type Report struct {
	Matched   int     `json:"matched"`    // letters at the start, those of other replays not counted
	Skipped   int     `json:"skipped"`    // of these, not sent because their RetryAfter had not come
	Bytes     int64   `json:"bytes"`      // payloads of the matched
	EstTokens int64   `json:"est_tokens"` // of the matched
	Groups    []Group `json:"groups"`     // the matched by signature

	Sent        int `json:"sent"`        // given to the send function; a guard inside may have refused
	Acked       int `json:"acked"`       // succeeded
	Returned    int `json:"returned"`    // failed again, dead as before
	Quarantined int `json:"quarantined"` // failed once too often, or claimed too often
	Released    int `json:"released"`    // refused or cancelled: as before
	Lost        int `json:"lost"`        // claims lost to somebody else meanwhile
	Remaining   int `json:"remaining"`   // matching letters that nobody has tried, at the end

	StoppedBy string `json:"stopped_by,omitempty"` // who refused: "breaker", "budget", "pacer", or "sender" (see HTTPSender)
}

var (
	// ErrNoMatch says that a replay's Filter chooses and nothing matches it.
	ErrNoMatch = errors.New("deadletter: no letter matches")
	// ErrPartial says that a replay left letters untried, because of Max or
	// because their RetryAfter has not come.
	ErrPartial = errors.New("deadletter: replay is partial")
)

func (o Options) check(store Store, send Send) error {
	var errs []error
	if nils.In(store) {
		errs = append(errs, errors.New("deadletter: replay without a store"))
	}
	if send == nil && !o.DryRun {
		errs = append(errs, errors.New("deadletter: replay without a Send"))
	}
	if o.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("deadletter: Concurrency %d is negative", o.Concurrency))
	}
	if o.Max < 0 {
		errs = append(errs, fmt.Errorf("deadletter: Max %d is negative", o.Max))
	}
	if !(o.Rate >= 0) || o.Rate > 1e9 { // not a number is neither
		errs = append(errs, fmt.Errorf("deadletter: Rate %v is not between 0 and 1e9", o.Rate))
	}
	if o.Lease != 0 && o.Lease < time.Second {
		errs = append(errs, fmt.Errorf("deadletter: Lease %v is below a second", o.Lease))
	}
	if o.Order != Oldest && o.Order != Cheapest {
		errs = append(errs, fmt.Errorf("deadletter: unknown order %d", o.Order))
	}
	errs = append(errs, nils.Field("deadletter: Clock", o.Clock))
	for _, s := range o.Filter.States {
		if s != Dead && s != Quarantined {
			errs = append(errs, fmt.Errorf("deadletter: letters in state %q cannot be replayed", s))
		}
	}
	return errors.Join(errs...)
}

func (o Options) filled() Options {
	if o.Concurrency == 0 {
		o.Concurrency = 4
	}
	if o.MaxReplays == 0 {
		o.MaxReplays = 3
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.By == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.By = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	o.Clock = orReal(o.Clock)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// chooses reports whether anything narrows f, the way Replay reads it.
func (f Filter) chooses() bool {
	f.After, f.Limit = Cursor{}, 0
	for _, x := range reflect.ValueOf(f).Fields() {
		if list := x.Kind() == reflect.Slice || x.Kind() == reflect.Map; list && x.Len() > 0 || !list && !x.IsZero() {
			return true
		}
	}
	return false
}
