package batch_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter/batch"
	"github.com/nightfuse/nightfuse/internal/call"
)

// raised runs and returns the alerts by kind, and checks that hook and report
// agree.
func raised(t *testing.T, e *env, n int, fn func(context.Context, batch.Item) ([]byte, error)) (map[batch.AlertKind]int, batch.Report) {
	t.Helper()
	hooked := map[batch.AlertKind]int{}
	e.cfg.Results = &ones{}
	e.cfg.OnAlert = func(a batch.Alert) {
		hooked[a.Kind]++
		if len(hooked) == 1 {
			panic("a hook that panics loses nothing")
		}
	}
	rep, _ := e.run(items(n), fn)
	got := map[batch.AlertKind]int{}
	for _, a := range rep.Alerts {
		got[a.Kind]++
	}
	if diff := cmp.Diff(got, hooked); diff != "" {
		t.Errorf("alerts of report and hook (-report +hook):\n%s", diff)
	}
	return got, rep
}

func TestNoAlertInAGoodNight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got, rep := raised(t, newEnv(t), 1000, func(context.Context, batch.Item) ([]byte, error) {
			time.Sleep(10 * time.Second)
			return []byte("fine"), nil
		})
		if len(got) != 0 || rep.Stuck != nil {
			t.Errorf("alerts %v", rep.Alerts)
		}
		if rep.P50 < 10_000 || rep.P50 > 10_200 || rep.P95 < 10_000 || rep.P95 > 10_200 {
			t.Errorf("p50 %v, p95 %v, want 10 s", rep.P50, rep.P95)
		}
	})
}

func TestStormRaisesEachOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		var trips int64
		var mu sync.Mutex
		e.cfg.Gauges = func() batch.Gauges { mu.Lock(); defer mu.Unlock(); return batch.Gauges{Trips: 7 + trips} }
		n := 0
		got, rep := raised(t, e, 1500, func(ctx context.Context, it batch.Item) ([]byte, error) {
			time.Sleep(10 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			n++
			call.From(ctx).Item.Sent()
			if n%2 == 0 {
				call.From(ctx).Item.Sent()
			}
			if n == 400 || n == 800 {
				trips++
			}
			if n > 1000 && n <= 1006 {
				return nil, fmt.Errorf("shard %d is down", n)
			}
			return []byte("fine"), nil
		})
		want := map[batch.AlertKind]int{batch.CallsPerDone: 1, batch.Tripped: 2, batch.Repeating: 1}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("alerts (-got +want):\n%s\n%v", diff, rep.Alerts)
		}
		if rep.Trips != 2 {
			t.Errorf("%d trips in this run, want 2", rep.Trips)
		}
		for _, a := range rep.Alerts {
			if a.Kind == batch.CallsPerDone && a.At.Sub(rep.Started) < 15*time.Minute {
				t.Errorf("told after %v, before its window was full", a.At.Sub(rep.Started))
			}
			if a.Kind == batch.Repeating && !strings.Contains(a.Text, "4 items in a row") {
				t.Errorf("%q: want one failure before RepeatTrip", a.Text)
			}
		}
	})
}

// A run too short for a window is judged at its end; nothing done is the worst,
// after however few calls. A run without a call has nothing to tell.
func TestShortStorm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		items int
		err   error
		want  map[batch.AlertKind]int
	}{
		{30, statusError(500), map[batch.AlertKind]int{batch.CallsPerDone: 1}},
		{1, statusError(400), map[batch.AlertKind]int{batch.CallsPerDone: 1}},
		{30, silent("budget"), map[batch.AlertKind]int{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			e.cfg.RepeatTrip = -1
			got, rep := raised(t, e, c.items, func(context.Context, batch.Item) ([]byte, error) { return nil, c.err })
			if diff := cmp.Diff(got, c.want); diff != "" || rep.CallsPerDone != nil {
				t.Errorf("%d items, %v: calls per done %v, alerts (-got +want):\n%s", c.items, c.err, rep.CallsPerDone, diff)
			}
		})
	}
}

func TestStuckItemsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		got, rep := raised(t, newEnv(t), 1500, func(_ context.Context, it batch.Item) ([]byte, error) {
			d := 8 * time.Second
			if strings.HasSuffix(it.ID, "7") && time.Since(begin) > 16*time.Minute {
				d = time.Minute
			}
			time.Sleep(d)
			return []byte("fine"), nil
		})
		if diff := cmp.Diff(got, map[batch.AlertKind]int{batch.StuckItems: 1}); diff != "" || rep.Stuck == nil || rep.Stuck.P95 < 2*rep.Stuck.FirstP95 {
			t.Errorf("stuck %+v, alerts (-got +want):\n%s", rep.Stuck, diff)
		}
	})
}

// What is done between them ends a row of failures.
func TestSignatureInARow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row  int // failures between two items that are done
		want map[batch.AlertKind]int
	}{{3, map[batch.AlertKind]int{}}, {4, map[batch.AlertKind]int{batch.Repeating: 1}}} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t)
			e.cfg.Workers = 1
			got, _ := raised(t, e, 19, func(context.Context, batch.Item) ([]byte, error) {
				if (len(e.calls)-1)%(c.row+1) == 0 {
					return []byte("fine"), nil
				}
				return nil, statusError(500)
			})
			if diff := cmp.Diff(got, c.want); diff != "" {
				t.Errorf("%d in a row (-got +want):\n%s", c.row, diff)
			}
		})
	}
}

// A night with an alert a second must not end with a report that fills the disk;
// the hook gets them all.
func TestAlertsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		var trips int64
		hooked := 0
		e.cfg.Gauges = func() batch.Gauges { trips++; return batch.Gauges{Trips: trips} }
		e.cfg.OnAlert = func(batch.Alert) { hooked++ }
		rep, _ := e.run(items(1), func(context.Context, batch.Item) ([]byte, error) {
			time.Sleep(150 * time.Second)
			return []byte("fine"), nil
		})
		if len(rep.Alerts) != 100 || hooked < 150 {
			t.Errorf("%d alerts in the report, %d hooked", len(rep.Alerts), hooked)
		}
	})
}
