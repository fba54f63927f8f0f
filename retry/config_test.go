package retry_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/nightfuse/nightfuse/retry"
)

// exit ends the goroutine without a panic.
func exit() { runtime.Goexit() }

// T77: nonsense is refused, all of it at once.
func TestNewNamesAllBadFields(t *testing.T) {
	t.Parallel()
	_, err := retry.New(retry.Config{
		Attempts: -1, Base: -1, Max: -1, MaxHint: -1, MaxElapsed: -1, Hold: -1, Exhausted: 9, Clock: (*clock.Mock)(nil),
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, f := range []string{"Attempts", "Base", "Max ", "MaxHint", "MaxElapsed", "Hold", "Exhausted", "Clock"} {
		if !strings.Contains(err.Error(), f) {
			t.Errorf("%q is not in %v", f, err)
		}
	}
	if _, err := retry.New(retry.Config{Base: time.Minute, Max: time.Second}); err == nil {
		t.Error("Max below Base is taken")
	}
}

func TestConfigsThatAreTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]retry.Config{
		"zero":                {},
		"base above 30s":      {Base: time.Hour},
		"max below 1.5s":      {Max: time.Millisecond},
		"no attempt timeout":  {AttemptTimeout: -1},
		"no idle timeout":     {IdleTimeout: -1},
		"exhausted response":  {Exhausted: retry.ExhaustedResponse},
		"a quota of its zero": {Quota: new(retry.Quota)},
	} {
		if _, err := retry.New(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	equal(t, "name", mustNew(t, retry.Config{}).Name(), "retry")
	equal(t, "name", mustNew(t, retry.Config{Name: "a"}).Name(), "a")
}
