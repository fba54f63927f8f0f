package deadlettertest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
)

// Why: the plain way of every replay.
func (s *suite) claimAck() {
	s.put(deadletter.Record{ItemID: "a", Payload: []byte("p")})
	c := s.one()
	r := c.Record
	if string(r.Payload) != "p" || r.State != deadletter.Claimed || r.ClaimedBy != "me" || r.Replays != 1 ||
		!r.ClaimUntil.Equal(s.clk.Now().Add(time.Minute)) || r.ClaimSeq != c.Token.Seq {
		s.Errorf("claimed: %+v", r)
	}
	s.again()
	if c := s.claim(deadletter.ClaimReq{}); len(c) != 0 {
		s.Error("a claimed letter was handed out again")
	}
	s.resolve(c.Token, deadletter.Outcome{Verb: deadletter.Ack}, nil)
	s.again()
	s.resolve(c.Token, deadletter.Outcome{Verb: deadletter.Ack}, deadletter.ErrClaimLost)
	s.want(deadletter.Filter{}, "")
	s.want(deadletter.Filter{States: []deadletter.State{deadletter.Acked}}, "a")
	if err := s.s.Resolve(s.Context(), c.Token, deadletter.Outcome{}); err == nil || errors.Is(err, deadletter.ErrClaimLost) {
		s.Errorf("no verb: %v", err)
	}
}

// Why: rapina-rs/rapina#793 never handed out again what a dead worker held; and
// a worker that wakes up late must not decide over another's claim.
func (s *suite) lease() {
	s.put(deadletter.Record{ItemID: "a"})
	first := s.one()
	s.clk.Add(time.Minute)
	s.again()
	s.want(deadletter.Filter{States: []deadletter.State{deadletter.Dead}}, "a")
	second := s.one()
	if second.Token.Seq <= first.Token.Seq || second.Record.Replays != 2 {
		s.Errorf("second claim %+v after %+v", second.Token, first.Token)
	}
	for _, v := range []deadletter.Verb{deadletter.Ack, deadletter.Return, deadletter.Release, deadletter.Quarantine, deadletter.Discard} {
		s.resolve(first.Token, deadletter.Outcome{Verb: v}, deadletter.ErrClaimLost)
	}
	if err := s.s.Extend(s.Context(), first.Token, time.Minute); !errors.Is(err, deadletter.ErrClaimLost) {
		s.Errorf("extending a stale claim: %v", err)
	}
	// Late, but nobody else has it: the result counts.
	s.clk.Add(time.Hour)
	s.resolve(second.Token, deadletter.Outcome{Verb: deadletter.Ack}, nil)
}

// Why: a slow answer must not be sent twice.
func (s *suite) extend() {
	s.put(deadletter.Record{ItemID: "a"})
	c := s.one()
	s.clk.Add(50 * time.Second)
	if err := s.s.Extend(s.Context(), c.Token, time.Minute); err != nil {
		s.Fatal(err)
	}
	s.again()
	s.clk.Add(50 * time.Second)
	if c := s.claim(deadletter.ClaimReq{}); len(c) != 0 {
		s.Error("an extended claim was handed out")
	}
	s.clk.Add(10 * time.Second)
	s.one()
	if err := s.s.Extend(s.Context(), c.Token, -1); err == nil {
		s.Error("a negative lease was taken")
	}
}

// Why: the second failure is often another one than the first.
func (s *suite) giveBack() {
	s.put(deadletter.Record{ItemID: "a", Attempts: 4, Status: 503, Signature: "1:old", Payload: []byte("p"), URL: "u"})
	c := s.one()
	s.clk.Add(time.Second)
	s.resolve(c.Token, deadletter.Outcome{Verb: deadletter.Return, Failure: deadletter.Failure{
		Attempts: 2, Status: 400, Signature: "1:new", Err: "other", RetryAfter: s.clk.Now().Add(time.Hour),
	}}, nil)
	s.again()
	r := s.get("a")
	if r.State != deadletter.Dead || r.Status != 400 || r.Signature != "1:new" || r.Attempts != 2 || r.TotalCalls != 6 ||
		r.Replays != 1 || r.Failures != 2 || len(r.History) != 2 || !r.LastFailedAt.Equal(s.clk.Now()) || r.URL != "u" ||
		string(r.Payload) != "p" || r.ClaimedBy != "" || !r.RetryAfter.Equal(s.clk.Now().Add(time.Hour)) {
		s.Errorf("returned: %+v", r)
	}
	s.one()
}

