package breaker

import (
	"fmt"
	"slices"
	"time"

	"github.com/nightfuse/nightfuse/signature"
)

// maxSignatures bounds how many different signatures are counted at a time.
const maxSignatures = 8

// maxIgnored is how many probes in a row may end without a verdict before the
// breaker waits another cooldown: nothing was learned, so do not hammer.
const maxIgnored = 3

// record is everything a breaker remembers. It is a value: step never changes
// the one it is given, nor what its slice points to.
type record struct {
	Epoch uint64 // raised by every transition; results carry the one they were admitted in
	State State

	Failures  int        // since the last success
	Counts    []sigCount // per signature since the last success
	NotBefore time.Time  // the latest time a server asked to wait for, since the last success
	Daily     bool       // a daily quota was answered since the last success

	Cooldown time.Duration // the step of this opening without jitter; 0 starts at the base
	OpenedAt time.Time     // wall clock
	OpenFor  time.Duration // jitter and hint included

	ClosedAt     time.Time     // when a probe last closed it
	LastCooldown time.Duration // the step it closed from; 0 = none to resume

	Probe   lease
	Ignored int // probes in a row without a verdict

	Reason    string       // why it is open
	Signature signature.ID // what tripped it

	TripsTotal uint64
	LastTrip   Trip
}

type sigCount struct {
	ID signature.ID `json:"id"`
	N  int          `json:"count"`
}

// lease is the one call that may go out while half-open.
type lease struct {
	Token     string
	Holder    string
	GrantedAt time.Time // wall clock
	For       time.Duration
}

// Trip is the memory of one trip. Only deletion of the stored state clears it.
type Trip struct {
	At        time.Time    `json:"at"`
	Reason    string       `json:"reason"`
	Signature signature.ID `json:"signature,omitempty"`
}

func (s *record) dirty() bool {
	return s.Failures != 0 || len(s.Counts) != 0 || s.Daily || !s.NotBefore.IsZero()
}

type kind uint8

const (
	evAllow kind = iota
	evSuccess
	evFailure
	evFatal
	evIgnored
	evCheck  // the last call that a trip waited for has ended
	evRepair // somebody found the anchor in the future
	evTrip
	evReset
)

// event is what happened, with everything that is not in the record: the time,
// the draw of the dice, what this process knows by itself.
type event struct {
	kind   kind
	now    time.Time
	epoch  uint64 // of the permit
	token  string // of the probe, "" for other calls
	holder string

	sig    signature.ID
	reason string
	hint   time.Duration // how long the server asks to wait
	again  bool          // this item was counted under this signature before
	daily  bool
	ratio  bool // the failure ratio is reached
	slack  int  // failures allowed beyond the limits while older calls are out

	draw float64 // uniform in [0,1), for the jitter
	seen sighting
}

// sighting is how much time this process measured since an anchor. It beats
// the wall clock, which may have been set meanwhile.
type sighting struct {
	epoch   uint64
	anchor  time.Time
	elapsed time.Duration
}

type answer uint8

const (
	refused answer = iota
	admitted
	probing
)

// effect is what a step did.
type effect struct {
	answer  answer // to evAllow
	changed bool   // the record must be written
	moved   bool   // a transition
	stale   bool   // a result from before the last transition
	repair  bool   // the anchor lies in the future: evRepair is due
}

// rules are the numbers of a Config that the machine needs.
type rules struct {
	threshold, repeat     int
	cooldown, maxCooldown time.Duration
	jitter                float64
	maxHint               time.Duration
	lease                 time.Duration
}

