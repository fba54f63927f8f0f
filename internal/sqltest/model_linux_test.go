package sqltest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
)

// hostile are texts that databases, their protocols or their collations are
// known to change, cut or refuse.
var hostile = []string{
	"", "a", "A", "a ", "a\x00", "\x00", "a\x00b", "\xff", "a\xffb", "\xed\xa0\x80", "'", "''", `\`, `\'`, `"`, "`", "?", "$1", ":x", "%", "_", "%s",
	"\n", "\r\n", "\x1a", "\\x00", "\\000", "-- x", "/*", ";", "é", "e\u0301", "ß", "ss", "日本", "🙂", "\ufeff", "\u202e", "\ufffd", "null", "NULL", "0x41",
	"'); DROP TABLE letters; --",
}

// model holds a store against the one in memory, which says what is right.
type model struct {
	*testing.T
	rng  *rand.Rand
	clk  *clock.Mock
	a    *sqlstore.Store
	b    *deadletter.Memory
	held [][2]deadletter.Token // the same claims in both
	ids  []string
}

var noSeq = cmpopts.IgnoreFields(deadletter.Record{}, "ClaimSeq") // each store has its own numbers

func (m *model) text() string {
	s := hostile[m.rng.IntN(len(hostile))]
	if m.rng.IntN(4) == 0 {
		s += hostile[m.rng.IntN(len(hostile))]
	}
	return s
}

func (m *model) when() time.Time {
	if m.rng.IntN(4) == 0 {
		return time.Time{}
	}
	return m.clk.Now().Add(time.Duration(m.rng.Int64N(int64(4*time.Hour))) - 2*time.Hour).Add(time.Duration(m.rng.IntN(3)) * 499)
}

func (m *model) failure() deadletter.Failure {
	return deadletter.Failure{
		At: m.when(), Attempts: m.rng.IntN(5), Status: []int{0, 400, 503, 1 << 30}[m.rng.IntN(4)], Signature: m.text(), SignatureText: m.text(),
		ErrType: m.text(), Err: m.text(), RetryAfter: m.when(), UpstreamRequestID: m.text(),
	}
}

func (m *model) record() deadletter.Record {
	f := m.failure()
	r := deadletter.Record{
		Queue: "q" + hostile[m.rng.IntN(2)], ItemID: "i" + m.item(), RunID: m.text(), LastFailedAt: m.when(), FirstFailedAt: m.when(),
		Attempts: f.Attempts, Status: f.Status, Signature: f.Signature, SignatureText: f.SignatureText, ErrType: f.ErrType,
		Err: f.Err, RetryAfter: f.RetryAfter, UpstreamRequestID: f.UpstreamRequestID,
		Method: m.text(), URL: m.text(), Owner: m.text(), EstTokens: int64(m.rng.IntN(3)),
		Payload: bytes.Repeat([]byte{byte(m.rng.IntN(2)), 0, '\'', '\\', 0xff}, []int{0, 0, 1, 1, 300_000}[m.rng.IntN(5)]),
	}
	if m.rng.IntN(2) == 0 {
		r.Labels = map[string]string{m.text(): m.text(), m.text(): m.text()}
		r.Header = http.Header{m.text(): {m.text(), m.text()}}
	}
	if m.rng.IntN(8) == 0 {
		r.ID = "id" + m.text()
	}
	return r
}

// item is often one that is there, so that letters have long lives.
func (m *model) item() string {
	if m.rng.IntN(4) > 0 {
		return hostile[1+m.rng.IntN(5)]
	}
	return hostile[m.rng.IntN(len(hostile))]
}

// near is a time at which a letter failed, or less than a microsecond beside it.
func (m *model) near() time.Time {
	if len(m.ids) > 0 && m.rng.IntN(2) == 0 {
		if r, err := m.b.Get(m.Context(), m.ids[m.rng.IntN(len(m.ids))]); err == nil {
			return r.LastFailedAt.Add(time.Duration(m.rng.IntN(3)-1) * 300)
		}
	}
	return m.when()
}