// Why: what a breaker refused was not tried, and must not count.
func (s *suite) release() {
	s.put(deadletter.Record{ItemID: "a", Payload: []byte("p")})
	before := s.get("a")
	c := s.one()
	s.resolve(c.Token, deadletter.Outcome{Verb: deadletter.Release}, nil)
	s.again()
	after := s.get("a")
	after.ClaimSeq = before.ClaimSeq // the fence goes on
	if diff := cmp.Diff(after, before); diff != "" {
		s.Errorf("a released letter has changed: %s", diff)
	}
	if next := s.one(); next.Token.Seq <= c.Token.Seq {
		s.Error("the fencing number did not grow")
	}
}

// Why: a letter that fails every night needs a person, not another night.
func (s *suite) quarantine() {
	s.put(deadletter.Record{ItemID: "a", Status: 503, Payload: []byte("p")})
	c := s.one()
	s.resolve(c.Token, deadletter.Outcome{Verb: deadletter.Quarantine, Reason: "why", Failure: deadletter.Failure{Status: 400, Attempts: 1}}, nil)
	s.again()
	if c := s.claim(deadletter.ClaimReq{}); len(c) != 0 {
		s.Error("a quarantined letter was handed out")
	}
	if r := s.get("a"); r.State != deadletter.Quarantined || r.Reason != "why" || r.Status != 400 || string(r.Payload) != "p" {
		s.Errorf("quarantined: %+v", r)
	}
	s.want(deadletter.Filter{}, "a")
	f := deadletter.Filter{States: []deadletter.State{deadletter.Quarantined}}
	c = s.claim(deadletter.ClaimReq{Filter: f, Lease: time.Minute})[0]
	s.again()
	if c := s.claim(deadletter.ClaimReq{}); len(c) != 0 {
		s.Error("a claim of a quarantined letter was handed out")
	}
	s.clk.Add(time.Minute) // the claim ends in what was before
	s.want(f, "a")
	c = s.claim(deadletter.ClaimReq{Filter: f})[0]
	s.resolve(c.Token, deadletter.Outcome{Verb: deadletter.Release}, nil)
	s.again()
	s.want(f, "a")
	c = s.claim(deadletter.ClaimReq{Filter: f})[0]
	s.resolve(c.Token, deadletter.Outcome{Verb: deadletter.Quarantine, Reason: "still"}, nil)
	if r := s.get("a"); r.Reason != "still" || r.Failures != 2 {
		s.Errorf("quarantined without a failure: %+v", r)
	}
	c = s.claim(deadletter.ClaimReq{Filter: f})[0]
	s.resolve(c.Token, deadletter.Outcome{Verb: deadletter.Revive}, nil)
	s.again()
	if r := s.get("a"); r.State != deadletter.Dead || r.Replays != 0 || r.Failures != 2 || r.Status != 400 {
		s.Errorf("let out of quarantine: %+v", r)
	}
	s.one()
}

// Why: to give up is a decision with a reason.
func (s *suite) discard() {
	s.put(deadletter.Record{ItemID: "a"})
	s.resolve(s.one().Token, deadletter.Outcome{Verb: deadletter.Discard, Reason: "obsolete"}, nil)
	s.again()
	s.want(deadletter.Filter{}, "")
	if r := s.get("a"); r.State != deadletter.Discarded || r.Reason != "obsolete" {
		s.Errorf("discarded: %+v", r)
	}
}

// Why: an ack of the old request must not bury a new one.
func (s *suite) putOnClaim() {
	s.put(deadletter.Record{ItemID: "a", Payload: []byte("old")})
	c := s.one()
	s.put(deadletter.Record{ItemID: "a", Payload: []byte("old")})
	s.again()
	if r := s.get("a"); r.State != deadletter.Claimed || r.Failures != 2 {
		s.Errorf("the same payload: %+v", r)
	}
	s.put(deadletter.Record{ItemID: "a", Payload: []byte("new")})
	s.again()
	if r := s.get("a"); r.State != deadletter.Dead || string(r.Payload) != "new" || r.Replays != 0 || r.Failures != 3 {
		s.Errorf("another payload: %+v", r)
	}
	s.resolve(c.Token, deadletter.Outcome{Verb: deadletter.Ack}, deadletter.ErrClaimLost)
	s.want(deadletter.Filter{}, "a")
}

