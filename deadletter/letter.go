package deadletter

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// letter is what a store keeps of a record at hand: what filters, claims and
// sums need. It is never changed once it is in an index, so a view of the
// index is a list of pointers.
type letter struct {
	id, queue, item, run, owner string
	sig, text                   string
	labels                      map[string]string
	state, from                 State // from: the state before the claim
	first, last, retry, until   time.Time
	failures, calls, replays    int
	attempts, status            int
	est, size, seq              int64
	hash, by, reason            string

	rec        *Record // Memory: the record
	head, body place   // Journal: where record and payload are written
}

// place is where a line stands, without its line feed, and how much of it is
// the part before the payload, with that part's checksum: so a List need not
// read payloads.
type place struct {
	seg  *segment
	off  int64
	n    int
	head int
	sum  uint32
}

func letterOf(r *Record, from State) *letter {
	return &letter{
		id: r.ID, queue: r.Queue, item: r.ItemID, run: r.RunID, owner: r.Owner,
		sig: r.Signature, text: r.SignatureText, labels: r.Labels,
		state: r.State, from: from,
		first: r.FirstFailedAt, last: r.LastFailedAt, retry: r.RetryAfter, until: r.ClaimUntil,
		failures: r.Failures, calls: r.TotalCalls, replays: r.Replays,
		attempts: r.Attempts, status: r.Status,
		est: r.EstTokens, size: r.PayloadSize, seq: r.ClaimSeq,
		hash: r.PayloadHash, by: r.ClaimedBy, reason: r.Reason,
	}
}

// overlay writes into r what may have changed since r was written.
func (l *letter) overlay(r *Record, now time.Time) {
	r.State, r.Replays, r.Reason = l.at(now), l.replays, l.reason
	r.ClaimedBy, r.ClaimSeq, r.ClaimUntil = l.by, l.seq, l.until
	if r.State != Claimed {
		r.ClaimedBy, r.ClaimUntil = "", time.Time{}
	}
}

// at returns the state at now: a claim ends with its lease.
func (l *letter) at(now time.Time) State {
	if l.state == Claimed && !l.until.After(now) {
		return cmp.Or(l.from, Dead)
	}
	return l.state
}

// The default states of a filter.
var (
	unresolved = []State{Dead, Claimed, Quarantined}
	resolved   = []State{Acked, Discarded}
	all        = []State{Dead, Claimed, Quarantined, Acked, Discarded}
)

// match reports whether l is chosen by f.
func (f *Filter) match(l *letter, states []State, now time.Time) bool {
	if len(f.States) > 0 {
		states = f.States
	}
	switch {
	case f.Queue != "" && f.Queue != l.queue,
		f.Signature != "" && f.Signature != l.sig,
		f.Owner != "" && f.Owner != l.owner,
		f.RunID != "" && f.RunID != l.run,
		!f.Since.IsZero() && l.last.Before(f.Since),
		!f.Until.IsZero() && l.last.After(f.Until),
		!f.Due.IsZero() && l.retry.After(f.Due),
		len(f.Statuses) > 0 && !slices.Contains(f.Statuses, l.status),
		len(f.IDs) > 0 && !slices.Contains(f.IDs, l.id),
		!slices.Contains(states, l.at(now)):
		return false
	}
	for k, v := range f.Labels {
		if got, ok := l.labels[k]; !ok || got != v {
			return false
		}
	}
	return f.After == (Cursor{}) || compare(l.last, l.id, f.After.FailedAt, f.After.ID) > 0
}

func compare(at time.Time, id string, at2 time.Time, id2 string) int {
	if c := at.Compare(at2); c != 0 {
		return c
	}
	return strings.Compare(id, id2)
}

func byAge(a, b *letter) int { return compare(a.last, a.id, b.last, b.id) }

func byCost(a, b *letter) int {
	return cmp.Or(cmp.Compare(a.est, b.est), cmp.Compare(a.size, b.size), byAge(a, b))
}

// index is the letters of a store.
type index struct {
	letters map[string]*letter
	seq     int64             // the highest claim number given
	texts   map[string]string // one copy of each text that many letters share
	live    int64             // bytes of the lines that unresolved letters need

	// For claims: the unresolved letters in either order, as they were when
	// they were sorted last, and those that changed since. What letters does
	// not hold any more is stale in them.
	sorted bool
	order  [2][]*letter // by Order
	fresh  []*letter
}

func newIndex() *index {
	return &index{letters: map[string]*letter{}, texts: map[string]string{}}
}

