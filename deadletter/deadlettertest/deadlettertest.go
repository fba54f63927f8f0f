// Package deadlettertest checks that a dead-letter store keeps the contract of
// deadletter.Store. Every store of the module passes it; run it against your
// own from a test:
//
//	func TestStore(t *testing.T) {
//		deadlettertest.Run(t, func(t *testing.T, clk deadletter.Clock) deadlettertest.Opened { ... })
//	}
//
// It does not check durability against crashes, which needs the store's own
// means, nor speed.
package deadlettertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
)

// Opened is a store under test.
type Opened struct {
	Store deadletter.Store
	// Reopen closes the store and opens what it has kept. nil = the store ends
	// with the process.
	Reopen func() deadletter.Store
	// MaxPayload is the largest payload the store takes; 0 = DefaultMaxPayload.
	MaxPayload int
	// Letters is how many letters the largest check stores; 0 = 12,000.
	Letters int
}

// Run runs every check as a subtest. open makes an empty store that tells the
// time by clk.
func Run(t *testing.T, open func(t *testing.T, clk deadletter.Clock) Opened) {
	for _, c := range []struct {
		name string
		fn   func(*suite)
	}{
		{"put and get", (*suite).putGet},
		{"payloads", (*suite).payloads},
		{"hostile text", (*suite).hostileText},
		{"too large", (*suite).tooLarge},
		{"upsert", (*suite).upsert},
		{"one item from many", (*suite).upsertMany},
		{"history is bounded", (*suite).history},
		{"list order and pages", (*suite).pages},
		{"filter", (*suite).filter},
		{"stats", (*suite).stats},
		{"claim and ack", (*suite).claimAck},
		{"lease and fence", (*suite).lease},
		{"extend", (*suite).extend},
		{"return", (*suite).giveBack},
		{"release", (*suite).release},
		{"quarantine", (*suite).quarantine},
		{"discard", (*suite).discard},
		{"put on a claim", (*suite).putOnClaim},
		{"put after ack", (*suite).putAfterAck},
		{"cheapest", (*suite).cheapest},
		{"not before", (*suite).due},
		{"purge", (*suite).purge},
		{"one claimer each", (*suite).manyClaimers},
		{"nothing shared", (*suite).aliasing},
		{"contexts", (*suite).contexts},
		{"no silent cap", (*suite).many},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := clock.NewMock()
			o := open(t, clk)
			if o.MaxPayload == 0 {
				o.MaxPayload = deadletter.DefaultMaxPayload
			}
			if o.Letters == 0 {
				o.Letters = 12_000
			}
			c.fn(&suite{T: t, s: o.Store, reopen: o.Reopen, max: o.MaxPayload, letters: o.Letters, clk: clk})
		})
	}
}

type suite struct {
	*testing.T
	s      deadletter.Store
	reopen func() deadletter.Store
	max    int
	clk    *clock.Mock

	letters int
}

// again gives the store back after a restart, if it outlives one.
func (s *suite) again() {
	if s.reopen != nil {
		s.s = s.reopen()
	}
}

func (s *suite) put(r deadletter.Record) {
	s.Helper()
	if r.Queue == "" {
		r.Queue = "q"
	}
	if err := s.s.Put(s.Context(), r); err != nil {
		s.Fatalf("put %s: %v", r.ItemID, err)
	}
}

func (s *suite) get(item string) deadletter.Record {
	s.Helper()
	r, err := s.s.Get(s.Context(), deadletter.ID("q", item))
	if err != nil {
		s.Fatalf("get %s: %v", item, err)
	}
	return r
}

func (s *suite) items(f deadletter.Filter) string {
	s.Helper()
	var out []string
	for r, err := range s.s.List(s.Context(), f) {
		if err != nil {
			s.Fatal(err)
		}
		if r.Payload != nil {
			s.Errorf("List yields the payload of %s", r.ItemID)
		}
		out = append(out, r.ItemID)
	}
	return strings.Join(out, " ")
}

