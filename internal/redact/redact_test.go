package redact_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/redact"
)

func TestURL(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want string }{
		{"https://api.example.com/v1/chat/completions", "https://api.example.com/v1/chat/completions"},
		{"https://h/v1beta/models/m:generateContent?key=AIzaX&alt=sse", "https://h/v1beta/models/m:generateContent?key=REDACTED&alt=sse"},
		{"https://h/?alt=sse&KEY=x", "https://h/?alt=sse&KEY=REDACTED"},
		{"https://h/?api_key=x&api-key=y&apikey=z&Api.Key=w", "https://h/?api_key=REDACTED&api-key=REDACTED&apikey=REDACTED&Api.Key=REDACTED"},
		{"https://h/?token=a&access_token=b&refresh_token=c", "https://h/?token=REDACTED&access_token=REDACTED&refresh_token=REDACTED"},
		{"https://h/?sig=a&Signature=b&X-Amz-Signature=c&X-Amz-Credential=d&x-goog-signature=e", "https://h/?sig=REDACTED&Signature=REDACTED&X-Amz-Signature=REDACTED&X-Amz-Credential=REDACTED&x-goog-signature=REDACTED"},
		{"https://h/?password=a&client_secret=b&code=c&state=d", "https://h/?password=REDACTED&client_secret=REDACTED&code=REDACTED&state=REDACTED"},
		{"https://h/?a%70i_key=x", "https://h/?a%70i_key=REDACTED"},
		{"https://h/?key=a=b&key=&key", "https://h/?key=REDACTED&key=&key"},
		{"https://h/?key=REDACTED", "https://h/?key=REDACTED"},
		{"https://h/?max_tokens=5&monkey=1&keyword=2&tokens=3", "https://h/?max_tokens=5&monkey=1&keyword=2&tokens=3"},
		{"https://user:pass@h/p", "https://h/p"},
		{"https://user@h/p", "https://h/p"},
		{"http://user@//p", "http:////p"},
		{"//user:pass@h//p", "//h//p"},
		{"//user:pass@//p", "//@//p"},
		{"https://h/#access_token=x&b=1", "https://h/#access_token=REDACTED&b=1"},
		{"https://h/keys/sk-0123456789abcdef/use", "https://h/keys/REDACTED/use"},
		{"https://h/?q=%zz&key=x", "https://h/?q=%zz&key=REDACTED"},
		{"", ""},
	}
	for _, tt := range tests {
		u, err := url.Parse(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		if got := redact.URL(u); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.in, got, tt.want)
		}
		if u.String() != tt.in {
			t.Errorf("%s was modified: %s", tt.in, u)
		}
	}
	if got := redact.URL(nil); got != "" {
		t.Error(got)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	const k = "0123456789abcdefABCDEF"
	tests := []struct{ in, want string }{
		// Keys by their shape.
		{"key sk-" + k + " is invalid", "key REDACTED is invalid"},
		{"sk-proj-" + k, "REDACTED"},
		{"sk-ant-api03-" + k + "-x_y", "REDACTED"},
		{"Incorrect API key provided: sk-proj-****************cdef.", "Incorrect API key provided: REDACTED"},
		{"AIzaSy" + k, "REDACTED"},
		{"ghp_" + k + ", gho_" + k + ", github_pat_" + k, "REDACTED, REDACTED, REDACTED"},
		{"AKIAIOSFODNN7EXAMPLE", "REDACTED"},
		{"xai-" + k + " gsk_" + k + " hf_" + k, "REDACTED REDACTED REDACTED"},
		{"(eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc)", "(REDACTED)"},

		// Schemes.
		{"Authorization: Bearer abc.def", "Authorization: Bearer REDACTED"},
		{"authorization=bearer secret", "authorization=bearer REDACTED"},
		{"Proxy-Authorization: Basic dXNlcjpwYXNz==", "Proxy-Authorization: Basic REDACTED"},
		{"invalid Bearer token", "invalid Bearer token"},
		{"use Basic authentication", "use Basic authentication"},
		{`WWW-Authenticate: Basic realm="x"`, `WWW-Authenticate: Basic realm="x"`},
		{"the bearer", "the bearer"},
		{"basically fine", "basically fine"},

		// Pairs.
		{"api_key=x1", "api_key=REDACTED"},
		{`{"api_key":"x1","model":"m"}`, `{"api_key":"REDACTED","model":"m"}`},
		{`{\"apiKey\": \"x1\"}`, `{\"apiKey\": \"REDACTED\"}`},
		{"x-api-key: abcdef", "x-api-key: REDACTED"},
		{"password='p w'; next", "password='REDACTED'; next"},
		{"client_secret = abc, x", "client_secret = REDACTED, x"},
		{"Signature=abc/def+gh==", "Signature=REDACTED"},
		{"Credential=a1b2c3d4e5f6g7h8i9", "Credential=REDACTED"},
		{"token=" + k, "token=REDACTED"},
		{"code=" + k, "code=REDACTED"},
		{"Cookie: session=abc", "Cookie: REDACTED"},
		{"invalid_api_key: hunter2x", "invalid_api_key: REDACTED"},
		{`"invalid_api_key":"hunters"`, `"invalid_api_key":"REDACTED"`},
		{"invalid_api_key=hunters", "invalid_api_key=REDACTED"},
		{"valid_api_key: hunters", "valid_api_key: REDACTED"},
		{"nopassword: hunters", "nopassword: REDACTED"},
		{"password: hunters", "password: REDACTED"},

		// URLs.
		{`Post "https://h/m?key=AIza1&alt=sse": EOF`, `Post "https://h/m?key=REDACTED&alt=sse": EOF`},
		{"GET https://u:p@h/x failed", "GET https://h/x failed"},
		{"GET https://u:p@ss@h/x failed", "GET https://h/x failed"},
		{"mail to a@b.example about http://h/", "mail to a@b.example about http://h/"},

		// What tells failures apart stays.
		{"", ""},
		{"openai: 429 insufficient_quota (type tokens, code rate_limit_exceeded)", "openai: 429 insufficient_quota (type tokens, code rate_limit_exceeded)"},
		{"exit code=1, key=42", "exit code=1, key=42"},
		{"status code: 503", "status code: 503"},
		{"error code: context_length_exceeded_1", "error code: context_length_exceeded_1"},
		{"token: unexpected end", "token: unexpected end"},
		{"secret: not found", "secret: not found"},
		{"invalid_api_key: Incorrect API key provided.", "invalid_api_key: Incorrect API key provided."},
		{"missing_api_key: Please provide one", "missing_api_key: Please provide one"},
		{"InvalidSignature: Expected another", "InvalidSignature: Expected another"},
		{"incorrect password: Access denied", "incorrect password: Access denied"},
		{"invalid-access-token: Unauthorized.", "invalid-access-token: Unauthorized."},
		{`"password":null`, `"password":null`},
		{"sk-learn and task-0123456789abcdef", "sk-learn and task-0123456789abcdef"},
		{"req_0123456789abcdef", "req_0123456789abcdef"},
		{"dial tcp 127.0.0.1:80: connect: connection refused", "dial tcp 127.0.0.1:80: connect: connection refused"},
		{"Limit 10000, Requested 15000", "Limit 10000, Requested 15000"},
		{"ключ=Привет", "ключ=Привет"},
	}
	for _, tt := range tests {
		got := redact.Text(tt.in)
		if got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.in, got, tt.want)
		}
		if again := redact.Text(got); again != got {
			t.Errorf("%s: a second time changes it to %s", got, again)
		}
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	in := http.Header{
		"Content-Type": {"application/json"}, "Accept": {"a", "b"}, "accept": {"c"}, "Content-Encoding": {"gzip"}, "anthropic-version": {"2023-06-01"},
		"Anthropic-Beta": {"x"}, "Openai-Beta": {"y"}, "Idempotency-Key": {"item-1"},
		"Authorization": {"Bearer x"}, "Proxy-Authorization": {"Basic x"}, "Cookie": {"a=b"}, "Set-Cookie": {"a=b"}, "X-Api-Key": {"x"},
		"Api-Key": {"x"}, "X-Goog-Api-Key": {"x"}, "X-Amz-Security-Token": {"x"}, "X-Unheard-Of-Secret": {"x"}, "User-Agent": {"me"},
	}
	want := http.Header{
		"Content-Type": {"application/json"}, "Accept": {"a", "b", "c"}, "Content-Encoding": {"gzip"}, "Anthropic-Version": {"2023-06-01"},
		"Anthropic-Beta": {"x"}, "Openai-Beta": {"y"}, "Idempotency-Key": {"item-1"},
	}
	got := redact.Header(in)
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
	got["Accept"][0] = "changed"
	if in["Accept"][0] != "a" {
		t.Error("the values are shared")
	}
	if h := redact.Header(http.Header{"Authorization": {"x"}}); h != nil {
		t.Error(h)
	}
}

