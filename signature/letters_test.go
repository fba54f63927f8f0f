package signature_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/signature"
)

// TestRandomLetters tells ids without a digit from words: nearly all random
// strings fold, and no name out of real code does.
func TestRandomLetters(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	missed := 0
	const tries = 2000
	for range tries {
		var b strings.Builder
		for range 24 {
			b.WriteByte(letters[r.IntN(len(letters))])
		}
		if got := signature.Normalize("organization org-" + b.String() + " is gone"); got != "organization org-# is gone" {
			missed++
		}
	}
	if missed > tries/50 {
		t.Errorf("%d of %d random ids stay, want at most one in fifty", missed, tries)
	}
	for _, w := range []string{
		"InvalidParameterCombinationException", "ResourceExhausted", "bulkSaveDetailHiHealthData", "XMLHttpRequest", "TaskAttemptEventType",
		"insufficient_quota", "context_length_exceeded", "getaddrinfo", "Zeiterfassungsdienst", "internationalisation", "ThrottlingException",
		"IncompleteRead", "MRAppMaster", "EACCES", "DEADLINE_EXCEEDED", "OOMKilled", "CrashLoopBackOff", "ImagePullBackOff", "NoRouteToHostException",
	} {
		if got, want := signature.Normalize(w), strings.ToLower(w); got != want {
			t.Errorf("template of %q: %q, want the word", w, got)
		}
	}
	if got, want := signature.Normalize(fmt.Sprintf("pod web-%s-lqqrn", "7d9f8b6c5")), "pod web-#"; got != want {
		t.Errorf("template of a pod's name: %q, want %q", got, want)
	}
}
