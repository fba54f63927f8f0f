package batch

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// status is what a progress line shows.
type status struct {
	now           time.Time
	through, done int64 // items that are through, skipped ones included; done in this run
	skipped       int64
	dead          int64
	calls         int64
	total         int
	inFlight      int
	stopping      bool
	state         string
}

func (l *loop) status() status {
	rep := &l.report
	s := status{
		now: l.cfg.Clock.Now(), through: rep.Done + rep.Dead, done: l.doneNow(), dead: rep.Dead, skipped: rep.Skipped + rep.DeadBefore,
		calls: l.callsNow(), total: l.cfg.Total, inFlight: len(l.flights), state: l.lastGauges.State,
	}
	switch {
	case l.stopped:
		s.stopping, s.state = true, "stopping: "+rep.StoppedBy
	case l.hold != nil:
		s.state = "waiting for the " + l.hold.by
	}
	return s
}

// doneNow returns the items done in this run so far.
func (r *run) doneNow() int64 { return r.report.Done - r.report.Skipped }

// callsNow returns the calls made so far, those of items in flight included.
func (r *run) callsNow() int64 {
	n := r.calls
	for f := range r.flights {
		n += f.calls(false)
	}
	return n
}

// progress writes progress lines.
type progress struct {
	w        io.Writer
	terminal bool
	began    time.Time
	last     time.Time
}

func newProgress(w io.Writer, began time.Time) *progress {
	p := &progress{w: w, began: began, last: began}
	if f, ok := w.(*os.File); ok {
		p.terminal = isTerminal(f)
	}
	return p
}

// showProgress begins the progress of the run.
func (r *run) showProgress() {
	r.show = newProgress(r.cfg.Progress, r.began)
	if r.cfg.Progress != nil {
		r.show.w = r.newPen(r.cfg.Progress)
	}
}

// isTerminal reports whether f is a device that takes characters, save the one
// that drops them, which is where the output of a cron job goes.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

const (
	lineEvery     = 30 * time.Second
	terminalEvery = 200 * time.Millisecond
)

// every is how often the loop wakes up for the progress.
func (p *progress) every() time.Duration {
	if p.terminal {
		return terminalEvery
	}
	return tick
}

// line shows s if it is time to.
func (p *progress) line(s status) {
	if p.w == nil || !p.terminal && s.now.Sub(p.last) < lineEvery {
		return
	}
	p.last = s.now
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K%s", p.text(s))
		return
	}
	fmt.Fprintln(p.w, p.text(s))
}

// end shows s for the last time.
func (p *progress) end(s status) {
	switch {
	case p.w == nil:
	case p.terminal:
		fmt.Fprintf(p.w, "\r\x1b[K%s\n", p.text(s))
	default:
		fmt.Fprintln(p.w, p.text(s))
	}
	if pen, ok := p.w.(*pen); ok {
		pen.lift()
	}
}

// text is one line about s: how far, how fast, how long still.
func (p *progress) text(s status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", s.through)
	if s.total > 0 {
		fmt.Fprintf(&b, " of %d", s.total)
	}
	b.WriteString(" items")
	if s.dead > 0 {
		fmt.Fprintf(&b, ", %d dead", s.dead)
	}
	elapsed, fresh := s.now.Sub(p.began), s.through-s.skipped
	if elapsed > 0 && fresh > 0 {
		rate := float64(fresh) / elapsed.Seconds()
		fmt.Fprintf(&b, ", %.3g/s", rate)
		if left := int64(s.total) - s.through; left > 0 && !s.stopping {
			fmt.Fprintf(&b, ", %v left", time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
		}
	}
	fmt.Fprintf(&b, ", %d calls", s.calls)
	if s.done > 0 {
		fmt.Fprintf(&b, " (%.2f per item done)", float64(s.calls)/float64(s.done))
	}
	fmt.Fprintf(&b, ", %d in flight", s.inFlight)
	if s.state != "" {
		b.WriteString(", " + s.state)
	}
	return b.String()
}

// beatEvery is how often a heartbeat is written.
const beatEvery = 15 * time.Second

// heartbeat is what the file says to whoever watches from outside: a run whose
// file has not changed for minutes is dead or hangs.
type heartbeat struct {
	At      time.Time `json:"at"`
	Name    string    `json:"name"`
	PID     int       `json:"pid"`
	State   string    `json:"state"`
	Done    int64     `json:"done"`
	Dead    int64     `json:"dead"`
	Calls   int64     `json:"calls"`
	Started time.Time `json:"started"`
}

func (r *run) heartbeat(now time.Time, state string) error {
	r.beat = now
	b, err := json.Marshal(heartbeat{
		At: now.UTC(), Name: r.cfg.Name, PID: os.Getpid(), State: state,
		Done: r.report.Done, Dead: r.report.Dead, Calls: r.callsNow(), Started: r.began.UTC(),
	})
	if err == nil {
		// Not worth a sync of the folder: the next one is seconds away.
		err = durable.Replace(nil, r.cfg.Heartbeat, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("batch: heartbeat: %w", err)
	}
	return nil
}
