package budget

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"

	"github.com/nightfuse/nightfuse/internal/nils"
)

// PacerConfig is what a [Pacer] is made of. At least one of Requests, Tokens
// and Adapt must be set.
type PacerConfig struct {
	// Name appears in errors, events and Stats. "" = "pacer".
	Name string

	// Requests is the known limit in calls per minute. 0 = not known.
	Requests int64

	// Tokens is the known limit in tokens per minute. 0 = not known. A call's
	// tokens are its estimate until it is settled. A call of more than ten
	// seconds' worth collects its tokens in parts; one of more than a minute's
	// worth waits for longer than a minute.
	Tokens int64

	// Adapt finds the limit out from refusals (429), when nobody knows it or
	// others share it. It may go with known limits.
	Adapt bool

	// Headroom is the share of the rate left to people on the same key; 0
	// and below = none, below 1. It costs that share of the speed.
	Headroom float64

	// Express are owners whose calls go at once and are counted: people.
	Express []string

	// Estimate says how many tokens a request may cost, for the transport,
	// when Tokens or Adapt is set. nil = EstimateBody.
	Estimate func(req *http.Request, body []byte) int64

	// Clock is the time. nil = real time. Only with real time is a context's
	// deadline compared with a turn.
	Clock Clock

	// Logger gets what OnEvent gets. nil = silent.
	Logger *slog.Logger

	// OnEvent is told what happens, with no lock held, one event at a time, in
	// order. It may call any method. A panic in it is logged and counted.
	OnEvent func(PacerEvent)
}

func checkPacer(c PacerConfig) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name != "" && !nameText(c.Name) {
		bad("Name %q: at most 64 bytes without control characters", c.Name)
	}
	if c.Requests == 0 && c.Tokens == 0 && !c.Adapt {
		bad("one of Requests, Tokens and Adapt must be set")
	}
	if c.Requests < 0 || c.Requests > MaxAmount {
		bad("Requests %d: must be 0 to %d", c.Requests, int64(MaxAmount))
	}
	if c.Tokens < 0 || c.Tokens > MaxAmount {
		bad("Tokens %d: must be 0 to %d", c.Tokens, int64(MaxAmount))
	}
	if !(c.Headroom < 1) || math.IsInf(c.Headroom, -1) {
		bad("Headroom %v: must be below 1", c.Headroom)
	}
	if err := nils.Field("Clock", c.Clock); err != nil {
		errs = append(errs, err)
	}
	if slices.Contains(c.Express, "") {
		bad("Express: an owner without a name")
	}
	return errors.Join(errs...)
}