func (m *model) filter() deadletter.Filter {
	states := []deadletter.State{deadletter.Dead, deadletter.Claimed, deadletter.Quarantined, deadletter.Acked, deadletter.Discarded, "no state\x00"}
	var f deadletter.Filter
	some := func() bool { return m.rng.IntN(6) == 0 }
	if some() {
		f.Queue = "q" + hostile[m.rng.IntN(2)]
	}
	for range m.rng.IntN(3) {
		f.States = append(f.States, states[m.rng.IntN(len(states))])
	}
	if some() && len(m.ids) > 0 {
		f.IDs = []string{m.ids[m.rng.IntN(len(m.ids))], m.ids[m.rng.IntN(len(m.ids))], "none"}
	}
	if some() {
		f.Signature = m.text()
	}
	if some() {
		f.Statuses = []int{0, 503}
	}
	if some() {
		f.Owner = m.text()
	}
	if some() {
		f.RunID = m.text()
	}
	if some() {
		f.Labels = map[string]string{m.text(): m.text()}
	}
	for _, t := range []*time.Time{&f.Since, &f.Until, &f.Due} {
		if some() {
			*t = m.near()
		}
	}
	if some() {
		f.After = deadletter.Cursor{FailedAt: m.near(), ID: []string{"", "zz"}[m.rng.IntN(2)]}
		if len(m.ids) > 0 && m.rng.IntN(2) == 0 {
			f.After.ID = m.ids[m.rng.IntN(len(m.ids))]
		}
	}
	if some() {
		f.Limit = 1 + m.rng.IntN(5)
	}
	return f
}

func (m *model) same(what string, a, b error) {
	m.Helper()
	for _, is := range []error{deadletter.ErrNotFound, deadletter.ErrClaimLost, deadletter.ErrTooLarge} {
		if errors.Is(a, is) != errors.Is(b, is) {
			m.Fatalf("%s: %v, want %v", what, a, b)
		}
	}
	if (a == nil) != (b == nil) {
		m.Fatalf("%s: %v, want %v", what, a, b)
	}
}

func (m *model) diff(what string, got, want any) {
	m.Helper()
	if d := cmp.Diff(got, want, noSeq, cmp.Comparer(bytes.Equal)); d != "" {
		m.Fatalf("%s: %s", what, d)
	}
}

func (m *model) step() {
	ctx := m.Context()
	switch m.rng.IntN(9) {
	case 0, 1, 2:
		r := m.record()
		m.same("put", m.a.Put(ctx, r), m.b.Put(ctx, r))
		if p, err := deadletter.Prepare(r, deadletter.DefaultMaxPayload, m.clk.Now()); err == nil {
			m.ids = append(m.ids, p.ID)
		}
	case 3:
		req := deadletter.ClaimReq{
			N: m.rng.IntN(4), By: m.text(), Lease: time.Duration(m.rng.IntN(3)) * time.Hour, Filter: m.filter(),
			Order: deadletter.Order(m.rng.IntN(2)),
		}
		a, aerr := m.a.Claim(ctx, req)
		b, berr := m.b.Claim(ctx, req)
		m.same("claim", aerr, berr)
		m.diff(fmt.Sprintf("claim by %+v", req), records(a), records(b))
		for i := range a {
			m.held = append(m.held, [2]deadletter.Token{a[i].Token, b[i].Token})
		}
	case 4, 5:
		if len(m.held) == 0 {
			return
		}
		tok := m.held[m.rng.IntN(len(m.held))] // perhaps lost, perhaps resolved
		o := deadletter.Outcome{Verb: deadletter.Verb(1 + m.rng.IntN(6)), Reason: m.text()}
		if m.rng.IntN(2) == 0 {
			o.Failure = m.failure()
		}
		m.same(fmt.Sprint("resolve by ", o.Verb), m.a.Resolve(ctx, tok[0], o), m.b.Resolve(ctx, tok[1], o))
	case 6:
		if len(m.held) > 0 {
			tok := m.held[m.rng.IntN(len(m.held))]
			m.same("extend", m.a.Extend(ctx, tok[0], time.Hour), m.b.Extend(ctx, tok[1], time.Hour))
		}
	case 7:
		if m.rng.IntN(3) == 0 {
			f := m.filter()
			a, aerr := m.a.Purge(ctx, f)
			b, berr := m.b.Purge(ctx, f)
			m.same("purge", aerr, berr)
			m.diff("purged", a, b)
		}
	default:
		m.clk.Add(time.Duration(m.rng.IntN(90)) * time.Minute)
	}
}

