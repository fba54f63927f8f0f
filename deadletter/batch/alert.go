package batch

import (
	"fmt"
	"time"

	"github.com/nightfuse/nightfuse/internal/hook"
)

// Alert is something that a person should look at while the run goes on.
type Alert struct {
	At   time.Time `json:"at"`
	Kind AlertKind `json:"kind"`
	Text string    `json:"text"`
}

// AlertKind says which rule raised an alert.
type AlertKind string

// The alerts. Each is raised once a run; a trip once for each time, a signature
// once for each signature.
const (
	CallsPerDone AlertKind = "calls_per_done" // over 15 minutes, or a shorter run in all, more than 1.2 calls per item done; or calls and nothing done at the end
	Tripped      AlertKind = "trip"           // the breaker opened
	Repeating    AlertKind = "signature"      // RepeatTrip-1 items ended with the same failure since an item was done
	StuckItems   AlertKind = "stuck"          // the slowest twentieth is twice as slow as at first, the middle is not
)

// alarms raises alerts, each once.
type alarms struct {
	raised  map[string]bool
	list    []Alert
	trips   int64
	repeats map[string]int // failures by signature since the last item was done
}

// maxAlerts bounds what a report holds of them; hooks get all.
const maxAlerts = 100

func (r *run) alert(kind AlertKind, once, format string, a ...any) {
	if r.alarms.raised[once] {
		return
	}
	r.alarms.raised[once] = true
	al := Alert{At: r.cfg.Clock.Now().UTC(), Kind: kind, Text: fmt.Sprintf(format, a...)}
	if len(r.alarms.list) < maxAlerts {
		r.alarms.list = append(r.alarms.list, al)
	}
	r.cfg.Logger.Warn("batch: "+al.Text, "run", r.cfg.Name, "alert", string(kind))
	if r.cfg.OnAlert != nil {
		r.hook("OnAlert", func() { r.cfg.OnAlert(al) })
	}
}

// watch looks at the numbers; ended is true when the run is over.
func (r *run) watch(now time.Time, ended bool) {
	if !ended && now.Sub(r.watched) < tick {
		return
	}
	r.watched = now
	calls := r.callsNow()
	s, full := r.meter.perDone(now, calls, r.doneNow())
	switch {
	case (full || ended && s.calls >= minAlertCalls) && s.tooMany():
		r.alert(CallsPerDone, string(CallsPerDone), "%d calls for %d items done in the last %v", s.calls, s.done, min(window, now.Sub(r.began)).Round(time.Second))
	case ended && calls > 0 && r.doneNow() == 0:
		r.alert(CallsPerDone, string(CallsPerDone), "%d calls in this run, and no item done", calls)
	}
	if st := r.meter.stuck(now); st != nil {
		r.stuck = st
		r.alert(StuckItems, string(StuckItems), "items are stuck: p95 %v ms after %v ms at first, p50 %v ms after %v ms", st.P95, st.FirstP95, st.P50, st.FirstP50)
	}
	if trips := r.gauges().Trips - r.before.Trips; trips > r.alarms.trips {
		r.alarms.trips = trips
		r.alert(Tripped, fmt.Sprint(Tripped, trips), "the breaker opened (trip %d of this run)", trips)
	}
}

// failed notes the failure of an item.
func (r *run) failed(signature, text string) {
	if signature == "" {
		return
	}
	c := r.signatures[signature]
	if c == nil {
		if len(r.signatures) >= maxSignatures {
			return
		}
		c = &SignatureCount{Signature: signature, Template: text}
		r.signatures[signature] = c
	}
	c.Count++
	r.alarms.repeats[signature]++
	if n := r.alarms.repeats[signature]; r.cfg.RepeatTrip > 1 && n == r.cfg.RepeatTrip-1 {
		r.alert(Repeating, "signature "+signature, "%d items in a row failed with %s (%s); a breaker that counts them opens at %d", n, signature, text, r.cfg.RepeatTrip)
	}
}

// gauges asks the caller's Gauges, and survives it.
func (r *run) gauges() Gauges {
	r.hook("Gauges", func() { r.lastGauges = r.cfg.Gauges() })
	return r.lastGauges
}

// hook calls a function of the caller's.
func (r *run) hook(name string, fn func()) {
	hook.Call(fn, func(text string) {
		r.cfg.Logger.Error("batch: "+name+" panicked", "run", r.cfg.Name, "panic", text)
	})
}