// step is the whole machine: the rows of the package guide's table, in its
// order. What no row names has no effect.
func (r *rules) step(s record, e event) (record, effect) {
	current := e.epoch == s.Epoch && e.token == s.Probe.Token
	closed := s.State == Closed && current
	probe := s.State == HalfOpen && current && e.token != ""

	switch {
	case e.kind == evAllow && s.State == Closed:
		return s, effect{answer: admitted}

	case e.kind == evSuccess && closed:
		if !s.dirty() {
			return s, effect{}
		}
		s.clear()
		return s, effect{changed: true}

	case e.kind == evFailure && closed:
		s = r.count(s, e)
		if reason, sig, trip := r.tripped(s, e); trip {
			return r.trip(s, e, reason, sig), effect{changed: true, moved: true}
		}
		return s, effect{changed: true}

	case e.kind == evCheck && closed:
		if reason, sig, trip := r.tripped(s, e); trip {
			return r.trip(s, e, reason, sig), effect{changed: true, moved: true}
		}
		return s, effect{}

	case e.kind == evFatal && closed:
		s = r.count(s, e)
		return r.trip(s, e, "fatal: "+e.reason, e.sig), effect{changed: true, moved: true}

	case e.kind == evIgnored && probe:
		if s.Ignored++; s.Ignored >= maxIgnored {
			return r.open(s, e, s.step(r), s.Reason, s.Signature), effect{changed: true, moved: true}
		}
		s.Probe = lease{}
		s.Epoch++
		return s, effect{changed: true, moved: true}

	case e.kind == evIgnored && closed:
		return s, effect{}

	case e.kind >= evSuccess && e.kind <= evCheck && !probe:
		return s, effect{stale: true}

	case e.kind == evAllow && s.State == Open:
		age, open := s.age(s.OpenedAt, e), r.openFor(s)
		if age < open {
			return s, effect{repair: age < 0}
		}
		if age-open > r.maxCooldown {
			s.Cooldown = 0
		}
		return r.grant(s, e), effect{answer: probing, changed: true, moved: true}

	case e.kind == evAllow && s.Probe.Token != "":
		if s.Probe.Token == e.token {
			return s, effect{answer: probing} // granted already; the reply was lost
		}
		if age := s.age(s.Probe.GrantedAt, e); age < r.leaseFor(s) {
			return s, effect{repair: age < 0}
		}
		return r.grant(s, e), effect{answer: probing, changed: true, moved: true}

	case e.kind == evAllow: // half-open and the slot is free
		return r.grant(s, e), effect{answer: probing, changed: true, moved: true}

	case e.kind == evSuccess:
		s.ClosedAt, s.LastCooldown = wall(e.now), s.step(r)
		s.close()
		return s, effect{changed: true, moved: true}

	case e.kind == evFailure || e.kind == evFatal:
		s = r.count(s, e)
		sig := e.sig
		if sig == "" {
			sig = s.Signature
		}
		return r.open(s, e, r.double(s.Cooldown), "the probe failed: "+e.reason, sig), effect{changed: true, moved: true}

	case e.kind == evRepair && s.State == Open && s.age(s.OpenedAt, e) < 0:
		// Clamping at every look alone would pin short-lived processes for as
		// long as the clock was set back.
		s.OpenedAt = wall(e.now)
		return s, effect{changed: true}

	case e.kind == evRepair && s.Probe.Token != "" && s.age(s.Probe.GrantedAt, e) < 0:
		s.Probe.GrantedAt = wall(e.now)
		return s, effect{changed: true}

	case e.kind == evRepair:
		return s, effect{}

	case e.kind == evTrip && s.State == Closed:
		return r.trip(s, e, e.reason, e.sig), effect{changed: true, moved: true}

	case e.kind == evTrip:
		s = s.tripped(e, e.reason, e.sig)
		return r.open(s, e, r.double(s.Cooldown), e.reason, e.sig), effect{changed: true, moved: true}

	case e.kind == evReset:
		s.ClosedAt, s.LastCooldown = time.Time{}, 0
		s.close()
		return s, effect{changed: true, moved: true}
	}
	return s, effect{}
}

// count adds one failure to s.
func (r *rules) count(s record, e event) record {
	s.Failures++
	s.Daily = s.Daily || e.daily
	if hint := min(e.hint, r.maxHint); hint > 0 {
		if until := wall(e.now.Add(hint)); until.After(s.NotBefore) {
			s.NotBefore = until
		}
	}
	if e.sig == "" || e.again {
		return s
	}
	s.Counts = slices.Clone(s.Counts)
	if i := slices.IndexFunc(s.Counts, func(c sigCount) bool { return c.ID == e.sig }); i >= 0 {
		s.Counts[i].N++
		return s
	}
	if len(s.Counts) == maxSignatures {
		rare := 0
		for i, c := range s.Counts {
			if c.N < s.Counts[rare].N {
				rare = i
			}
		}
		s.Counts = slices.Delete(s.Counts, rare, rare+1)
	}
	s.Counts = append(s.Counts, sigCount{e.sig, 1})
	return s
}

