// Package breakertest checks that a breaker.Store keeps its contract: call Run
// from a test of the store's own package.
//
// It does not measure, does not kill processes and does not cut the power; a
// store that promises more than the contract tests that itself.
package breakertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
)

// Open returns two handles of one new, empty store, as two processes would have
// them. They may be the same value if the store lives in one process only.
// Whatever must be closed goes into t.Cleanup.
type Open func(t *testing.T) (a, b breaker.Store)

// Run runs every case as a subtest, each on a store of its own.
func Run(t *testing.T, open Open) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, b := open(t)
			if a == nil || b == nil {
				t.Fatal("breakertest: open returned no store")
			}
			t.Log("because", c.why)
			c.run(t, a, b)
		})
	}
}

var cases = []struct {
	name string
	why  string
	run  func(t *testing.T, a, b breaker.Store)
}{
	{"missing is nil", "nothing stored means closed, and an empty value means damage: they must differ", missing},
	{"round trip", "the other process must read the same bytes, whatever they are", roundTrip},
	{"equal writes nothing", "a breaker reads through Update and must not wear out the disk", equalBytes},
	{"error of fn", "a breaker refuses to overwrite what it cannot read", errorOfFn},
	{"names are exact", "api.x.com and API.x.com are two upstreams", names},
	{"bad names are refused", "a name that is cut or folded would merge two upstreams", badNames},
	{"slices are not shared", "fn may change what it was given, and reuse what it returned", slices},
	{"no update is lost", "32 failures in several processes must count as 32", counter},
	{"ended context", "a caller with no time left must not be held up", endedContext},
	{"sequence numbers", "another process's trip is seen by its number alone", sequence},
	{"one probe", "of all processes one call may find out whether the upstream works", oneProbe},
}

const name = "breakertest"

// get reads the value of a name.
func get(t *testing.T, s breaker.Store, name string) []byte {
	t.Helper()
	var got []byte
	if err := s.Update(t.Context(), name, func(old []byte) ([]byte, error) {
		got = nil
		if old != nil {
			got = append([]byte{}, old...)
		}
		return old, nil
	}); err != nil {
		t.Fatalf("Update(%q) that changes nothing: %v", name, err)
	}
	return got
}

func put(t *testing.T, s breaker.Store, name string, value []byte) {
	t.Helper()
	if err := s.Update(t.Context(), name, func([]byte) ([]byte, error) { return value, nil }); err != nil {
		t.Fatalf("Update(%q): %v", name, err)
	}
}

func missing(t *testing.T, a, b breaker.Store) {
	if got := get(t, a, name); got != nil {
		t.Fatalf("before the first write old is %q, want nil", got)
	}
	if got := get(t, b, name); got != nil {
		t.Fatalf("after a look that wrote nothing old is %q, want nil", got)
	}
	put(t, a, name, []byte("x"))
	put(t, a, name, []byte{})
	if got := get(t, b, name); got == nil || len(got) != 0 {
		t.Fatalf("an empty value came back as %#v, want []byte{}", got)
	}
}

func roundTrip(t *testing.T, a, b breaker.Store) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, value := range [][]byte{
		[]byte(`{"v":1}`), all, make([]byte, 100), bytes.Repeat([]byte("0123456789abcdef"), 64<<10/16), []byte("short again"),
	} {
		put(t, a, name, value)
		if got := get(t, b, name); !bytes.Equal(got, value) {
			t.Fatalf("stored %d bytes, read %d others", len(value), len(got))
		}
	}
}

func equalBytes(t *testing.T, a, b breaker.Store) {
	numbers, ok := a.(breaker.Sequencer)
	seq := func() uint64 {
		if !ok {
			return 0
		}
		n, err := numbers.Seq(name)
		if err != nil {
			t.Fatalf("Seq: %v", err)
		}
		return n
	}
	get(t, a, name) // nil for nil
	put(t, a, name, []byte("value"))
	before := seq()
	put(t, b, name, []byte("value"))
	get(t, a, name)
	if after := seq(); after != before {
		t.Fatalf("equal bytes were written: sequence number %d, then %d", before, after)
	}
	if got := get(t, b, name); string(got) != "value" {
		t.Fatalf("value is %q after writing equal bytes", got)
	}
}

func errorOfFn(t *testing.T, a, b breaker.Store) {
	put(t, a, name, []byte("value"))
	mine := errors.New("breakertest: mine")
	err := b.Update(t.Context(), name, func([]byte) ([]byte, error) { return []byte("other"), mine })
	if !errors.Is(err, mine) {
		t.Fatalf("Update returned %v, want fn's own error", err)
	}
	if got := get(t, a, name); string(got) != "value" {
		t.Fatalf("fn's error did not keep %q from being written", got)
	}
}

