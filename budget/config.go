package budget

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/internal/nils"
)

// Config is what a [Budget] is made of. Amounts are in a unit of the caller's
// choice: tokens, requests, micro-dollars. The defaults of Estimate and Charge
// count tokens.
type Config struct {
	// Name tells budgets on one Store apart and appears in errors, events and
	// Stats. "" = "budget".
	Name string

	// Limit is the hard cap per window, from the plan's current terms; 1 to
	// MaxAmount. Required.
	Limit int64

	// Headroom is the share of Limit kept back from owners without
	// UseHeadroom, for people and for finishing what was begun. 0 = 0.15,
	// < 0 = none; below 1. The soft cap is floor(Limit*(1-Headroom)) in
	// decimal arithmetic; reaching it exactly is allowed.
	Headroom float64

	// Window is what Limit is for. nil = Daily(time.UTC).
	Window Window

	// Owners are those who may spend. Empty = one owner without a name.
	Owners []Owner

	// Estimate says what a request may cost at most, for the transport. The
	// body is the request's, at most its first 4 MiB, valid during the call
	// only, and nil if there is none. nil = EstimateBody. WithEstimate takes
	// precedence.
	Estimate func(req *http.Request, body []byte) int64

	// Charge says what an ended call has cost, for the transport and Do. nil =
	// the function Charge. A negative result is settled at the estimate.
	Charge func(Call) int64

	// OnStoreError says what Reserve does when Store fails. Zero = Closed.
	OnStoreError StoreErrorPolicy

	// Store keeps the counters. nil = a new Memory: a restart forgets what was
	// spent. Budgets with the same Name, Window and Store share their limit.
	Store Store

	// StoreTimeout bounds one trip to the Store, in real time. 0 = 2s.
	StoreTimeout time.Duration

	// Clock is the time. nil = real time.
	Clock Clock

	// Logger gets what OnEvent gets, refusals at debug level. nil = silent.
	Logger *slog.Logger

	// OnEvent is told what happens, with no lock held, one event at a time, in
	// order. It may call any method. A panic in it is logged and counted.
	OnEvent func(Event)
}

// An Owner is somebody who spends: a job, a team, a person.
type Owner struct {
	Name        string // "" is possible for the only owner
	Limit       int64  // the owner's own ceiling per window; 0 = the pool's limit only
	UseHeadroom bool   // may spend up to the hard cap
}

// StoreErrorPolicy says what happens to reservations while the store fails:
// [Closed], [Open] or [Local].
type StoreErrorPolicy int64

const (
	// Closed refuses: nobody knows what is left. It is the zero value.
	Closed StoreErrorPolicy = 0
	// Open grants everything, and books it when the store works again.
	Open StoreErrorPolicy = math.MinInt64
)

// Local grants up to n units in this process while the store fails, and books
// them when it works again. n must be positive.
func Local(n int64) StoreErrorPolicy {
	if n <= 0 {
		return -1 // reported by New
	}
	return StoreErrorPolicy(n)
}

const (
	defaultName         = "budget"
	defaultHeadroom     = 0.15
	defaultStoreTimeout = 2 * time.Second
)

func (b *Budget) check(c Config) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !nameText(b.name) {
		bad("Name %q: at most 64 bytes without control characters", b.name)
	}
	if c.Limit < 1 || c.Limit > MaxAmount {
		bad("Limit %d: must be 1 to %d", c.Limit, int64(MaxAmount))
	}
	if !(c.Headroom < 1) {
		bad("Headroom %v: must be below 1", c.Headroom)
	}
	nothing := errors.Join(nils.Field("Store", c.Store), nils.Field("Clock", c.Clock), nils.Field("Window", c.Window))
	if nothing != nil {
		errs = append(errs, nothing)
	} else if err := checkWindow(b.window, b.clock.Now()); err != nil {
		errs = append(errs, err)
	}
	seen := make(map[string]bool)
	for i, o := range c.Owners {
		if o.Name == "" && len(c.Owners) > 1 {
			bad("Owners[%d]: one of several needs a Name", i)
		}
		if o.Name != "" && !nameText(o.Name) {
			bad("Owners[%d]: Name %q: at most 64 bytes without control characters", i, o.Name)
		}
		if seen[o.Name] {
			bad("Owners[%d]: %q is there twice", i, o.Name)
		}
		seen[o.Name] = true
		if o.Limit < 0 || o.Limit > MaxAmount {
			bad("Owners[%d]: Limit %d: must be 0 to %d", i, o.Limit, int64(MaxAmount))
		}
	}
	if c.OnStoreError < 0 && c.OnStoreError != Open {
		bad("OnStoreError: Local needs a positive amount")
	}
	if c.StoreTimeout < 0 {
		bad("StoreTimeout %v: must not be negative", c.StoreTimeout)
	}
	return errors.Join(errs...)
}

func nameText(s string) bool {
	return s != "" && len(s) <= 64 && len(escape(s)) <= 90 && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// escape makes s a part of a store's key: printable ASCII without space, '|'
// and '%'.
func escape(s string) string {
	var sb strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '|' || c == '%' {
			fmt.Fprintf(&sb, "%%%02x", c)
		} else {
			sb.WriteByte(c)
		}
	}
	return sb.String()
}

// unescape is escape's other way. What escape has not made stays as it is.
func unescape(s string) string {
	if text, err := url.PathUnescape(s); err == nil {
		return text
	}
	return s
}

// softCap is floor(limit*(1-headroom)), of the decimal number that headroom
// was written as: in floating point 0.9 of 100 would leave 9.
func softCap(limit int64, headroom float64) int64 {
	if headroom < 0 {
		return limit
	}
	h, ok := new(big.Rat).SetString(strconv.FormatFloat(headroom, 'g', -1, 64))
	if !ok {
		return 0
	}
	r := h.Sub(big.NewRat(1, 1), h)
	r.Mul(r, new(big.Rat).SetInt64(limit))
	return new(big.Int).Quo(r.Num(), r.Denom()).Int64()
}

func anyHeadroom(owners []Owner) bool {
	for _, o := range owners {
		if o.UseHeadroom {
			return true
		}
	}
	return false
}
