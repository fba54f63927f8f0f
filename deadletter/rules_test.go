package deadletter_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
)

// What Prepare, Merge and Resolve tell other stores is what the package's own
// stores do.
func TestRulesAreThoseOfTheStores(t *testing.T) {
	t.Parallel()
	failure := deadletter.Failure{Attempts: 2, Status: 400, Err: "a\xffb", Signature: "1:x"}
	for _, o := range []deadletter.Outcome{
		{Verb: deadletter.Ack},
		{Verb: deadletter.Ack, Reason: "by hand"},
		{Verb: deadletter.Return, Failure: failure},
		{Verb: deadletter.Return, Failure: deadletter.Failure{At: time.Unix(1, 0)}},
		{Verb: deadletter.Release},
		{Verb: deadletter.Quarantine, Reason: strings.Repeat("\xff", 2000)},
		{Verb: deadletter.Quarantine, Reason: "why", Failure: failure},
		{Verb: deadletter.Discard, Reason: "obsolete"},
		{Verb: deadletter.Revive},
	} {
		for _, base := range []deadletter.State{deadletter.Dead, deadletter.Quarantined} {
			clk := clock.NewMock()
			m, err := deadletter.StoreConfig{Clock: clk}.Memory()
			if err != nil {
				t.Fatal(err)
			}
			in := deadletter.Record{Queue: "q", ItemID: "a\xff", Attempts: 3, Payload: []byte("p"), Labels: map[string]string{"k": "v"}}
			var want deadletter.Record
			for i := range 2 {
				next, err := deadletter.Prepare(in, 1, clk.Now())
				if err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					next = deadletter.Merge(want, next)
				}
				want = next
				if err := m.Put(t.Context(), in); err != nil {
					t.Fatal(err)
				}
				clk.Add(time.Hour)
			}
			kept(t, m, want)
			if base == deadletter.Quarantined {
				claim := claimed(t, m, deadletter.Dead)
				if err := m.Resolve(t.Context(), claim.Token, deadletter.Outcome{Verb: deadletter.Quarantine}); err != nil {
					t.Fatal(err)
				}
			}
			claim := claimed(t, m, base)
			if err := m.Resolve(t.Context(), claim.Token, o); err != nil {
				t.Fatal(err)
			}
			want, err = deadletter.Resolve(claim.Record, base, o, clk.Now())
			if err != nil {
				t.Fatal(err)
			}
			kept(t, m, want)
		}
	}
}

func kept(t *testing.T, s deadletter.Store, want deadletter.Record) {
	t.Helper()
	got, err := s.Get(t.Context(), want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}

func claimed(t *testing.T, s deadletter.Store, st deadletter.State) deadletter.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), deadletter.ClaimReq{Filter: deadletter.Filter{States: []deadletter.State{st}}})
	if err != nil || len(c) != 1 {
		t.Fatalf("claimed %d letters, %v", len(c), err)
	}
	return c[0]
}

// What is out of range is refused before a store is touched.
// Of keys that look alike when they are cleaned the last one counts in every
// store, not the one that a map happens to give last; of headers, all values.
func TestKeysThatBecomeOne(t *testing.T) {
	t.Parallel()
	in := deadletter.Record{
		Queue: "q", ItemID: "i",
		Labels: map[string]string{"\xff": "last", "\xfe": "second", "\ufffd": "first", "k": "v"},
		Header: http.Header{"\xff": {"4"}, "\xfe": {"2", "3"}, "\ufffd": {"1"}},
	}
	sent := deadletter.Record{ID: "id", Method: "GET", URL: "http://model.test/", Header: http.Header{"X-A": {"1"}, "X-a": {"2"}, "x-A": {"3"}, "x-a": {"4"}}}
	var got http.Header
	sender := deadletter.HTTPSender{Client: &http.Client{Transport: rounds(func(req *http.Request) (*http.Response, error) {
		got = req.Header
		return answer(200, goodAnswer), nil
	})}}
	for range 20 {
		r, err := deadletter.Prepare(in, 1, time.Unix(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r.Labels, map[string]string{"\ufffd": "last", "k": "v"}); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(r.Header, http.Header{"\ufffd": {"1", "2", "3", "4"}}); diff != "" {
			t.Fatal(diff)
		}
		if err := sender.Send(t.Context(), sent); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got["X-A"], []string{"1", "2", "3", "4"}); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestRulesRefuse(t *testing.T) {
	t.Parallel()
	r := deadletter.Record{Queue: "q", ItemID: "a", Payload: []byte("pp")}
	if _, err := deadletter.Prepare(r, 1, time.Time{}); !errors.Is(err, deadletter.ErrTooLarge) {
		t.Errorf("a payload above the limit: %v", err)
	}
	if _, err := deadletter.Resolve(r, deadletter.Dead, deadletter.Outcome{Verb: deadletter.Revive + 1}, time.Time{}); err == nil {
		t.Error("an unknown verb was taken")
	}
	if _, err := (deadletter.ClaimReq{N: -1, Lease: -1, Order: 9}).Filled(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three fields out of range: %v", err)
	}
	got, err := deadletter.ClaimReq{By: "me"}.Filled()
	if diff := cmp.Diff(got, deadletter.ClaimReq{N: 1, By: "me", Lease: 10 * time.Minute}); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
