package budgettest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/budget/budgettest"
)

// broken is a store with one fault.
type broken struct {
	*budget.Memory
	apply func(s *broken, ctx context.Context, cs []*budget.Change) error

	mu sync.Mutex
}

type ops = []budget.Op

// each changes every op before it is applied.
func each(f func(op *budget.Op)) func(*broken, context.Context, []*budget.Change) error {
	return func(s *broken, ctx context.Context, cs []*budget.Change) error {
		for _, c := range cs {
			for i := range c.Ops {
				f(&c.Ops[i])
			}
		}
		return s.Memory.Apply(ctx, cs)
	}
}

// one applies changes with other ops than those that were asked for.
func one(s *broken, ctx context.Context, op budget.Op) (*budget.Change, error) {
	c := &budget.Change{Ops: ops{op}}
	return c, s.Memory.Apply(ctx, []*budget.Change{c})
}

var faults = map[string]func(*broken, context.Context, []*budget.Change) error{
	"no limit":            each(func(op *budget.Op) { op.Max = 0 }),
	"one below the limit": each(func(op *budget.Op) { op.Max = max(op.Max-1, min(op.Max, 1)) }),
	"creates always":      each(func(op *budget.Op) { op.Expire = time.Hour }),
	"keys without case":   each(func(op *budget.Op) { op.Key = strings.ToLower(op.Key) }),
	"keys without spaces": each(func(op *budget.Op) { op.Key = strings.TrimSpace(op.Key) }),
	"short keys":          each(func(op *budget.Op) { op.Key = op.Key[:min(len(op.Key), 250)] }),
	"not all or nothing": func(s *broken, ctx context.Context, cs []*budget.Change) error {
		for _, c := range cs {
			c.OK = true
			for i := range c.Ops {
				r, err := one(s, ctx, c.Ops[i])
				if err != nil {
					return err
				}
				c.Ops[i].Value, c.OK = r.Ops[0].Value, c.OK && r.OK
			}
		}
		return nil
	},
	"backwards": func(s *broken, ctx context.Context, cs []*budget.Change) error {
		for i := range cs {
			if err := s.Memory.Apply(ctx, cs[len(cs)-1-i:len(cs)-i]); err != nil {
				return err
			}
		}
		return nil
	},
	"stops at a refusal": func(s *broken, ctx context.Context, cs []*budget.Change) error {
		for i := range cs {
			if err := s.Memory.Apply(ctx, cs[i:i+1]); err != nil || !cs[i].OK {
				return err
			}
		}
		return nil
	},
	"refunds are refused": func(s *broken, ctx context.Context, cs []*budget.Change) error {
		for _, c := range cs {
			for _, op := range c.Ops {
				if v, _ := s.Load(ctx, []string{op.Key}); op.Max > 0 && v[0] > op.Max {
					return s.Memory.Apply(ctx, []*budget.Change{{}})
				}
			}
		}
		return s.Memory.Apply(ctx, cs)
	},
	"checks, then charges": func(s *broken, ctx context.Context, cs []*budget.Change) error {
		for _, c := range cs {
			counters := make(map[string]int64)
			s.mu.Lock()
			for _, op := range c.Ops {
				v, _ := s.Load(ctx, []string{op.Key})
				counters[op.Key] = v[0]
			}
			s.mu.Unlock()
			if c.Decide(counters); !c.OK {
				continue
			}
			for i := range c.Ops {
				op := c.Ops[i]
				op.Max = 0
				if _, err := one(s, ctx, op); err != nil {
					return err
				}
			}
		}
		return nil
	},
	"hangs after a cancel": func(s *broken, ctx context.Context, cs []*budget.Change) error {
		if ctx.Err() != nil {
			s.apply = func(*broken, context.Context, []*budget.Change) error { return context.Canceled }
			return ctx.Err()
		}
		return s.Memory.Apply(ctx, cs)
	},
}

func (s *broken) Apply(ctx context.Context, cs []*budget.Change) error { return s.apply(s, ctx, cs) }

const faultEnv = "NIGHTFUSE_BUDGETTEST_FAULT"

// TestBroken is what TestSuiteFindsFaults runs in another process.
func TestBroken(t *testing.T) {
	fault := os.Getenv(faultEnv)
	if fault == "" {
		budgettest.Run(t, func(*testing.T) budget.Store { return budget.NewMemory() })
		return
	}
	budgettest.Run(t, func(*testing.T) budget.Store {
		return &broken{Memory: budget.NewMemory(), apply: faults[fault]}
	})
}

// A suite that passes everything proves nothing.
func TestSuiteFindsFaults(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range faults {
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestBroken$")
		cmd.Env = append(os.Environ(), faultEnv+"="+name)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("a store that %q passes", name)
		} else if !strings.Contains(string(out), "this matters because") {
			t.Errorf("%s: the suite does not say why:\n%s", name, out)
		}
	}
}
