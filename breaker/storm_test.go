package breaker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/internal/call"
)

func stateText(t testing.TB, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mycelium-labs/mycelium#122: corrupt JSON was read as empty and overwritten.
// The contents that decode without an error count most: they would silently
// mean closed.
func TestDamageIsSetAside(t *testing.T) {
	t.Parallel()
	good := func(change func(map[string]any)) string {
		dir := t.TempDir()
		cfg := plain(newClock())
		cfg.Store = newFile(t, dir)
		fail(t, newBreaker(t, cfg), 3)
		var m map[string]any
		if err := json.Unmarshal([]byte(stateText(t, dir, "up")), &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, content := range map[string]string{
		"all NUL":        strings.Repeat("\x00", 300),
		"empty":          "",
		"cut":            `{"v":1,"state":"op`,
		"array":          `[1]`,
		"trailing brace": good(func(map[string]any) {}) + "}",
		"null":           "null",
		"empty object":   "{}",
		"newer version":  good(func(m map[string]any) { m["v"] = 2 }),
		"unknown state":  good(func(m map[string]any) { m["state"] = "ajar" }),
		"bad duration":   good(func(m map[string]any) { m["open_for"] = "soon" }),
		"negative":       good(func(m map[string]any) { m["open_for"] = "-1h" }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "up.json")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			var reports []error
			cfg := plain(newClock())
			cfg.Store = newFile(t, dir)
			cfg.OnChange = func(c breaker.Change) {
				if c.Err != nil {
					reports = append(reports, c.Err)
				}
			}
			b := newBreaker(t, cfg)
			if got := stateText(t, dir, "up"); got != content {
				t.Errorf("New changed the damaged file to %q", got)
			}
			p := probe(t, b) // nobody knows: one call finds out
			refusal(t, b)
			kept, err := filepath.Glob(filepath.Join(dir, "up%2edamaged-*.json"))
			if err != nil || len(kept) != 1 {
				t.Fatalf("set-aside copies: %q, %v; want one", kept, err)
			}
			if text, err := os.ReadFile(kept[0]); err != nil || string(text) != content {
				t.Errorf("the copy holds %q, %v; want the damaged bytes", text, err)
			}
			var store *breaker.StoreError
			if len(reports) != 1 || !errors.As(reports[0], &store) || !strings.HasPrefix(store.Damaged, "up.damaged-") {
				t.Errorf("reports = %v, want one that names the copy", reports)
			}
			p.Success()
			wantState(t, newBreaker(t, cfg), breaker.Closed)
			if got := b.Stats().Damaged; got != 1 {
				t.Errorf("Damaged = %d, want 1", got)
			}
		})
	}
}

// digitaldrywood/detent#1223: forty items each failed once with the same text,
// and no breaker per item saw it.
func TestStormOverItems(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.Threshold, cfg.RepeatTrip = 50, 5
	b := newBreaker(t, cfg)
	for i := range 5 {
		wantState(t, b, breaker.Closed)
		ctx := call.With(t.Context())
		ctx.NewItem(fmt.Sprint("item-", i), nil)
		err := b.Do(ctx, func(context.Context) error { return fmt.Errorf("model overloaded, request %d", 1000+i) })
		if err == nil {
			t.Fatal("fn's error is lost")
		}
	}
	if got := refusal(t, b).Signature; got == "" {
		t.Error("OpenError.Signature is empty")
	}
}

// One item that is tried again and again is one item.
func TestRepeatedItemCountsOnce(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.Threshold, cfg.RepeatTrip = 50, 3
	named := call.With(t.Context())
	named.NewItem("poison", nil)
	unnamed := call.With(t.Context())
	for name, ctx := range map[string]context.Context{"by name": named, "by box": unnamed} {
		b := newBreaker(t, cfg)
		for range 20 {
			_ = b.Do(ctx, func(context.Context) error { return errUp })
		}
		if got := b.State(); got != breaker.Closed {
			t.Errorf("%s: one item opened the breaker", name)
		}
	}
	b := newBreaker(t, cfg)
	for range 3 {
		_ = b.Do(t.Context(), func(context.Context) error { return errUp })
	}
	wantState(t, b, breaker.Open)
}

// A, B, A, B is a storm of both.
func TestAlternatingSignatures(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.Threshold, cfg.RepeatTrip = 50, 5
	b := newBreaker(t, cfg)
	errs := []error{errUp, errors.New("something else entirely")}
	for i := range 9 {
		allow(t, b).Failure(errs[i%2])
	}
	refusal(t, b)
}

// More kinds of failures than are counted at a time: the frequent one is kept.
func TestManySignatures(t *testing.T) {
	t.Parallel()
	cfg := plain(newClock())
	cfg.Threshold, cfg.RepeatTrip = 100, 5
	b := newBreaker(t, cfg)
	words := strings.Fields("alpha bravo charlie delta echo foxtrot golf hotel india juliett kilo lima mike")
	for i := range 5 {
		for _, w := range words[i*2 : i*2+3] {
			allow(t, b).Failure(errors.New("cannot " + w))
		}
		allow(t, b).Failure(errUp)
	}
	refusal(t, b)
}

// reddit/baseplate.go PR #697: all replicas came back at the same instant.
func TestJitterSpreadsTheProbes(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := plain(clk)
	cfg.Jitter = 0.2
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		b := newBreaker(t, cfg)
		fail(t, b, 3)
		open := refusal(t, b).Until.Sub(clk.Now())
		low, high = min(low, open), max(high, open)
	}
	if low < 10*time.Second || high > 12*time.Second || high-low < 1500*time.Millisecond {
		t.Errorf("openings last %v to %v, want 10s to 12s, spread over at least 1.5s", low, high)
	}
}

// sony/gobreaker#91: the bound of calls that still go out is what is in flight.
func TestBurstIsOneTrip(t *testing.T) {
	t.Parallel()
	clk := newClock()
	cfg := breaker.Config{Clock: clk, Jitter: -1}
	b := newBreaker(t, cfg)
	var out []*breaker.Permit
	for range 32 {
		out = append(out, allow(t, b))
	}
	// The first failures come back, each worker asks again at once.
	failures := 0
	for _, p := range out {
		if b.State() != breaker.Closed {
			break
		}
		p.Failure(errUp)
		failures++
		if p, err := b.Allow(t.Context()); err == nil {
			p.Failure(errUp)
			failures++
		}
	}
	refusal(t, b)
	if want := 5 + 31; failures != want {
		t.Errorf("it took %d failures, want RepeatTrip and the calls out at the first: %d", failures, want)
	}
	for _, p := range out {
		p.Failure(errUp)
	}
	if got := b.Stats(); got.State != breaker.Open || got.TripsTotal != 1 || got.Trips != 1 {
		t.Errorf("after the burst: %v, %d trips; want open, 1", got.State, got.TripsTotal)
	}
	if got := refusal(t, b).Until.Sub(clk.Now()); got != 30*time.Second {
		t.Errorf("open for %v, want the base cooldown", got)
	}
}
