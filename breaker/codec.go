package breaker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nightfuse/nightfuse/signature"
)

// recordVersion is the version of the stored form. A higher one is not read:
// guessing what it means could close a breaker that is open.
const recordVersion = 1

// stored is the form of a record in a store, for people to read as well.
type stored struct {
	V     int    `json:"v"`
	Name  string `json:"name"`
	State State  `json:"state"`

	Epoch uint64 `json:"epoch"`

	Reason    string       `json:"reason,omitempty"`
	Signature signature.ID `json:"signature,omitempty"`
	OpenedAt  time.Time    `json:"opened_at,omitzero"`
	OpenFor   span         `json:"open_for,omitzero"`
	Cooldown  span         `json:"cooldown,omitzero"`
	Probe     *storedLease `json:"probe,omitempty"`
	Ignored   int          `json:"ignored_probes,omitempty"`

	Failures  int        `json:"failures,omitempty"`
	Counts    []sigCount `json:"signatures,omitempty"`
	NotBefore time.Time  `json:"not_before,omitzero"`
	Daily     bool       `json:"daily_quota,omitempty"`

	ClosedAt     time.Time `json:"closed_at,omitzero"`
	LastCooldown span      `json:"last_cooldown,omitzero"`

	TripsTotal uint64 `json:"trips_total"`
	LastTrip   *Trip  `json:"last_trip,omitempty"`
}

type storedLease struct {
	Token     string    `json:"token"`
	Holder    string    `json:"holder,omitempty"`
	GrantedAt time.Time `json:"granted_at"`
	For       span      `json:"lease"`
}

// span is a duration as text: "30s".
type span time.Duration

func (d span) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *span) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = span(v)
	return err
}

// encode returns the stored form of s.
func encode(name string, s record) ([]byte, error) {
	out := stored{
		V: recordVersion, Name: name, State: s.State, Epoch: s.Epoch,
		Reason: s.Reason, Signature: s.Signature, OpenedAt: s.OpenedAt, OpenFor: span(s.OpenFor),
		Cooldown: span(s.Cooldown), Ignored: s.Ignored,
		Failures: s.Failures, Counts: s.Counts, NotBefore: s.NotBefore, Daily: s.Daily,
		ClosedAt: s.ClosedAt, LastCooldown: span(s.LastCooldown),
		TripsTotal: s.TripsTotal,
	}
	if s.Probe != (lease{}) {
		out.Probe = &storedLease{s.Probe.Token, s.Probe.Holder, s.Probe.GrantedAt, span(s.Probe.For)}
	}
	if s.LastTrip != (Trip{}) {
		out.LastTrip = &s.LastTrip
	}
	b, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("breaker: encode state: %w", err)
	}
	return append(b, '\n'), nil
}

// decode reads what encode wrote. Whatever else it meets is damage: an error,
// never a closed breaker.
func decode(b []byte) (record, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	var in stored
	if err := dec.Decode(&in); err != nil {
		return record{}, fmt.Errorf("breaker: stored state is not readable: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return record{}, errors.New("breaker: stored state goes on after its end")
	}
	s := record{
		Epoch: in.Epoch, State: in.State,
		Failures: in.Failures, Counts: in.Counts, NotBefore: in.NotBefore.UTC(), Daily: in.Daily,
		Cooldown: time.Duration(in.Cooldown), OpenedAt: in.OpenedAt.UTC(), OpenFor: time.Duration(in.OpenFor),
		ClosedAt: in.ClosedAt.UTC(), LastCooldown: time.Duration(in.LastCooldown),
		Ignored: in.Ignored, Reason: in.Reason, Signature: in.Signature, TripsTotal: in.TripsTotal,
	}
	if p := in.Probe; p != nil {
		s.Probe = lease{p.Token, p.Holder, p.GrantedAt.UTC(), time.Duration(p.For)}
	}
	if in.LastTrip != nil {
		s.LastTrip = *in.LastTrip
		s.LastTrip.At = s.LastTrip.At.UTC()
	}
	switch {
	case in.V != recordVersion:
		return record{}, fmt.Errorf("breaker: stored state has version %d, this program reads %d", in.V, recordVersion)
	case s.Failures < 0 || s.Ignored < 0 || s.OpenFor < 0 || s.Cooldown < 0 || s.LastCooldown < 0 || s.Probe.For < 0,
		len(s.Counts) > maxSignatures, s.State == Open && s.OpenedAt.IsZero(),
		s.Probe.Token != "" && s.State != HalfOpen:
		return record{}, errors.New("breaker: stored state contradicts itself")
	}
	return s, nil
}
