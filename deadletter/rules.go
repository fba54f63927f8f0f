package deadletter

import (
	"cmp"
	"time"
)

// The rules that every store keeps, for those who write one. They are pure:
// they touch no store and nothing is shared with what they are given but the
// payload.

// Prepare returns r as a store keeps it at first, at the time now: texts valid
// and bounded, times set, the payload measured. The error is ErrTooLarge, with a
// payload above maxPayload bytes among others, or says what is missing.
func Prepare(r Record, maxPayload int64, now time.Time) (Record, error) {
	if err := (StoreConfig{MaxPayload: maxPayload}).fits(r); err != nil {
		return Record{}, err
	}
	return prepared(r, now), nil
}

// Merge returns what a store keeps when in, a record from [Prepare], comes for
// an item whose record old it holds: as old.State says, as one more failure or
// as the first of another life. The result is Claimed only if the claim goes on.
func Merge(old, in Record) Record { return merged(old.clone(), in) }

// Resolve returns what a store keeps of r, a Claimed record, when its claim ends
// at now. base is the state before the claim. The error names an unknown verb.
func Resolve(r Record, base State, o Outcome, now time.Time) (Record, error) {
	if err := o.check(); err != nil {
		return Record{}, err
	}
	r = r.clone()
	r.ClaimedBy, r.ClaimUntil = "", time.Time{}
	reason := clip(o.Reason, maxTemplate)
	switch o.Verb {
	case Release:
		r.State, r.Replays = cmp.Or(base, Dead), max(r.Replays-1, 0)
		return r, nil
	case Revive:
		r.State, r.Replays = Dead, 0
		return r, nil
	case Ack:
		r.State = Acked
	case Discard:
		r.State = Discarded
	case Quarantine:
		r.State = Quarantined
	case Return:
		r.State = Dead
	}
	if o.Verb == Return || o.Verb == Quarantine && !o.Failure.zero() {
		f := o.Failure
		if f.At.IsZero() {
			f.At = now
		}
		r = returned(r, f, r.State)
	}
	r.Reason = reason
	return r, nil
}

// Filled returns r with the defaults in place of zeros, or names every field
// that is out of range.
func (r ClaimReq) Filled() (ClaimReq, error) {
	if err := r.check(); err != nil {
		return ClaimReq{}, err
	}
	r.N = max(r.N, 1)
	return r.filled(), nil
}
