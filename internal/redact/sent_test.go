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
	basic.SetBasicAuth("0123456789abcdef-user", "correct horse")
	if got := redact.Sent("correct horse of 0123456789abcdef-user is wrong", basic); got != "REDACTED of REDACTED is wrong" {
		t.Error(got)
	}
	if got := redact.Sent("text "+token, nil); got != "text "+token {
		t.Error(got)
	}
}

// What an upstream may write in place of a credential's letters, and values that
// are none although their name is near to one.
func TestSentSpellings(t *testing.T) {
	t.Parallel()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://0123456789abcdefuser@h/v1?state=completed&client_secret=open+sesame", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Authorization": {"Bearer ab/cd+ef&gh/ij==kl"}, "Cookie": {"lang=en; session=of-the-night; p=m\u00fcnchen0123456789"},
		"X-Api-Key": {`100%\\25pass%2Fword`}, "X-Amzn-Bedrock-Accept": {"application/json"}, "X-Amz-Security-Token": {"letters-only"},
	}
	for in, want := range map[string]string{
		`{"m":"ab\/cd+ef&gh\/ij==kl"}`:                           `{"m":"REDACTED"}`,
		`{"m":"AB\/CD\u002bEF\u0026gh\/ij\u003D=kl."}`:           `{"m":"REDACTED."}`,
		`{"m":"{\"m\":\"ab\\/cd\\u002Bef&gh\\\/ij==kl\"}"}`:      `{"m":"{\"m\":\"REDACTED\"}"}`,
		"https://h/?k=ab%2Fcd%2bef%26gh%2Fij%3D%3Dkl&m=1":        "https://h/?k=REDACTED&m=1",
		"open sesame, open+sesame, open%20sesame":                "REDACTED, REDACTED, REDACTED",
		`M\u00fcnchen0123456789 M\u00FCnchen0123456789`:          "REDACTED REDACTED",
		"of-the-night, 0123456789abcdefuser, letters-only":       "REDACTED, REDACTED, REDACTED",
		"completed application/json":                             "completed application/json",
		`100%\\25pass%2Fword k=100%25%5C%5C25pass%252Fword`:      "REDACTED k=REDACTED",
		`ab/cd+ef&gh/ij==k, ab\\x2fcd, ab%zz, ab%2, ab\u00, ab\`: `ab/cd+ef&gh/ij==k, ab\\x2fcd, ab%zz, ab%2, ab\u00, ab\`,
	} {
		if got := redact.Sent(in, req); got != want {
			t.Errorf("%s:\n got %s\nwant %s", in, got, want)
		}
	}
}

// FuzzSent: what was sent is not there any more, in whatever text it stood.
func FuzzSent(f *testing.F) {
	f.Add("wrong key ", ".", "ab/cd+ef&gh/ij==kl")
	f.Add(`{"m":"\\`, `\u00`, `\\/%2f%+ aA`)
	f.Fuzz(func(t *testing.T, before, after, key string) {
		if len(key) < 8 || strings.ContainsAny(key, "DRdr") {
			return // beside the mark it could be there again
		}
		req := &http.Request{Header: http.Header{"X-Api-Key": {key}}}
		if got := redact.Sent(before+key+after, req); strings.Contains(got, key) {
			t.Errorf("%q is in %q", key, got)
		}
	})
}
