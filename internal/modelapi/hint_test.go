package modelapi_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

func headerOf(lines string) http.Header { return response(200, lines, "", 0).Header }

func TestParseHint(t *testing.T) {
	t.Parallel()
	const forever = time.Duration(math.MaxInt64)
	date := func(layout string, d time.Duration) string {
		return "Retry-After: " + noon.Add(d).Format(layout) + "\n"
	}
	const (
		rfc850  = "Monday, 02-Jan-06 15:04:05 GMT"
		asctime = time.ANSIC
		zero    = "X-Ratelimit-Remaining-Tokens: 0\nX-Ratelimit-Reset-Tokens: "
	)
	tests := []struct {
		header string
		want   time.Duration
		ok     bool
	}{
		{"", 0, false},
		{"Retry-After: 30\n", 30 * time.Second, true},
		{"Retry-After:  7 \n", 7 * time.Second, true},
		{"Retry-After: 0\n", 0, true},
		{"Retry-After: 1.5\n", 1500 * time.Millisecond, true},
		{"Retry-After: 0.0000000001\n", 1, true},
		{"Retry-After: .5\n", 500 * time.Millisecond, true},
		{"Retry-After: 277403\n", 277403 * time.Second, true},
		{date(http.TimeFormat, 2*time.Minute), 2 * time.Minute, true},
		{date(rfc850, 2*time.Minute), 2 * time.Minute, true},
		{date(asctime, 2*time.Minute), 2 * time.Minute, true},
		{date(http.TimeFormat, -5*time.Second), 0, true},
		{"Retry-After: Mon, 01 Jan 9999 00:00:00 GMT\n", forever, true},

		// Garbage is no hint, and no 0 either.
		{"Retry-After: -1\n", 0, false},
		{"Retry-After: -0.5\n", 0, false},
		{"Retry-After: +5\n", 0, false},
		{"Retry-After: 1e3\n", 0, false},
		{"Retry-After: NaN\n", 0, false},
		{"Retry-After: Inf\n", 0, false},
		{"Retry-After: 0x10\n", 0, false},
		{"Retry-After: 1.2.3\n", 0, false},
		{"Retry-After: .\n", 0, false},
		{"Retry-After: soon\n", 0, false},
		{"Retry-After:\n", 0, false},
		{"Retry-After: 12s\n", 0, false},
		{"Retry-After: 5, 10\n", 0, false},

		// What does not fit is for ever, not the past.
		{"Retry-After: 9223372036\n", 9223372036 * time.Second, true},
		{"Retry-After: 9223372037\n", forever, true},
		{"Retry-After: 9223372036.854775807\n", forever, true},
		{"Retry-After: 9223372036.999999999\n", forever, true},
		{"Retry-After: 9223372036854775807\n", forever, true},
		{"Retry-After: 99999999999999999999\n", forever, true},
		{"Retry-After-Ms: 99999999999999999999\n", forever, true},

		// Two lines: the longer one, since neither may be undercut.
		{"Retry-After: 3\nRetry-After: 9\n", 9 * time.Second, true},
		{"Retry-After: banana\nRetry-After: 9\n", 9 * time.Second, true},

		// Milliseconds first.
		{"Retry-After-Ms: 1500\nRetry-After: 2\n", 1500 * time.Millisecond, true},
		{"Retry-After-Ms: 1.5\n", 1500 * time.Microsecond, true},
		{"X-Ms-Retry-After-Ms: 700\nRetry-After: 2\n", 700 * time.Millisecond, true},
		{"Retry-After-Ms: 10\nX-Ms-Retry-After-Ms: 700\n", 10 * time.Millisecond, true},
		{"Retry-After-Ms: banana\nRetry-After: 3\n", 3 * time.Second, true},
		{"Retry-After-Ms: -1\nRetry-After: 3\n", 3 * time.Second, true},

		// The axis at zero, the latest of several.
		{zero + "6m0s\n", 6 * time.Minute, true},
		{zero + "1ms\n", time.Millisecond, true},
		{zero + "2m59.56s\n", 179560 * time.Millisecond, true},
		{zero + "23h47m36.648s\n", 23*time.Hour + 47*time.Minute + 36648*time.Millisecond, true},
		{zero + "60\n", time.Minute, true},
		{zero + "0\n", 0, true},
		{zero + "-1\n", 0, false},
		{zero + "-3s\n", 0, false},
		{zero + "1d2h\n", 0, false},
		{zero + "\n", 0, false},
		{zero + fmt.Sprint(noon.Add(90*time.Second).Unix()) + "\n", 90 * time.Second, true},
		{zero + fmt.Sprint(noon.Add(90*time.Second).UnixMilli()) + "\n", 90 * time.Second, true},
		{zero + fmt.Sprint(noon.Add(-time.Second).Unix()) + "\n", 0, true},
		{zero + noon.Add(-time.Second).Format(time.RFC3339) + "\n", 0, true},
		{zero + noon.Add(time.Minute).Format(http.TimeFormat) + "\n", time.Minute, true},
		{zero + "99999999999999999999\n", forever, true},
		{"X-Ratelimit-Remaining-Tokens: -1\nX-Ratelimit-Reset-Tokens: 60\n", 0, false},
		{"X-Ratelimit-Remaining-Tokens: 12\nX-Ratelimit-Reset-Tokens: 60s\n", 0, false},
		{"X-Ratelimit-Remaining-Tokens: 0\n", 0, false},
		{"X-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 5\n", 5 * time.Second, true},
		{"Ratelimit-Remaining: 0\nRatelimit-Reset: 5\n", 5 * time.Second, true},
		{"X-Remaining: 0\nX-Reset: 5\n", 0, false},
		{"X-Ratelimit-\u023a-Remaining: 0\nX-Ratelimit-\u023a-Reset: 5\n", 0, false}, // no name a server may send
		{zero + "6s\nX-Ratelimit-Remaining-Requests: 0\nX-Ratelimit-Reset-Requests: 9s\n", 9 * time.Second, true},
		{zero + "6s\nX-Ratelimit-Remaining-Requests: 4\nX-Ratelimit-Reset-Requests: 9s\n", 6 * time.Second, true},
		{zero + "6s\nRetry-After: 1\n", time.Second, true},
		{"Anthropic-Ratelimit-Output-Tokens-Remaining: 0\nAnthropic-Ratelimit-Output-Tokens-Reset: 2026-11-29T15:00:05Z\n", 5 * time.Second, true},
		{"Anthropic-Ratelimit-Output-Tokens-Remaining: 0\nAnthropic-Ratelimit-Output-Tokens-Reset: 2026-11-29T16:00:05+01:00\n", 5 * time.Second, true},
	}
	for _, tt := range tests {
		got, ok := modelapi.ParseHint(headerOf(tt.header), noon)
		if got != tt.want || ok != tt.ok {
			t.Errorf("%s: %v, %v, want %v, %v", strings.TrimSpace(tt.header), got, ok, tt.want, tt.ok)
		}
	}
}