// Why: an item that was done and fails again is a new story, with new fences.
func (s *suite) putAfterAck() {
	s.put(deadletter.Record{ItemID: "a", Attempts: 4})
	old := s.one()
	s.resolve(old.Token, deadletter.Outcome{Verb: deadletter.Ack}, nil)
	s.again()
	s.clk.Add(time.Hour)
	s.put(deadletter.Record{ItemID: "a", Attempts: 1})
	r := s.get("a")
	if r.State != deadletter.Dead || r.Failures != 1 || r.TotalCalls != 1 || r.Replays != 0 || !r.FirstFailedAt.Equal(s.clk.Now()) {
		s.Errorf("a new life: %+v", r)
	}
	c := s.one()
	if c.Token.Seq <= old.Token.Seq {
		s.Error("the fencing number did not grow")
	}
	s.resolve(old.Token, deadletter.Outcome{Verb: deadletter.Ack}, deadletter.ErrClaimLost)
}

// Why: the first letter of a replay is a probe.
func (s *suite) cheapest() {
	s.put(deadletter.Record{ItemID: "dear", EstTokens: 9})
	s.put(deadletter.Record{ItemID: "long", EstTokens: 1, Payload: []byte("ppp")})
	s.put(deadletter.Record{ItemID: "cheap", EstTokens: 1, Payload: []byte("p")})
	s.again()
	var got []string
	for _, c := range s.claim(deadletter.ClaimReq{N: 2, Order: deadletter.Cheapest}) {
		got = append(got, c.Record.ItemID)
	}
	if diff := cmp.Diff(got, []string{"cheap", "long"}); diff != "" {
		s.Error(diff)
	}
}

// Why: a letter that is not due fails again, and is paid for.
func (s *suite) due() {
	s.put(deadletter.Record{ItemID: "a", RetryAfter: s.clk.Now().Add(time.Hour)})
	f := deadletter.Filter{Due: s.clk.Now()}
	if c := s.claim(deadletter.ClaimReq{Filter: f}); len(c) != 0 {
		s.Error("claimed before it is due")
	}
	s.clk.Add(time.Hour)
	f.Due = s.clk.Now()
	if c := s.claim(deadletter.ClaimReq{Filter: f}); len(c) != 1 {
		s.Error("not claimed when it is due")
	}
}

// Why: payloads are confidential, and stay only as long as they are of use.
func (s *suite) purge() {
	for _, item := range []string{"acked", "dead", "claimed"} {
		s.put(deadletter.Record{ItemID: item})
	}
	c := s.claim(deadletter.ClaimReq{Filter: deadletter.Filter{IDs: []string{deadletter.ID("q", "acked")}}})[0]
	s.resolve(c.Token, deadletter.Outcome{Verb: deadletter.Ack}, nil)
	s.claim(deadletter.ClaimReq{Filter: deadletter.Filter{IDs: []string{deadletter.ID("q", "claimed")}}})
	if n, err := s.s.Purge(s.Context(), deadletter.Filter{}); n != 1 || err != nil {
		s.Errorf("purged %d, %v; want the acked one", n, err)
	}
	s.again()
	if _, err := s.s.Get(s.Context(), deadletter.ID("q", "acked")); !errors.Is(err, deadletter.ErrNotFound) {
		s.Errorf("a purged letter: %v", err)
	}
	f := deadletter.Filter{States: []deadletter.State{deadletter.Dead, deadletter.Claimed}}
	if n, err := s.s.Purge(s.Context(), f); n != 1 || err != nil {
		s.Errorf("purged %d, %v; want the dead one and not the claimed", n, err)
	}
	s.again()
	s.want(deadletter.Filter{}, "claimed")
}

// Why: sidekiq/sidekiq#3436 ran the same job many times.
func (s *suite) manyClaimers() {
	const letters, claimers = 60, 8
	for i := range letters {
		s.put(deadletter.Record{ItemID: fmt.Sprint(i)})
	}
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for range claimers {
		wg.Go(func() {
			for {
				got, err := s.s.Claim(s.Context(), deadletter.ClaimReq{N: 3})
				if err != nil {
					s.Error(err)
				}
				if err != nil || len(got) == 0 {
					return
				}
				for _, c := range got {
					mu.Lock()
					seen[c.Record.ItemID]++
					mu.Unlock()
					if err := s.s.Resolve(s.Context(), c.Token, deadletter.Outcome{Verb: deadletter.Ack}); err != nil {
						s.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if len(seen) != letters {
		s.Errorf("%d letters were handed out, want %d", len(seen), letters)
	}
	for item, n := range seen {
		if n != 1 {
			s.Errorf("%s was handed out %d times", item, n)
		}
	}
}
