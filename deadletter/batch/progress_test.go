package batch

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// On a terminal there is one line, written over; elsewhere a line every half
// minute.
func TestProgressLines(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	for _, c := range []struct {
		terminal bool
		want     string
	}{
		{true, "\r\x1b[K0 of 40 items, 0 calls, 4 in flight" +
			"\r\x1b[K10 of 40 items, 1 dead, 1/s, 30s left, 14 calls (1.56 per item done), 4 in flight, breaker closed" +
			"\r\x1b[K40 of 40 items, 1 dead, 1/s, 50 calls (1.28 per item done), 0 in flight\n"},
		{false, "20 of 40 items, 10 dead, 0.5/s, 40s left, 30 calls (3.00 per item done), 4 in flight, waiting for the breaker\n" +
			"40 of 40 items, 1 dead, 1/s, 50 calls (1.28 per item done), 0 in flight\n"},
	} {
		var out strings.Builder
		p := &progress{w: &out, terminal: c.terminal, began: start, last: start}
		if c.terminal {
			p.line(status{now: start, total: 40, inFlight: 4})
			p.line(status{now: start.Add(10 * time.Second), total: 40, through: 10, done: 9, dead: 1, calls: 14, inFlight: 4, state: "breaker closed"})
		} else {
			p.line(status{now: start.Add(29 * time.Second), total: 40})
			p.line(status{now: start.Add(40 * time.Second), total: 40, through: 20, done: 10, dead: 10, calls: 30, inFlight: 4, state: "waiting for the breaker"})
		}
		p.end(status{now: start.Add(40 * time.Second), total: 40, through: 40, done: 39, dead: 1, calls: 50})
		if diff := cmp.Diff(out.String(), c.want); diff != "" {
			t.Errorf("terminal %v (-got +want):\n%s", c.terminal, diff)
		}
	}
}

// Nobody reads what a cron job writes to the null device, least of all five
// times a second.
func TestTheNullDeviceIsNoTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if p := newProgress(null, time.Unix(0, 0)); p.terminal || p.every() != tick {
		t.Errorf("terminal %v, woken every %v", p.terminal, p.every())
	}
	if tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err == nil { // where there are pseudo terminals
		defer tty.Close()
		if p := newProgress(tty, time.Unix(0, 0)); !p.terminal || p.every() != terminalEvery {
			t.Errorf("a pseudo terminal: terminal %v, woken every %v", p.terminal, p.every())
		}
	}
}

// What earlier runs did is through, and says nothing of how fast this one is.
func TestTimeLeft(t *testing.T) {
	t.Parallel()
	start := time.Unix(0, 0)
	p := &progress{began: start}
	s := status{now: start.Add(time.Minute), total: 1000, through: 700, skipped: 640, done: 60, calls: 60}
	if got, want := p.text(s), "700 of 1000 items, 1/s, 5m0s left, 60 calls (1.00 per item done), 0 in flight"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.stopping, s.state = true, "stopping: signal"
	if got, want := p.text(s), "700 of 1000 items, 1/s, 60 calls (1.00 per item done), 0 in flight, stopping: signal"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