// TestHintsOfGoodAnswers: an axis that stands at zero after a good answer asks
// for nothing.
func TestHintsOfGoodAnswers(t *testing.T) {
	t.Parallel()
	d := watched(t, response(200, jsonType+"X-Ratelimit-Remaining-Requests: 0\nX-Ratelimit-Reset-Requests: 9s\n", good, 0), good)
	if d.Waits || d.Wait != 0 {
		t.Errorf("%+v", d)
	}
}

func TestHintAtTheEpoch(t *testing.T) {
	t.Parallel()
	// A fake clock starts at Unix 0, which is a time like any other.
	got, ok := modelapi.ParseHint(headerOf("Retry-After: Thu, 01 Jan 1970 00:02:00 GMT\n"), time.Unix(0, 0))
	if got != 2*time.Minute || !ok {
		t.Error(got, ok)
	}
}

func FuzzParseHint(f *testing.F) {
	for _, s := range []string{"1", "-1", "1.5", "99999999999999999999", "6m0s", "2026-11-29T15:00:05Z", "Sun, 29 Nov 2026 15:02:00 GMT", "1e9", "1795964400000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Ratelimit-Reset-Tokens"} {
			d, ok := modelapi.ParseHint(http.Header{name: {s}, "X-Ratelimit-Remaining-Tokens": {"0"}}, noon)
			if d < 0 || !ok && d != 0 {
				t.Errorf("%s: %q: %v, %v", name, s, d, ok)
			}
		}
	})
}
