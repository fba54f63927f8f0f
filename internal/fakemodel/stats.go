package fakemodel

import (
	"maps"
	"time"
)

// Stats is what a Model has counted, a copy.
type Stats struct {
	Calls    int          // all that arrived
	Status   map[int]int  // answers by HTTP status; 0 = the caller left before, or the call hung
	Fates    map[Fate]int // what became of the calls, decided when they arrive
	Rejected int          // refused by Limits, the quota included

	Items map[string]Item // by Call.Item; malformed requests and wrong keys are no item's
	Users map[string]User // by user, "" = unnamed

	InFlight    int // now at the upstream: until the headers, for a stream until its end
	MaxInFlight int
	OpenBodies  int // handed out by RoundTrip and not yet closed
	// PeakPerSecond is the largest number of arrivals within less than a
	// second.
	PeakPerSecond int
	First, Last   time.Time // arrivals

	// Tokens is what has been billed, prompt and completion: for every answer
	// under 200 that is no error object, also if the caller left before it
	// came.
	Tokens int64
}

// Item is what became of an item.
type Item struct {
	Prompt   string
	Calls    int   // all of them
	Attempts int   // those that passed the limits
	OK       int   // those with FateOK
	Last     Fate  // of the call that came last
	Tokens   int64 // billed
}

// User is what a user did.
type User struct {
	Calls, OK int
	Rejected  int // refused by Limits, the quota included
	Tokens    int64
}

// Prompt returns the item with that last user message; the zero Item if none
// was seen. If several share it, it returns one of them.
func (s Stats) Prompt(text string) Item {
	for _, it := range s.Items {
		if it.Prompt == text {
			return it
		}
	}
	return Item{}
}

// Stats returns a snapshot.
func (m *Model) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.count
	return Stats{
		Calls: c.calls, Status: maps.Clone(c.status), Fates: maps.Clone(c.fates),
		Rejected: c.fates[FateLimit] + c.fates[FateQuota],
		Items:    maps.Clone(c.items), Users: maps.Clone(c.users),
		InFlight: c.inFlight, MaxInFlight: c.maxInFlight, OpenBodies: c.openBodies,
		PeakPerSecond: c.peak, First: c.first, Last: c.last, Tokens: c.tokens,
	}
}

// counters are Stats in the making, guarded by Model.mu.
type counters struct {
	calls                             int
	status                            map[int]int
	fates                             map[Fate]int
	items                             map[string]Item
	users                             map[string]User
	inFlight, maxInFlight, openBodies int
	recent                            []time.Time // arrivals of the last second
	peak                              int
	first, last                       time.Time
	tokens                            int64
}

func newCounters() counters {
	return counters{
		status: make(map[int]int), fates: make(map[Fate]int),
		items: make(map[string]Item), users: make(map[string]User),
	}
}

func (c *counters) arrived(now time.Time, user string) {
	if c.calls == 0 {
		c.first = now
	}
	c.calls++
	c.last = now
	c.inFlight++
	c.maxInFlight = max(c.maxInFlight, c.inFlight)
	gone := 0
	for gone < len(c.recent) && now.Sub(c.recent[gone]) >= time.Second {
		gone++
	}
	c.recent = append(c.recent[gone:], now)
	c.peak = max(c.peak, len(c.recent))
	u := c.users[user]
	u.Calls++
	c.users[user] = u
}

func (c *counters) decided(fate Fate, r *request, user string, billed int64) {
	c.fates[fate]++
	c.tokens += billed
	u := c.users[user]
	u.Tokens += billed
	switch fate {
	case FateOK:
		u.OK++
	case FateLimit, FateQuota:
		u.Rejected++
	}
	c.users[user] = u
	if r == nil {
		return
	}
	it := c.items[r.Item]
	it.Prompt, it.Last = r.Prompt, fate
	it.Calls++
	it.Attempts = max(it.Attempts, r.Attempt)
	it.Tokens += billed
	if fate == FateOK {
		it.OK++
	}
	c.items[r.Item] = it
}
