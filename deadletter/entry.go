package deadletter

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// The operations of a journal. Every entry says what is so after it, never
// what to add, so reading one twice changes nothing.
const (
	opBase       = "base" // first in a compacted segment: earlier segments no longer count
	opPut        = "put"
	opClaim      = "claim"
	opExtend     = "extend"
	opReturn     = "return"
	opRelease    = "release"
	opAck        = "ack"
	opDiscard    = "discard"
	opQuarantine = "quarantine"
	opPurge      = "purge"
)

// entry is one change of one letter.
type entry struct {
	V       int       `json:"v"`
	Op      string    `json:"op"`
	At      time.Time `json:"at"`
	ID      string    `json:"id,omitempty"`
	By      string    `json:"by,omitempty"`
	Seq     int64     `json:"seq,omitempty"` // of a base: the highest claim number given
	Until   time.Time `json:"until,omitzero"`
	Replays int       `json:"replays,omitempty"`
	From    State     `json:"from,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Rec     *Record   `json:"rec,omitempty"` // without payload
}

// next returns the letter after e, nil when there is none. old may be nil. at
// is where e stands. A change of a letter that is not there (its line was
// damaged) is no letter.
func (e *entry) next(old *letter, at place) *letter {
	if e.Op == opPut {
		l := letterOf(e.Rec, e.From)
		l.head, l.body = at, at
		return l
	}
	if old == nil {
		return nil
	}
	l := *old
	if e.Rec != nil {
		l = *letterOf(e.Rec, "")
		l.head, l.body = at, old.body
		l.seq = max(l.seq, old.seq)
		return &l
	}
	switch e.Op {
	case opClaim:
		l.state, l.from = Claimed, e.From
		l.by, l.seq, l.until, l.replays = e.By, e.Seq, e.Until, e.Replays
	case opExtend:
		l.until = e.Until
	case opRelease:
		l.state, l.from, l.replays = cmp.Or(e.From, Dead), "", e.Replays
		l.by, l.until = "", time.Time{}
	case opAck, opDiscard, opQuarantine:
		l.state = map[string]State{opAck: Acked, opDiscard: Discarded, opQuarantine: Quarantined}[e.Op]
		l.from, l.reason, l.by, l.until = "", e.Reason, "", time.Time{}
	case opPurge:
		return nil
	}
	return &l
}

// tx is a run of changes on top of an index that is not changed by it. It is
// used by one goroutine.
type tx struct {
	ix   *index
	over map[string]*letter // what is so after the changes; nil = gone
	seq  int64
	now  time.Time

	// load reads the record of a letter, without the payload.
	load func(*letter) (Record, error)
	// write notes an entry and says where it stands. line is its text when it
	// has been made before, payload the text of the payload.
	write func(e *entry, line, payload []byte) (place, error)

	done []undo // what the change in hand has done
}

// undo is how one letter was before a change.
type undo struct {
	id  string
	was *letter
	had bool // over had it
}

// run makes one change whole or not at all. A panic of fn is its error.
func (t *tx) run(fn func(*tx) error) (err error) {
	t.done = t.done[:0]
	seq := t.seq
	whole := false
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("deadletter: panic in a change: %v", p)
		}
		if !whole {
			for _, u := range slices.Backward(t.done) {
				if u.had {
					t.over[u.id] = u.was
				} else {
					delete(t.over, u.id)
				}
			}
			t.seq = seq
		}
	}()
	err = fn(t)
	whole = err == nil
	return err
}

func (t *tx) get(id string) *letter {
	if l, ok := t.over[id]; ok {
		return l
	}
	return t.ix.letters[id]
}

func (t *tx) emit(e *entry, line, payload []byte) error {
	e.V, e.At = 1, norm(t.now)
	at, err := t.write(e, line, payload)
	if err != nil {
		return err
	}
	l := e.next(t.get(e.ID), at)
	if l != nil && e.Rec != nil && at.seg == nil {
		l.rec = e.Rec
	}
	was, had := t.over[e.ID]
	t.done = append(t.done, undo{id: e.ID, was: was, had: had})
	t.over[e.ID] = l
	return nil
}

// each calls fn for every letter as it is after the changes so far.
func (t *tx) each(fn func(*letter)) {
	for id, l := range t.ix.letters {
		if len(t.over) > 0 {
			if _, ok := t.over[id]; ok {
				continue
			}
		}
		fn(l)
	}
	for _, l := range t.over {
		if l != nil {
			fn(l)
		}
	}
}

// put keeps r, which is prepared. line and payload are the texts of r as a
// letter that was not there.
func (t *tx) put(r Record, line, payload []byte) error {
	old := t.get(r.ID)
	if old == nil {
		return t.emit(&entry{Op: opPut, ID: r.ID, Rec: &r}, line, payload)
	}
	was, err := t.load(old)
	if err != nil {
		// What is left of it goes on; only the history is gone with the line.
		was = Record{FirstFailedAt: old.first, LastFailedAt: old.last, Failures: old.failures, TotalCalls: old.calls, PayloadHash: old.hash}
	}
	was.State, was.Replays, was.Reason = old.state, old.replays, old.reason
	was.ClaimedBy, was.ClaimSeq, was.ClaimUntil = old.by, old.seq, old.until
	m := merged(was, r)
	e := &entry{Op: opPut, ID: r.ID, Rec: &m}
	if m.State == Claimed {
		e.From = old.from
	}
	return t.emit(e, nil, payload)
}

// claim hands out letters and returns them.
func (t *tx) claim(req ClaimReq) ([]*letter, error) {
	n := max(req.N, 1)
	f := req.Filter
	f.After, f.Limit = Cursor{}, 0
	less := byAge
	if req.Order == Cheapest {
		less = byCost
	}
	best := newTop(n, less)
	look := func(l *letter) bool {
		at := l.at(t.now)
		if at == Claimed || at.resolved() || !f.match(l, []State{Dead}, t.now) {
			return false
		}
		best.add(l)
		return true
	}
	if len(f.IDs) > 0 {
		for _, id := range f.IDs {
			if l := t.get(id); l != nil {
				look(l)
			}
		}
	} else {
		t.ix.first(req.Order, n, func(l *letter) bool {
			_, changed := t.over[l.id]
			return !changed && look(l)
		})
		for _, l := range t.over {
			if l != nil {
				look(l)
			}
		}
	}
	until := norm(t.now.Add(req.Lease))
	out := make([]*letter, 0, len(best.items))
	for _, l := range best.sorted() {
		if last := len(out) - 1; last >= 0 && out[last].id == l.id {
			continue
		}
		t.seq++
		e := &entry{Op: opClaim, ID: l.id, By: req.By, Seq: t.seq, Until: until, Replays: l.replays + 1, From: l.at(t.now)}
		if err := t.emit(e, nil, nil); err != nil {
			return nil, err
		}
		out = append(out, t.get(l.id))
	}
	return out, nil
}

// held returns the letter of a claim that is live.
func (t *tx) held(tok Token) (*letter, error) {
	l := t.get(tok.ID)
	// A lease that ran out is still the claimer's as long as nobody else has
	// taken the letter: his result is the better one.
	if l == nil || l.state != Claimed || l.seq != tok.Seq {
		return nil, ErrClaimLost
	}
	return l, nil
}

func (t *tx) extend(tok Token, d time.Duration) error {
	l, err := t.held(tok)
	if err != nil {
		return err
	}
	return t.emit(&entry{Op: opExtend, ID: l.id, Until: norm(t.now.Add(d))}, nil, nil)
}

func (t *tx) resolve(tok Token, o Outcome) error {
	l, err := t.held(tok)
	if err != nil {
		return err
	}
	e := &entry{Op: o.Verb.String(), ID: l.id, Reason: clip(o.Reason, maxTemplate)}
	switch {
	case o.Verb == Release:
		e.From, e.Replays = l.from, max(l.replays-1, 0)
	case o.Verb == Revive:
		e.Op, e.From = opRelease, Dead
	case o.Verb == Return, o.Verb == Quarantine && !o.Failure.zero():
		r, err := t.load(l)
		if err != nil {
			return err
		}
		l.overlay(&r, time.Time{})
		f, to := o.Failure, Dead
		if f.At.IsZero() {
			f.At = t.now
		}
		if o.Verb == Quarantine {
			to = Quarantined
		}
		r = returned(r, f, to)
		r.Reason = e.Reason
		e.Rec, e.Reason = &r, ""
	}
	return t.emit(e, nil, nil)
}

// zero reports whether nothing but the time is said.
func (f Failure) zero() bool {
	f.At = time.Time{}
	return f == Failure{}
}

func (t *tx) purge(f Filter) (int, error) {
	f.After, f.Limit = Cursor{}, 0
	var gone []*letter
	t.each(func(l *letter) {
		if l.at(t.now) != Claimed && f.match(l, resolved, t.now) {
			gone = append(gone, l)
		}
	})
	for _, l := range gone {
		if err := t.emit(&entry{Op: opPurge, ID: l.id}, nil, nil); err != nil {
			return 0, err
		}
	}
	return len(gone), nil
}