// tripped says whether the counters have reached a limit.
func (r *rules) tripped(s record, e event) (reason string, sig signature.ID, _ bool) {
	var top sigCount
	for _, c := range s.Counts {
		if c.N > top.N {
			top = c
		}
	}
	switch {
	case r.repeat > 0 && top.N >= r.repeat+e.slack:
		reason = fmt.Sprintf("%d failures with one signature since the last success", top.N)
	case s.Failures >= r.threshold+e.slack:
		reason = fmt.Sprintf("%d failures since the last success", s.Failures)
	case e.ratio:
		reason = "failure ratio reached"
	default:
		return "", "", false
	}
	if e.reason != "" {
		reason += ", the last: " + e.reason
	}
	return reason, top.ID, true
}

// trip opens a closed breaker.
func (r *rules) trip(s record, e event, reason string, sig signature.ID) record {
	step := r.cooldown
	if s.LastCooldown > 0 && e.now.Sub(s.ClosedAt) <= r.maxCooldown {
		// It closed a moment ago: one good probe does not forgive everything,
		// else short outages repeat at full load (flapping).
		step = r.double(s.LastCooldown)
	}
	return r.open(s.tripped(e, reason, sig), e, step, reason, sig)
}

func (s record) tripped(e event, reason string, sig signature.ID) record {
	s.TripsTotal++
	s.LastTrip = Trip{At: wall(e.now), Reason: reason, Signature: sig}
	return s
}

// open starts an opening of the given step.
func (r *rules) open(s record, e event, step time.Duration, reason string, sig signature.ID) record {
	s.OpenedAt, s.Cooldown = wall(e.now), step
	s.OpenFor = step + time.Duration(r.jitter*e.draw*float64(step))
	// A probe never goes out earlier than a server has asked.
	if hint := min(s.NotBefore.Sub(s.OpenedAt), r.maxHint); !s.NotBefore.IsZero() && hint > s.OpenFor {
		s.OpenFor = hint
	}
	s.clear()
	s.Probe, s.Ignored = lease{}, 0
	s.Reason, s.Signature = reason, sig
	s.State = Open
	s.Epoch++
	return s
}

// grant gives the one call of a half-open breaker to the asker.
func (r *rules) grant(s record, e event) record {
	s.Probe = lease{Token: e.token, Holder: e.holder, GrantedAt: wall(e.now), For: r.lease}
	s.State = HalfOpen
	s.Epoch++
	return s
}

// close forgets the opening, but not that there was one.
func (s *record) close() {
	s.clear()
	s.OpenedAt, s.OpenFor, s.Cooldown = time.Time{}, 0, 0
	s.Probe, s.Ignored = lease{}, 0
	s.Reason, s.Signature = "", ""
	s.State = Closed
	s.Epoch++
}

func (s *record) clear() {
	s.Failures, s.Counts, s.Daily, s.NotBefore = 0, nil, false, time.Time{}
}

// age is the time since an anchor of s, negative when a clock was set back.
func (s *record) age(anchor time.Time, e event) time.Duration {
	if e.seen.epoch == s.Epoch && e.seen.anchor.Equal(anchor) && e.seen.elapsed >= 0 {
		return e.seen.elapsed
	}
	return e.now.Sub(anchor)
}

// openFor and leaseFor bound what is stored by the longest this breaker would
// have stored itself, so that no record refuses for ever.
func (r *rules) openFor(s record) time.Duration { return min(s.OpenFor, r.longest()) }

func (r *rules) leaseFor(s record) time.Duration { return min(s.Probe.For, r.lease) }

func (r *rules) longest() time.Duration {
	return max(r.maxHint, r.maxCooldown+time.Duration(r.jitter*float64(r.maxCooldown)))
}

// double is the cooldown after one of d.
func (r *rules) double(d time.Duration) time.Duration {
	switch {
	case d <= 0:
		return r.cooldown
	case d > r.maxCooldown/2:
		return r.maxCooldown
	}
	return max(2*d, r.cooldown)
}

// step is the cooldown step of s, the base where it starts again.
func (s *record) step(r *rules) time.Duration {
	if s.Cooldown <= 0 {
		return r.cooldown
	}
	return min(s.Cooldown, r.maxCooldown)
}

// wall is t as it can be stored: no monotonic part, UTC.
func wall(t time.Time) time.Time { return t.Round(0).UTC() }