// share replaces the texts of l that are likely to come again.
func (ix *index) share(l *letter) {
	for _, s := range []*string{&l.queue, &l.run, &l.owner, &l.sig, &l.text, &l.by} {
		if t, ok := ix.texts[*s]; ok {
			*s = t
			continue
		}
		if len(ix.texts) < 1<<16 {
			ix.texts[*s] = strings.Clone(*s)
		}
	}
}

// set keeps l, or forgets id when l is nil.
func (ix *index) set(id string, l *letter) {
	ix.live -= ix.letters[id].bytes()
	ix.live += l.bytes()
	if l == nil {
		delete(ix.letters, id)
		return
	}
	ix.share(l)
	ix.letters[id] = l
	ix.seq = max(ix.seq, l.seq)
	switch {
	case !ix.sorted || l.state.resolved():
	case len(ix.fresh) > len(ix.letters)+1024:
		// Many changes and no claim: sort when one comes.
		ix.sorted, ix.order, ix.fresh = false, [2][]*letter{}, nil
	default:
		ix.fresh = append(ix.fresh, l)
	}
}

// first calls fn for letters that a claim may take, in the given order as far
// as they were sorted, until fn has taken n of them, and then for all that
// changed since.
func (ix *index) first(o Order, n int, fn func(*letter) bool) {
	if !ix.sorted || len(ix.fresh) > max(64, len(ix.order[o])/32) {
		list := make([]*letter, 0, len(ix.letters))
		for _, l := range ix.letters {
			if !l.state.resolved() {
				list = append(list, l)
			}
		}
		ix.order = [2][]*letter{Oldest: list, Cheapest: slices.Clone(list)}
		slices.SortFunc(ix.order[Oldest], byAge)
		slices.SortFunc(ix.order[Cheapest], byCost)
		ix.sorted, ix.fresh = true, nil
	}
	list := ix.order[o]
	for len(list) > 0 && ix.letters[list[0].id] != list[0] {
		list = list[1:]
	}
	ix.order[o] = list
	for _, l := range list {
		if n > 0 && ix.letters[l.id] == l && fn(l) {
			n--
		}
		if n == 0 {
			break
		}
	}
	for _, l := range ix.fresh {
		if ix.letters[l.id] == l {
			fn(l)
		}
	}
}

func (l *letter) bytes() int64 {
	if l == nil || l.state.resolved() {
		return 0
	}
	if l.head == l.body {
		return int64(l.head.n)
	}
	return int64(l.head.n) + int64(l.body.n)
}

// find returns the letters that match, in the order of List.
func (ix *index) find(f Filter, states []State, now time.Time) []*letter {
	var out []*letter
	if len(f.IDs) > 0 {
		for _, id := range f.IDs {
			if l := ix.letters[id]; l != nil && f.match(l, states, now) && !slices.Contains(out, l) {
				out = append(out, l)
			}
		}
	} else {
		for _, l := range ix.letters {
			if f.match(l, states, now) {
				out = append(out, l)
			}
		}
	}
	slices.SortFunc(out, byAge)
	if f.Limit > 0 && len(out) > f.Limit {
		out = out[:f.Limit]
	}
	return out
}

// sum returns what Stats tells.
func (ix *index) sum(f Filter, now time.Time) Summary {
	s := Summary{States: map[State]int{}, Queues: map[string]map[State]int{}, Statuses: map[int]int{}}
	groups := map[string]*Group{}
	samples := map[string]*letter{}
	f.After, f.Limit = Cursor{}, 0
	for _, l := range ix.letters {
		if !f.match(l, all, now) {
			continue
		}
		st := l.at(now)
		s.States[st]++
		if s.Queues[l.queue] == nil {
			s.Queues[l.queue] = map[State]int{}
		}
		s.Queues[l.queue][st]++
		if st.resolved() {
			continue
		}
		s.Statuses[l.status]++
		s.Bytes += l.size
		s.EstTokens += l.est
		if s.Oldest.IsZero() || l.first.Before(s.Oldest) {
			s.Oldest = l.first
		}
		g := groups[l.sig]
		if g == nil {
			g = &Group{Signature: l.sig, First: l.first, Last: l.last}
			groups[l.sig] = g
		}
		g.Count++
		g.Bytes += l.size
		g.EstTokens += l.est
		if l.first.Before(g.First) {
			g.First = l.first
		}
		g.Last = latest(g.Last, l.last)
		if best := samples[l.sig]; best == nil || byAge(l, best) < 0 {
			samples[l.sig] = l
			g.Sample, g.Text = l.id, l.text
		}
	}
	s.Groups = make([]Group, 0, len(groups))
	for _, g := range groups {
		s.Groups = append(s.Groups, *g)
	}
	slices.SortFunc(s.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Signature, b.Signature))
	})
	return s
}
