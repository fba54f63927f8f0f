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
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

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