func TestErr(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	inURL := &url.Error{Op: "Post", URL: `https://h/m?key=AIza1&q="x"`, Err: down}
	tests := []struct {
		err   error
		limit int
		want  string
	}{
		{nil, 100, ""},
		{down, 100, "connection refused"},
		{down, 10, "connection"},
		{down, 0, ""},
		{down, -1, ""},
		{inURL, 100, "Post: connection refused"},
		{fmt.Errorf("item 7: %w", inURL), 100, "item 7: Post: connection refused"},
		{errors.Join(down, inURL), 100, "connection refused\nPost: connection refused"},
		{errors.New("Bearer 0123456789"), 100, "Bearer REDACTED"},
		{errors.New("a\xffb"), 100, "a\ufffdb"},
		{errors.New("aü"), 2, "a"},
		{errors.New("a\u65e5\u672c"), 6, "a\u65e5"},
	}
	for _, tt := range tests {
		if got := redact.Err(tt.err, tt.limit); got != tt.want {
			t.Errorf("%v at %d: %q, want %q", tt.err, tt.limit, got, tt.want)
		}
	}
}

// TestErrOfARealClient: http.Client prints the URL with its key, and the cut
// must not come before the scrub.
func TestErrOfARealClient(t *testing.T) {
	t.Parallel()
	_, err := http.Get("http://127.0.0.1:99999/m?key=topsecret&alt=sse")
	if err == nil || !strings.Contains(err.Error(), "topsecret") {
		t.Fatalf("nothing to hide in %v", err)
	}
	for limit := range 120 {
		got := redact.Err(fmt.Errorf("call: %w", err), limit)
		if strings.Contains(got, "top") || len(got) > limit {
			t.Fatalf("at %d: %s", limit, got)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{
		"Authorization: Bearer abcdef", `{"api_key":"x"}`, "https://u:p@h/?key=v#access_token=w", "sk-0123456789 AIza0123456789",
		"token=0123456789abcdef", "Basic a=b=c", "password='x\"y'", "://@@/", "a=b&c=d", "key=\xff\xfe", "Bearer Bearer Bearer abcd",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := redact.Text(s)
		if twice := redact.Text(once); twice != once {
			t.Errorf("%q, then %q", once, twice)
		}
		if utf8.ValidString(s) && !utf8.ValidString(once) {
			t.Errorf("%q became %q", s, once)
		}
		if got := redact.Err(errors.New(s), 40); len(got) > 40 || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
		// A key surrounded by anything but key characters is never shown.
		const key = "sk-abcdefghij0123456789"
		if got := redact.Text(s + " " + key + " " + s); strings.Contains(got, key) {
			t.Errorf("%q", got)
		}
	})
}

func FuzzURL(f *testing.F) {
	f.Add("https://u:p@h/p?key=v&x=y#token=z")
	f.Add("https://h/?KEY=topsecret")
	f.Add("//?sig=a;b&&=&")
	f.Add("keY=?00000A000000000 ")
	f.Add("keY=?0000\"A000{000000")
	f.Add("//@//")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil {
			return
		}
		before := u.String()
		once := redact.URL(u)
		if u.String() != before {
			t.Errorf("%q was modified", s)
		}
		if again, err := url.Parse(once); err == nil {
			if twice := redact.URL(again); twice != once {
				t.Errorf("%q: %q, then %q", s, once, twice)
			}
		}
		q := u.Query()
		if v := q.Get("api_key"); len(v) > 3 && !strings.Contains("REDACTED", v) && strings.Contains(once, "api_key="+url.QueryEscape(v)) {
			t.Errorf("%q shows it", once)
		}
	})
}

func BenchmarkText(b *testing.B) {
	for name, s := range map[string]string{
		"clean":  `openai: 429 Too Many Requests: Rate limit reached for gpt on tokens per min (TPM): Limit 200000, Used 199100, Requested 7147.`,
		"secret": `Post "https://h/m?key=AIza0123456789&alt=sse": authorization: Bearer sk-0123456789abcdef refused by the server of the day`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			b.ReportAllocs()
			for b.Loop() {
				redact.Text(s)
			}
		})
	}
}
