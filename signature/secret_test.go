package signature_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/signature"
)

// TestSecrets plants credentials where errors carry them. None may be in a
// template, in whole or in a part long enough to be of use.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const (
		key    = "sk-proj-Ab3dEf6hIj9lMnOpQrStUvWx"
		bare   = "zQpLmXkRwTbNvHsY"
		plain  = "correcthorse"
		jwt    = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.dBjftJeZ4CVPmB92K27uhbUJU1p1r_wW1gFWFOEjXk"
		base64 = "bGk/aXQrZm9yL3RoZStuaWdodC93aXRoL3NsYXNoZXMrYW5kL3BsdXMr"
		aws    = "AKIAIOSFODNN7EXAMPLE"
	)
	for _, c := range []struct{ format, secret string }{
		{`Post "https://api.example.net/v1?key=%s": EOF`, plain},
		{`Post "https://api.example.net/v1?a=b&sig=%s": EOF`, bare},
		{`Get "https://user:%s@api.example.net/": EOF`, plain},
		{`Get "https://api.example.net/#access_token=%s": EOF`, bare},
		{"get https://api.example.net/v1?token=%s failed", plain},
		{"dial postgres://app:%s@db.example.net:5432/night failed", plain},
		{"open app:%s@tcp(db:3306)/night: refused", plain},
		{"host=db user=app password=%s dbname=night", plain},
		{"password: %s", plain},
		{`{"user":"x","password":"%s","ok":false}`, plain},
		{`{"client_secret": "%s"}`, "two words"},
		{`body "{\"api_key\":\"%s\"}"`, plain},
		{"Authorization: Bearer %s", plain},
		{"rejected Authorization: Basic %s", "dXNlcjpwYXNz"},
		{"Bearer %s is not valid", bare},
		{"x-api-key: %s", plain},
		{"Api-Key=%s", plain},
		{"X-Goog-Api-Key: %s", bare},
		{"Set-Cookie: %s", plain},
		{"invalid api key: %s", plain},
		{"wrong key %s", key},
		{"wrong key '%s' given", key},
		{"token %s is expired", jwt},
		{"credential %s unknown", aws},
		{"key %s refused", "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY"},
		{"hook %s gone", "xoxb-123456789012-abcdefABCDEF"},
		{"push with %s denied", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"},
		{"blob %s refused", base64},
		{"-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY----- is no key", base64 + "\n" + plain},
		{"AccountKey=%s;EndpointSuffix=x", bare + "=="},
		{"secret = %s", plain},
		{"session=%s; path=/", plain},
	} {
		msg := fmt.Sprintf(c.format, c.secret)
		for _, err := range []error{errors.New(msg), fmt.Errorf("item 5: %w", errors.New(msg))} {
			got := signature.Explain(err).Template
			for n := 0; n+6 <= len(c.secret); n++ {
				if part := strings.ToLower(c.secret[n : n+6]); strings.Contains(got, part) && !strings.Contains(strings.ToLower(c.format), part) {
					t.Errorf("%q is in the template of %q: %q", part, msg, got)
					break
				}
			}
		}
	}
	err := &url.Error{Op: "parse", URL: "http://bad host/?key=" + plain, Err: errors.New("invalid character in host name")}
	if got := signature.Explain(err).Template; strings.Contains(got, plain) {
		t.Errorf("a URL that does not parse shows its query: %q", got)
	}
}
