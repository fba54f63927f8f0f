// Package fakeclock shows how a program's own loop is tested against a guard:
// on a clock that the test moves, an hour takes no time.
package fakeclock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/retry"
)

// drain is a loop as programs have it: it works items off until the upstream is
// called down, and says how many are left.
func drain(ctx context.Context, up *breaker.Breaker, items []string, send func(string) error) (left []string) {
	for i, it := range items {
		err := up.Do(ctx, func(context.Context) error { return send(it) })
		if errors.Is(err, breaker.ErrOpen) {
			return items[i:]
		}
	}
	return nil
}

func TestDrainStopsAndGoesOn(t *testing.T) {
	t.Parallel()
	mock := clock.NewMock()
	up, err := breaker.New(breaker.Config{RepeatTrip: 3, Cooldown: time.Minute, Jitter: -1, Clock: mock})
	if err != nil {
		t.Fatal(err)
	}
	items := []string{"a", "b", "c", "d", "e"}
	down := errors.New("upstream is down")

	left := drain(t.Context(), up, items, func(string) error { return down })
	if len(left) != 2 {
		t.Fatalf("left %v: want the breaker open after three equal errors", left)
	}

	mock.Add(59 * time.Second)
	if again := drain(t.Context(), up, left, func(string) error { return nil }); len(again) != 2 {
		t.Errorf("left %v: a call went out before the minute was over", again)
	}
	mock.Add(time.Second)
	if again := drain(t.Context(), up, left, func(string) error { return nil }); len(again) != 0 {
		t.Errorf("left %v: want all done once the upstream is back", again)
	}
}

// A retry waits on the clock as well. When OnWait is called the timer exists
// already, so the test moves the clock from there.
func TestRetryWaitsForTheServer(t *testing.T) {
	t.Parallel()
	mock := clock.NewMock()
	again, err := retry.New(retry.Config{Clock: mock, OnWait: func(w retry.Wait) { mock.Add(w.Delay) }})
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	text, err := retry.Do(t.Context(), again, func(context.Context) (string, error) {
		if calls++; calls == 1 {
			return "", retry.After(time.Minute, errors.New("too many requests"))
		}
		return "Two refunds.", nil
	})
	if err != nil || text != "Two refunds." || calls != 2 {
		t.Errorf("%q after %d calls: %v", text, calls, err)
	}
	if waited := mock.Since(time.Unix(0, 0)); waited < time.Minute {
		t.Errorf("waited %v, the server asked for a minute", waited)
	}
}