func (s *suite) want(f deadletter.Filter, items string) {
	s.Helper()
	if got := s.items(f); got != items {
		s.Errorf("filter %+v lists %q, want %q", f, got, items)
	}
}

func (s *suite) claim(req deadletter.ClaimReq) []deadletter.Claim {
	s.Helper()
	c, err := s.s.Claim(s.Context(), req)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// one claims the only letter there is.
func (s *suite) one() deadletter.Claim {
	s.Helper()
	c := s.claim(deadletter.ClaimReq{N: 10, By: "me", Lease: time.Minute})
	if len(c) != 1 {
		s.Fatalf("%d letters claimed, want 1", len(c))
	}
	return c[0]
}

func (s *suite) resolve(t deadletter.Token, o deadletter.Outcome, want error) {
	s.Helper()
	if err := s.s.Resolve(s.Context(), t, o); !errors.Is(err, want) {
		s.Errorf("resolve by %v: %v, want %v", o.Verb, err, want)
	}
}

// Why: a field that a store forgets is missing on the day of the replay.
func (s *suite) putGet() {
	at := time.Unix(1700000000, 123456000).UTC()
	r := deadletter.Record{
		Queue: "q", ItemID: "a", RunID: "run", LastFailedAt: at, Attempts: 4, Status: 503, Signature: "1:0123456789ab",
		SignatureText: "overloaded", ErrType: "*x.Error", Err: "overloaded", RetryAfter: at.Add(time.Hour), UpstreamRequestID: "up",
		Method: "POST", URL: "https://x/y?z=1", Header: map[string][]string{"Accept": {"a", "b"}}, Owner: "me", EstTokens: 7,
		Labels: map[string]string{"k": "v"}, Payload: []byte("payload"),
	}
	s.put(r)
	s.again()
	want := r
	want.V, want.ID, want.State, want.Failures, want.TotalCalls = 1, deadletter.ID("q", "a"), deadletter.Dead, 1, 4
	want.FirstFailedAt, want.PayloadSize = at, 7
	want.PayloadHash = "239f59ed55e737c77147cf55ad0c1b030b6d7ee748a7426952f9b852d5a935e5"
	want.History = []deadletter.Failure{{At: at, Attempts: 4, Status: 503, Signature: "1:0123456789ab"}}
	got := s.get("a")
	if diff := cmp.Diff(got, want); diff != "" {
		s.Error(diff)
	}
	for _, u := range []time.Time{got.FirstFailedAt, got.LastFailedAt, got.RetryAfter} {
		if u.Location() != time.UTC {
			s.Errorf("a time came back in %v", u.Location())
		}
	}
	if _, err := s.s.Get(s.Context(), "none"); !errors.Is(err, deadletter.ErrNotFound) {
		s.Errorf("a missing letter: %v", err)
	}
	if err := s.s.Put(s.Context(), deadletter.Record{Queue: "q"}); err == nil {
		s.Error("a record without an item was kept")
	}
}

// Why: elastic/logstash#10881 cut entries at 64 KiB.
func (s *suite) payloads() {
	for _, n := range []int{0, 1, 32767, 32768, 32769, 65535, 65536, 65537, 1<<20 + 1} {
		if n > s.max {
			continue
		}
		s.put(deadletter.Record{ItemID: fmt.Sprint(n), Payload: pattern(n)})
	}
	s.again()
	for r, err := range s.s.List(s.Context(), deadletter.Filter{}) {
		if err != nil {
			s.Fatal(err)
		}
		whole := s.get(r.ItemID)
		var n int
		if _, err := fmt.Sscan(r.ItemID, &n); err != nil {
			s.Fatal(err)
		}
		if !bytes.Equal(whole.Payload, pattern(n)) || r.PayloadSize != int64(n) {
			s.Errorf("payload of %d bytes came back with %d, said %d", n, len(whole.Payload), r.PayloadSize)
		}
	}
}

func pattern(n int) []byte {
	return bytes.Repeat([]byte("\x00\xff\n\r\"\\'<\xe2\x80\xa8"), n/11+1)[:n]
}

// Why: what fails a batch is often text that nobody expected.
func (s *suite) hostileText() {
	for i, text := range []string{"\x00", "a\nb", `"',\`, "<script>", "\u202etxt", "日本", "🙂", "a ", "A", "a"} {
		item := fmt.Sprint(i, text)
		s.put(deadletter.Record{ItemID: item, Err: text, Labels: map[string]string{text: text}, Owner: text})
		s.again()
		if r := s.get(item); r.Err != text || r.Labels[text] != text || r.Owner != text || r.ItemID != item {
			s.Errorf("%q came back as %q", text, r.Err)
		}
	}
	s.put(deadletter.Record{ItemID: "invalid", Err: "a\xffb"})
	if r := s.get("invalid"); r.Err != "a\uFFFDb" {
		s.Errorf("invalid UTF-8 came back as %q", r.Err)
	}
}

// Why: half a payload cannot be replayed, so it must not look stored.
func (s *suite) tooLarge() {
	r := deadletter.Record{Queue: "q", ItemID: "a", Payload: make([]byte, s.max+1)}
	if err := s.s.Put(s.Context(), r); !errors.Is(err, deadletter.ErrTooLarge) {
		s.Errorf("above the limit: %v, want ErrTooLarge", err)
	}
	r.Payload, r.Labels = nil, map[string]string{"k": strings.Repeat("x", 1<<20)}
	if err := s.s.Put(s.Context(), r); !errors.Is(err, deadletter.ErrTooLarge) {
		s.Errorf("1 MiB of label: %v, want ErrTooLarge", err)
	}
	s.want(deadletter.Filter{}, "")
}

// Why: mafintosh/sqs#41 stored one item again at each failure.
func (s *suite) upsert() {
	first := s.clk.Now().UTC()
	for i := range 3 {
		s.put(deadletter.Record{ItemID: "a", Attempts: 2, Status: 500 + i, Payload: []byte("p")})
		s.clk.Add(time.Hour)
		s.again()
	}
	r := s.get("a")
	if r.Failures != 3 || r.TotalCalls != 6 || r.Status != 502 || !r.FirstFailedAt.Equal(first) ||
		!r.LastFailedAt.Equal(first.Add(2*time.Hour)) || len(r.History) != 3 {
		s.Errorf("after three failures: %+v", r)
	}
	s.put(deadletter.Record{Queue: "other", ItemID: "a"})
	if n := len(strings.Fields(s.items(deadletter.Filter{}))); n != 2 {
		s.Errorf("%d letters, want one per queue", n)
	}
}

// Why: failures that come at the same moment must not overwrite each other.
func (s *suite) upsertMany() {
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := s.s.Put(s.Context(), deadletter.Record{Queue: "q", ItemID: "a", Attempts: 1, Payload: []byte("p")}); err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	s.again()
	if r := s.get("a"); r.Failures != 20 || r.TotalCalls != 20 || len(r.History) != 10 || string(r.Payload) != "p" {
		s.Errorf("after twenty failures at once: %+v", r)
	}
}

// Why: an item that fails every night must not grow for ever.
func (s *suite) history() {
	for i := range 12 {
		s.put(deadletter.Record{ItemID: "a", Status: 400 + i})
	}
	r := s.get("a")
	if len(r.History) != 10 || r.History[9].Status != 411 || r.History[0].Status != 402 || r.Failures != 12 {
		s.Errorf("history after twelve failures: %+v", r.History)
	}
}

// Why: pages that repeat or skip letters make people replay the wrong ones.
func (s *suite) pages() {
	base := s.clk.Now()
	for i, at := range []int{5, 3, 3, 1, 4} {
		s.put(deadletter.Record{ItemID: fmt.Sprint("i", i), LastFailedAt: base.Add(time.Duration(at) * time.Second)})
	}
	s.again()
	all := strings.Fields(s.items(deadletter.Filter{}))
	if len(all) != 5 || all[0] != "i3" || all[3] != "i4" || all[4] != "i0" {
		s.Fatalf("order %v", all)
	}
	var got []string
	f := deadletter.Filter{Limit: 2}
	for {
		n := 0
		for r, err := range s.s.List(s.Context(), f) {
			if err != nil {
				s.Fatal(err)
			}
			got = append(got, r.ItemID)
			f.After = r.Cursor()
			n++
		}
		if n == 0 {
			break
		}
	}
	if diff := cmp.Diff(got, all); diff != "" {
		s.Error(diff)
	}
	for range s.s.List(s.Context(), deadletter.Filter{}) {
		break // leaving early must leave nothing locked
	}
	s.put(deadletter.Record{ItemID: "after"})
}

// Why: a replay of the wrong letters is paid for.
func (s *suite) filter() {
	at := s.clk.Now()
	s.put(deadletter.Record{ItemID: "a", Signature: "1:a", Status: 500, Owner: "x", Labels: map[string]string{"k": "1", "l": ""}, LastFailedAt: at, RunID: "r1"})
	s.put(deadletter.Record{ItemID: "b", Signature: "1:b", Status: 0, Owner: "y", Labels: map[string]string{"k": "2"}, LastFailedAt: at.Add(time.Second)})
	s.put(deadletter.Record{Queue: "p", ItemID: "c", Signature: "1:a", Status: 400, LastFailedAt: at.Add(2 * time.Second), RetryAfter: at.Add(time.Hour)})
	s.again()
	for _, c := range []struct {
		f    deadletter.Filter
		want string
	}{
		{deadletter.Filter{}, "a b c"},
		{deadletter.Filter{Queue: "q"}, "a b"},
		{deadletter.Filter{Queue: "none"}, ""},
		{deadletter.Filter{Signature: "1:a"}, "a c"},
		{deadletter.Filter{Statuses: []int{0}}, "b"},
		{deadletter.Filter{Statuses: []int{500, 400}}, "a c"},
		{deadletter.Filter{Owner: "x"}, "a"},
		{deadletter.Filter{RunID: "r1"}, "a"},
		{deadletter.Filter{Labels: map[string]string{"k": "2"}}, "b"},
		{deadletter.Filter{Labels: map[string]string{"l": ""}}, "a"},
		{deadletter.Filter{Labels: map[string]string{"k": "1", "m": ""}}, ""},
		{deadletter.Filter{Since: at.Add(time.Second)}, "b c"},
		{deadletter.Filter{Until: at.Add(time.Second)}, "a b"},
		{deadletter.Filter{Due: at.Add(time.Minute)}, "a b"},
		{deadletter.Filter{IDs: []string{deadletter.ID("q", "b"), deadletter.ID("q", "b"), "none"}}, "b"},
		{deadletter.Filter{States: []deadletter.State{deadletter.Acked}}, ""},
		{deadletter.Filter{Limit: 1}, "a"},
	} {
		s.want(c.f, c.want)
	}
}

// Why: the groups are what a person looks at first.
func (s *suite) stats() {
	at := s.clk.Now().UTC()
	for i := range 5 {
		sig := "1:many"
		if i == 4 {
			sig = "1:few"
		}
		s.put(deadletter.Record{
			ItemID: fmt.Sprint(i), Signature: sig, SignatureText: "text of " + sig, Status: 500, EstTokens: 10,
			LastFailedAt: at.Add(time.Duration(i) * time.Second), Payload: []byte("12345"),
		})
	}
	c := s.claim(deadletter.ClaimReq{Filter: deadletter.Filter{IDs: []string{deadletter.ID("q", "3")}}})
	s.resolve(c[0].Token, deadletter.Outcome{Verb: deadletter.Ack}, nil)
	s.claim(deadletter.ClaimReq{Filter: deadletter.Filter{IDs: []string{deadletter.ID("q", "2")}}})
	s.again()
	got, err := s.s.Stats(s.Context(), deadletter.Filter{})
	if err != nil {
		s.Fatal(err)
	}
	got.Disk = 0
	want := deadletter.Summary{
		States:   map[deadletter.State]int{deadletter.Dead: 3, deadletter.Claimed: 1, deadletter.Acked: 1},
		Statuses: map[int]int{500: 4}, Bytes: 20, EstTokens: 40, Oldest: at,
		Groups: []deadletter.Group{
			{Signature: "1:many", Text: "text of 1:many", Count: 3, First: at, Last: at.Add(2 * time.Second), Sample: deadletter.ID("q", "0"), Bytes: 15, EstTokens: 30},
			{Signature: "1:few", Text: "text of 1:few", Count: 1, First: at.Add(4 * time.Second), Last: at.Add(4 * time.Second), Sample: deadletter.ID("q", "4"), Bytes: 5, EstTokens: 10},
		},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		s.Error(diff)
	}
	if n := got.Letters(deadletter.Dead, deadletter.Claimed); n != 4 || got.Letters() != 5 {
		s.Errorf("Letters counts %d and %d", n, got.Letters())
	}
}

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

// Why: a caller's later change must not reach the store, nor the other way.
func (s *suite) aliasing() {
	r := deadletter.Record{ItemID: "a", Payload: []byte("p"), Labels: map[string]string{"k": "v"}, Header: map[string][]string{"Accept": {"x"}}}
	s.put(r)
	r.Payload[0], r.Labels["k"], r.Header["Accept"][0] = 'x', "changed", "changed"
	got := s.get("a")
	if string(got.Payload) != "p" || got.Labels["k"] != "v" || got.Header.Get("Accept") != "x" {
		s.Errorf("a change after Put reached the store: %+v", got)
	}
	got.Payload[0], got.Labels["k"], got.Header["Accept"][0], got.History[0].Status = 'x', "changed", "changed", 999
	if again := s.get("a"); string(again.Payload) != "p" || again.Labels["k"] != "v" || again.Header.Get("Accept") != "x" || again.History[0].Status == 999 {
		s.Errorf("a change after Get reached the store: %+v", again)
	}
}

// Why: a store must not begin what nobody waits for.
func (s *suite) contexts() {
	s.put(deadletter.Record{ItemID: "a"})
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	var errs []error
	errs = append(errs, s.s.Put(ctx, deadletter.Record{Queue: "q", ItemID: "b"}))
	_, err := s.s.Get(ctx, deadletter.ID("q", "a"))
	errs = append(errs, err)
	_, err = s.s.Stats(ctx, deadletter.Filter{})
	errs = append(errs, err)
	_, err = s.s.Claim(ctx, deadletter.ClaimReq{})
	errs = append(errs, err)
	_, err = s.s.Purge(ctx, deadletter.Filter{})
	errs = append(errs, err)
	for _, lerr := range s.s.List(ctx, deadletter.Filter{}) {
		err = lerr
	}
	errs = append(errs, err)
	for i, err := range errs {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("call %d with an ended context: %v", i, err)
		}
	}
	s.want(deadletter.Filter{}, "a")
}

// Why: hibiken/asynq#803 hid all archived tasks beyond 10,000.
func (s *suite) many() {
	n := s.letters
	work := make(chan int)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for i := range work {
				if err := s.s.Put(s.Context(), deadletter.Record{Queue: "q", ItemID: fmt.Sprint(i)}); err != nil {
					s.Error(err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	s.again()
	if got := len(strings.Fields(s.items(deadletter.Filter{}))); got != n {
		s.Errorf("%d letters listed, want %d", got, n)
	}
	claimed := 0
	for {
		c := s.claim(deadletter.ClaimReq{N: 1000})
		if len(c) == 0 {
			break
		}
		claimed += len(c)
	}
	if claimed != n {
		s.Errorf("%d letters claimed, want %d", claimed, n)
	}
}
