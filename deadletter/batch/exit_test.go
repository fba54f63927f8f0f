package batch

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
)

// If several things went wrong the gravest is the exit code: signal, lost, usage,
// budget, breaker, dead letters.
func TestExitOrder(t *testing.T) {
	t.Parallel()
	all := []struct {
		code  int
		state string
		add   func(*run)
	}{
		{143, "interrupted: terminated", func(r *run) { r.signal = syscall.SIGTERM }},
		{130, "interrupted: the context", func(r *run) { r.reasons["cancelled"] = true }},
		{5, "failed: the items' iterator", func(r *run) { r.reasons["panic"], r.broken = true, "the items' iterator" }},
		{5, "failed: the caller's code", func(r *run) { r.reasons["panic"] = true }},
		{5, "failed: a result or a dead letter", func(r *run) { r.reasons["lost"], r.report.Lost = true, 1 }},
		{1, "failed: an item has no ID", func(r *run) { r.reasons["usage"] = true }},
		{3, "stopped: the budget", func(r *run) { r.reasons["budget"], r.report.StoppedBy = true, "budget" }},
		{2, "stopped: the breaker", func(r *run) {
			r.reasons["breaker"] = true
			if r.report.StoppedBy == "" {
				r.report.StoppedBy = "breaker"
			}
		}},
		{2, "stopped: items are left", func(r *run) { r.report.Pending = 1 }},
		{4, "finished: dead letters", func(r *run) { r.report.Dead = 1 }},
		{0, "finished", func(r *run) { r.report.Total = 9 }},
	}
	for i, c := range all {
		r := &run{reasons: map[string]bool{}, cause: errors.New("disk gone")}
		for _, also := range all[i:] {
			also.add(r)
		}
		if code, state := r.exit(); code != c.code || !strings.HasPrefix(state, c.state) {
			t.Errorf("%d. and all below: exit %d, %q; want %d, %q", i, code, state, c.code, c.state)
		}
		r = &run{reasons: map[string]bool{}}
		c.add(r)
		if code, state := r.exit(); code != c.code || !strings.HasPrefix(state, c.state) {
			t.Errorf("%d. alone: exit %d, %q; want %d, %q", i, code, state, c.code, c.state)
		}
	}
	if code, _ := (&run{signal: os.Interrupt, reasons: map[string]bool{}}).exit(); code != 130 {
		t.Errorf("interrupt: exit %d", code)
	}
	if code, state := (&run{reasons: map[string]bool{"lost": true}, cause: errors.New("disk gone")}).exit(); code != 5 || state != "failed: disk gone" {
		t.Errorf("letters that cannot be read: exit %d, %q", code, state)
	}
	if code, _ := (&run{reasons: map[string]bool{}}).exit(); code != 1 {
		t.Errorf("no items: exit %d", code)
	}
}
