package breaker

import "time"

// windowParts is how finely the failure ratio's window moves.
const windowParts = 10

// window counts the calls of the last while for the failure ratio. It is used
// under the breaker's lock.
type window struct {
	on    bool
	ratio float64
	least int
	part  time.Duration
	last  int64 // the number of the newest part
	parts [windowParts]struct{ calls, failures int }
}

func newWindow(cfg Config) window {
	return window{
		on: cfg.Ratio > 0, ratio: cfg.Ratio, least: cfg.RatioCalls,
		part: max(cfg.RatioWindow/windowParts, 1),
	}
}

// add counts one call that ended now.
func (w *window) add(now time.Time, k kind) {
	if !w.on || k == evIgnored {
		return
	}
	number := now.UnixNano() / int64(w.part)
	if passed := number - w.last; passed < 0 || passed >= windowParts {
		w.clear() // also when the clock was set back
	} else {
		for n := w.last + 1; n <= number; n++ {
			w.parts[n%windowParts] = struct{ calls, failures int }{}
		}
	}
	w.last = number
	p := &w.parts[number%windowParts]
	p.calls++
	if k == evFailure || k == evFatal {
		p.failures++
	}
}

// reached reports whether the ratio is.
func (w *window) reached() bool {
	if !w.on {
		return false
	}
	calls, failures := 0, 0
	for _, p := range w.parts {
		calls += p.calls
		failures += p.failures
	}
	return calls >= w.least && float64(failures) >= w.ratio*float64(calls)
}

func (w *window) clear() { w.parts = [windowParts]struct{ calls, failures int }{} }
