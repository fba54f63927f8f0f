package breaker

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/nightfuse/nightfuse/internal/nils"
)

// Config says how a Breaker works. The zero value is a working breaker that
// keeps its state in memory. A Config is copied by New; its fields must be safe
// for concurrent use.
type Config struct {
	// Name is the breaker's name in the store, in errors and in statistics:
	// 1 to 150 bytes of printable ASCII, case-sensitive. "" = "default".
	Name string

	// Threshold is how many failures since the last success open the breaker.
	// 0 = 10, more than the attempts a retry makes, so that one bad item alone
	// cannot open it.
	Threshold int

	// RepeatTrip is how many failures with one signature since the last success
	// open it; one item counts once. 0 = 5, negative = off.
	RepeatTrip int

	// Cooldown is how long the first opening lasts; each failed probe doubles
	// it up to MaxCooldown. 0 = 30s and 1m, MaxCooldown at least Cooldown.
	Cooldown, MaxCooldown time.Duration

	// Jitter is the largest share that is added to a cooldown, drawn once per
	// opening. 0 = 0.1, negative = none, at most 1.
	Jitter float64

	// MaxHint is how far a server's wait hint may lengthen an opening. 0 = 10m,
	// negative = hints are ignored.
	MaxHint time.Duration

	// ProbeLease is how long a probe may take before another call becomes the
	// probe. It must exceed the longest legal call. 0 = 15m.
	ProbeLease time.Duration

	// Ratio opens the breaker as well when at least this share of the calls of
	// the last RatioWindow were failures and there were at least RatioCalls of
	// them. It is counted in this process only. 0 = off, at most 1; RatioCalls
	// 0 = 20, RatioWindow 0 = 1m.
	Ratio       float64
	RatioCalls  int
	RatioWindow time.Duration

	// Shadow lets every call pass. The breaker still counts, trips, probes and
	// reports, and Stats.Shadowed says how many calls it would have refused.
	Shadow bool

	// Store keeps the state. nil = memory: a restart forgets a trip. Use File
	// for unattended work.
	Store Store

	// StoreTimeout bounds one operation of the Store, in real time. 0 = 1s.
	StoreTimeout time.Duration

	// Refresh is how stale the state of a Store that is no Sequencer may be.
	// Calls that wait look as often at every Store. 0 = 1s.
	Refresh time.Duration

	// Classify judges a call: its response, or nil and an error, both nil for a
	// function that returned nil. It must not read the body, and is asked when
	// the body has ended, with the error that ended it too early. nil, and the
	// answer Auto, mean the table in the package guide.
	Classify func(*http.Response, error) Outcome

	// Clock is the time. nil = real time.
	Clock Clock

	// Logger hears transitions and troubles of the store. nil = silent.
	Logger *slog.Logger

	// OnChange is called after every change, one call at a time and in order,
	// with no lock held: it may call any method. A panic in it is counted and
	// logged, and loses neither the change nor the next ones.
	OnChange func(Change)
}

const (
	maxName     = 150 // leaves room for the suffix of a set-aside record
	defaultName = "default"
)

// withDefaults returns cfg with every zero replaced by what it means, or all
// that is wrong with it.
func (cfg Config) withDefaults() (Config, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("breaker: "+format, args...)) }
	count := func(field string, v *int, zero int) {
		if *v < 0 {
			bad("Config.%s is %d, want 0 or more", field, *v)
		}
		if *v == 0 {
			*v = zero
		}
	}
	span := func(field string, v *time.Duration, zero time.Duration) {
		if *v < 0 {
			bad("Config.%s is %v, want 0 or more", field, *v)
		}
		if *v == 0 {
			*v = zero
		}
	}

	if cfg.Name == "" {
		cfg.Name = defaultName
	}
	if len(cfg.Name) > maxName {
		bad("Config.Name has %d bytes, want at most %d", len(cfg.Name), maxName)
	}
	if !printable(cfg.Name) {
		bad("Config.Name is %q, want printable ASCII", cfg.Name)
	}
	errs = append(errs, nils.Field("breaker: Config.Store", cfg.Store), nils.Field("breaker: Config.Clock", cfg.Clock))
	count("Threshold", &cfg.Threshold, 10)
	if cfg.RepeatTrip == 0 {
		cfg.RepeatTrip = 5
	}
	maxGiven := cfg.MaxCooldown != 0
	span("Cooldown", &cfg.Cooldown, 30*time.Second)
	span("MaxCooldown", &cfg.MaxCooldown, max(time.Minute, cfg.Cooldown))
	if maxGiven && cfg.MaxCooldown > 0 && cfg.MaxCooldown < cfg.Cooldown {
		bad("Config.MaxCooldown is %v, less than the Cooldown of %v", cfg.MaxCooldown, cfg.Cooldown)
	}
	switch {
	case math.IsNaN(cfg.Jitter) || cfg.Jitter > 1:
		bad("Config.Jitter is %v, want at most 1", cfg.Jitter)
	case cfg.Jitter == 0:
		cfg.Jitter = 0.1
	case cfg.Jitter < 0:
		cfg.Jitter = 0
	}
	switch {
	case cfg.MaxHint == 0:
		cfg.MaxHint = 10 * time.Minute
	case cfg.MaxHint < 0:
		cfg.MaxHint = 0
	}
	span("ProbeLease", &cfg.ProbeLease, 15*time.Minute)
	if math.IsNaN(cfg.Ratio) || cfg.Ratio < 0 || cfg.Ratio > 1 {
		bad("Config.Ratio is %v, want 0 to 1", cfg.Ratio)
	}
	count("RatioCalls", &cfg.RatioCalls, 20)
	span("RatioWindow", &cfg.RatioWindow, time.Minute)
	span("StoreTimeout", &cfg.StoreTimeout, time.Second)
	span("Refresh", &cfg.Refresh, time.Second)
	return cfg, errors.Join(errs...)
}

func (cfg *Config) rules() rules {
	return rules{
		threshold: cfg.Threshold, repeat: cfg.RepeatTrip,
		cooldown: cfg.Cooldown, maxCooldown: cfg.MaxCooldown,
		jitter: cfg.Jitter, maxHint: cfg.MaxHint, lease: cfg.ProbeLease,
	}
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