func names(t *testing.T, a, b breaker.Store) {
	all := []string{
		"api.x.com", "API.x.com", "api.x.com ", " api.x.com", "api.x.com.", "api/x/com", "api%x", "api%25x", "..", "CON", "a:b", "a*b?",
		`a"b'c\d`, strings.Repeat("n", 199) + "1", strings.Repeat("n", 199) + "2", strings.Repeat("/", 199) + "1", strings.Repeat("/", 199) + "2",
	}
	for i, n := range all {
		put(t, a, n, []byte(strconv.Itoa(i)))
	}
	for i, n := range all {
		if got := string(get(t, b, n)); got != strconv.Itoa(i) {
			t.Errorf("name %q holds the value of name number %s, want its own, %d", n, got, i)
		}
	}
}

func badNames(t *testing.T, a, _ breaker.Store) {
	for _, n := range []string{"", strings.Repeat("n", 201), "caf\u00e9", "a\nb", "a\x00b", "\x7f"} {
		if err := a.Update(t.Context(), n, func([]byte) ([]byte, error) { return []byte("x"), nil }); err == nil {
			t.Errorf("name %q was taken", n)
		}
	}
}

func slices(t *testing.T, a, b breaker.Store) {
	value := []byte("value")
	put(t, a, name, value)
	copy(value, "XXXXX")
	mine := errors.New("breakertest: mine")
	_ = a.Update(t.Context(), name, func(old []byte) ([]byte, error) {
		copy(old, "YYYYY")
		return nil, mine
	})
	for _, s := range []breaker.Store{a, b} {
		if got := get(t, s, name); string(got) != "value" {
			t.Fatalf("the stored value became %q without a write", got)
		}
	}
}

func counter(t *testing.T, a, b breaker.Store) {
	const goroutines, each = 16, 10
	var wg sync.WaitGroup
	for i := range goroutines {
		s := a
		if i%2 == 1 {
			s = b
		}
		wg.Go(func() {
			for range each {
				err := s.Update(t.Context(), name, func(old []byte) ([]byte, error) {
					n := 0
					if old != nil {
						var err error
						if n, err = strconv.Atoi(string(old)); err != nil {
							return nil, err
						}
					}
					return []byte(strconv.Itoa(n + 1)), nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, want := string(get(t, a, name)), strconv.Itoa(goroutines*each); got != want {
		t.Fatalf("%s of %s updates arrived", got, want)
	}
}

func endedContext(t *testing.T, a, b breaker.Store) {
	put(t, a, name, []byte("value"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Update(ctx, name, func([]byte) ([]byte, error) { return []byte("late"), nil }); err == nil {
		t.Fatal("Update with an ended context returned nil")
	}
	put(t, b, name, []byte("works"))
}

func sequence(t *testing.T, a, b breaker.Store) {
	numbers, ok := b.(breaker.Sequencer)
	if !ok {
		t.Skip("the store is no Sequencer, which is optional")
	}
	seen := map[uint64]bool{}
	for i := range 5 {
		n, err := numbers.Seq(name)
		if err != nil {
			t.Fatalf("Seq: %v", err)
		}
		if again, _ := numbers.Seq(name); again != n {
			t.Fatalf("Seq is %d, then %d with nothing written", n, again)
		}
		if seen[n] {
			t.Fatalf("sequence number %d came back", n)
		}
		seen[n] = true
		put(t, a, name, []byte{byte('0' + i%2)})
	}
	before, _ := numbers.Seq(name)
	put(t, a, name+"2", []byte("x"))
	if after, _ := numbers.Seq(name); after != before {
		t.Fatal("a write under another name changed the sequence number")
	}
}

func oneProbe(t *testing.T, a, b breaker.Store) {
	clk := &clock{now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	var breakers []*breaker.Breaker
	for _, s := range []breaker.Store{a, b} {
		up, err := breaker.New(breaker.Config{Name: name, Store: s, Clock: clk, StoreTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		breakers = append(breakers, up)
	}
	if err := breakers[0].Trip(t.Context(), "breakertest"); err != nil {
		t.Fatal(err)
	}
	clk.add(time.Hour)
	for _, up := range breakers {
		// A store without numbers is read once per Config.Refresh: now.
		if got := up.State(); got != breaker.Open {
			t.Fatalf("state is %v after a trip, want open", got)
		}
	}
	var probes, others atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		up := breakers[i%2]
		wg.Go(func() {
			p, err := up.Allow(t.Context())
			switch {
			case err == nil && p.Probe():
				probes.Add(1)
			case err == nil:
				others.Add(1)
			case !errors.Is(err, breaker.ErrOpen):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := fmt.Sprint(probes.Load(), " probes, ", others.Load(), " others"); got != "1 probes, 0 others" {
		t.Fatalf("%s went out, want exactly one probe", got)
	}
}

// clock is a clock that stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(time.Duration) <-chan time.Time { return nil }

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