func records(claims []deadletter.Claim) (list []deadletter.Record) {
	for _, c := range claims {
		list = append(list, c.Record)
	}
	return list
}

func (m *model) look() {
	f := m.filter()
	lists := map[string][]deadletter.Record{}
	for name, s := range map[string]deadletter.Store{"a": m.a, "b": m.b} {
		for r, err := range s.List(m.Context(), f) {
			if err != nil {
				m.Fatal(err)
			}
			lists[name] = append(lists[name], r)
		}
	}
	m.diff(fmt.Sprintf("list by %+v", f), lists["a"], lists["b"])
	sa, aerr := m.a.Stats(m.Context(), f)
	sb, berr := m.b.Stats(m.Context(), f)
	m.same("stats", aerr, berr)
	m.diff(fmt.Sprintf("stats of %+v", f), sa, sb)
	if len(m.ids) > 0 {
		id := m.ids[m.rng.IntN(len(m.ids))]
		a, aerr := m.a.Get(m.Context(), id)
		b, berr := m.b.Get(m.Context(), id)
		m.same("get", aerr, berr)
		m.diff("get", a, b)
	}
}

// Why: SQL has a hundred ways to be almost the same. Any text in any field must
// come back as from the other stores, and every filter choose the same.
func TestLikeMemory(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, b database) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		m := &model{T: t, rng: rand.New(rand.NewPCG(seed, 0)), clk: clock.NewMock()}
		m.clk.Set(time.Unix(1_700_000_000, 123_456_789))
		m.a = b.store(t, m.clk)
		var err error
		if m.b, err = (deadletter.StoreConfig{Clock: m.clk}).Memory(); err != nil {
			t.Fatal(err)
		}
		for range 500 {
			m.step()
			m.look()
		}
		// Every payload belongs to a letter, and to one.
		want := 0
		for _, id := range m.ids {
			if r, err := m.b.Get(t.Context(), id); err == nil && len(r.Payload) > 0 {
				want++
			}
		}
		var got int
		err = b.connect(t).QueryRowContext(t.Context(), "SELECT count(DISTINCT id) FROM "+b.table+"_payload").Scan(&got)
		if err != nil || got > want {
			t.Errorf("%d payloads for at most %d letters, %v", got, want, err)
		}
	})
}

// Why: what the model meets too seldom.
func TestCorners(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, b database) {
		clk := clock.NewMock()
		s := b.store(t, clk)
		at := time.Unix(1_700_000_000, 5000)
		for _, id := range []string{"a", "b"} {
			if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ID: id, LastFailedAt: at, Payload: []byte("p")}); err != nil {
				t.Fatal(err)
			}
		}
		// Behind a place that is a part of a microsecond later is neither.
		for place, want := range map[time.Duration]string{-1: "ab", 0: "b", 1: ""} {
			var got strings.Builder
			for r, err := range s.List(t.Context(), deadletter.Filter{After: deadletter.Cursor{FailedAt: at.Add(place), ID: "a"}}) {
				if err != nil {
					t.Fatal(err)
				}
				got.WriteString(r.ID)
			}
			if got.String() != want {
				t.Errorf("behind %d ns: %q, want %q", place, got.String(), want)
			}
		}
		// A claim of a quarantined letter goes on when the same item fails, and
		// ends in quarantine.
		f := deadletter.Filter{IDs: []string{"a"}, States: []deadletter.State{deadletter.Dead, deadletter.Quarantined}}
		for range 2 {
			c, err := s.Claim(t.Context(), deadletter.ClaimReq{Filter: f, Lease: time.Hour})
			if err != nil || len(c) != 1 {
				t.Fatal(len(c), err)
			}
			if c[0].Record.Replays == 1 {
				err = s.Resolve(t.Context(), c[0].Token, deadletter.Outcome{Verb: deadletter.Quarantine})
			} else {
				err = s.Put(t.Context(), deadletter.Record{Queue: "q", ID: "a", Payload: []byte("p")})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		clk.Add(time.Hour)
		if r, err := s.Get(t.Context(), "a"); err != nil || r.State != deadletter.Quarantined || r.Failures != 2 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
