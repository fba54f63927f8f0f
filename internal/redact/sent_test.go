package redact_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/internal/redact"
)

func TestSent(t *testing.T) {
	t.Parallel()
	const token = "Zm9vYmFyMTIzNDU2Nzg5MHRlbmFudGtleQ=="
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://user:open-sesame@h/v1?tenant=acme-corporation&key=query-key&alt=sse", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Authorization": {"Bearer " + token}, "X-Api-Key": {"letters-only"}, "Cookie": {"theme=dark; sid=0123456789abcdefgh"},
		"X-Tenant": {"9f86d081884c7d659a2feaa0c55ad015"}, "User-Agent": {"client/1.0 (linux)"}, "Content-Type": {"application/json"},
		"Proxy-Authorization": {"Basic dXNlcjpwYXNzd29yZDEyMw=="}, "Token": {"short"},
	}
	for in, want := range map[string]string{
		"no access for " + token + ".":                         "no access for REDACTED.",
		"no access for " + strings.ToLower(token):              "no access for REDACTED",
		"twice " + token + token:                               "twice REDACTEDREDACTED",
		"key letters-only is wrong":                            "key REDACTED is wrong",
		"LETTERS-ONLY":                                         "REDACTED",
		"session 0123456789abcdefgh is over":                   "session REDACTED is over",
		"9f86d081884c7d659a2feaa0c55ad015 owes money":          "REDACTED owes money",
		"dXNlcjpwYXNzd29yZDEyMw== and open-sesame, query-key!": "REDACTED and REDACTED, REDACTED!",
		"acme-corporation in application/json to client/1.0":   "acme-corporation in application/json to client/1.0",
		"a short word, dark":                                   "a short word, dark",
		"":                                                     "",
		"nothing here":                                         "nothing here",
	} {
		got := redact.Sent(in, req)
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		if again := redact.Sent(got, req); again != got {
			t.Errorf("%q: once more gives %q", in, again)
		}
	}
	basic := &http.Request{Header: http.Header{}}
	basic.SetBasicAuth("me", "correct horse")
	if got := redact.Sent("correct horse is wrong", basic); got != "REDACTED is wrong" {
		t.Error(got)
	}
	if got := redact.Sent("text "+token, nil); got != "text "+token {
		t.Error(got)
	}
}
