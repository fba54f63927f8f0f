package deadlettertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
)

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
		Queues:   map[string]map[deadletter.State]int{"q": {deadletter.Dead: 3, deadletter.Claimed: 1, deadletter.Acked: 1}},
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
