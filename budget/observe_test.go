package budget_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

// What the server asks for is everybody's, is never shortened, and ends at the
// paced rate instead of all at once.
func TestPacerHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header http.Header
		hint   time.Duration
		status int
		want   time.Duration
	}{
		"seconds":      {http.Header{"Retry-After": {"7"}}, 0, 429, 7 * time.Second},
		"milliseconds": {http.Header{"Retry-After-Ms": {"1500"}}, 0, 429, 1500 * ms},
		"body":         {nil, 34 * time.Second, 429, 34 * time.Second},
		"overload":     {http.Header{"Retry-After": {"3"}}, 0, 503, 3 * time.Second},
		"days":         {http.Header{"Retry-After": {"277403"}}, 0, 429, 10 * time.Minute},
		"no hint":      {nil, 0, 429, 200 * ms}, // two turns
		"no refusal":   {http.Header{"Retry-After": {"7"}}, 0, 200, 100 * ms},
		"bad request":  {http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"6m0s"}}, 0, 400, 100 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var events []budget.PacerEvent
				p := mustPacer(t, budget.PacerConfig{Requests: 600, OnEvent: func(e budget.PacerEvent) { events = append(events, e) }})
				s := mustWait(t, p, t.Context(), 0)
				var at []time.Duration
				done := make(chan struct{})
				go func() { // it waits before the hold, and is not let go before its end
					at = turns(t, p, 3, 0)
					close(done)
				}()
				synctest.Wait()
				p.Observe(s, c.status, c.header, c.hint)
				<-done
				equal(t, "turns", at, []time.Duration{c.want, c.want + 100*ms, c.want + 200*ms})
				if held := c.want > 100*ms; held != (len(events) == 1 && events[0].Kind == budget.PacerHeld) {
					t.Errorf("events %+v", events)
				}
			})
		})
	}
}

// The pause doubles while nothing passes, up to five seconds.
func TestPacerPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustPacer(t, budget.PacerConfig{Requests: 600})
		for _, want := range []time.Duration{200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5 * time.Second, 5 * time.Second} {
			s := mustWait(t, p, t.Context(), 0)
			p.Observe(s, 429, nil, 0)
			equal(t, "pause", time.Duration(p.Stats().Held*float64(time.Second)).Round(ms), want)
		}
		p.Observe(mustWait(t, p, t.Context(), 0), 200, nil, 0)
		p.Observe(mustWait(t, p, t.Context(), 0), 429, nil, 0)
		equal(t, "pause after a success", time.Duration(p.Stats().Held*float64(time.Second)).Round(ms), 200*ms)
		p.Observe(budget.Slot{}, 429, nil, time.Hour) // nobody's
		equal(t, "pause after nobody's", time.Duration(p.Stats().Held*float64(time.Second)).Round(ms), 200*ms)
	})
}

// Where refused calls count, a server's hint is true only for those who do not
// call: who obeys it and is refused again waits longer each time, all others as
// long as they are told.
func TestPacerPausesBeyondHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := mustPacer(t, budget.PacerConfig{Requests: 60_000})
		held := func() time.Duration { return time.Duration(p.Stats().Held * float64(time.Second)).Round(ms) }
		early := []budget.Slot{mustWait(t, p, t.Context(), 0), mustWait(t, p, t.Context(), 0)}
		for _, s := range early { // both sent before anybody was told anything
			p.Observe(s, 429, nil, 20*ms)
			equal(t, "hold of an early call", held(), 20*ms)
		}
		for _, want := range []time.Duration{20, 20, 20, 20, 32, 64, 128} { // 2^n turns of a millisecond
			p.Observe(mustWait(t, p, t.Context(), 0), 429, nil, 20*ms)
			equal(t, "hold of a call that had waited", held(), want*ms)
		}
		p.Observe(mustWait(t, p, t.Context(), 0), 200, nil, 0)
		p.Observe(mustWait(t, p, t.Context(), 0), 429, nil, 20*ms)
		equal(t, "hold after a success", held(), 20*ms)
	})
}
