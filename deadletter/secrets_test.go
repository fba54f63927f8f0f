package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/signature"
)

// Secrets in the URL, the headers and the error texts of a failing item are in
// no file, log, hook or error of ours, and a replay with fresh ones works.
func TestNoSecretIsKept(t *testing.T) {
	t.Parallel()
	mark := func(i int) string { return fmt.Sprintf("MARKER%02dabcdefghij0123456789KLMNOPQRSTU", i) }
	var logs bytes.Buffer
	dir := t.TempDir()
	j, err := deadletter.StoreConfig{Logger: slog.New(slog.NewTextHandler(&logs, nil))}.Journal(dir)
	if err != nil {
		t.Fatal(err)
	}
	var hooks []deadletter.Record
	q := newQueue(t, deadletter.Config{
		Store: j, Logger: slog.New(slog.NewTextHandler(&logs, nil)), OnDead: func(r deadletter.Record) { hooks = append(hooks, r) },
	})
	dirty := func() *http.Request {
		req := request(t, t.Context(), "item", strings.NewReader("the prompt"))
		u := req.URL
		u.User = url.UserPassword("user", mark(11))
		u.RawQuery = "tenant=7&key=" + mark(0) + "&api_key=" + mark(1) + "&X-Amz-Signature=" + mark(2) + "&access_token=" + mark(3)
		for i, h := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "Proxy-Authorization", "X-Custom-Auth"} {
			req.Header.Set(h, "Bearer "+mark(4+i))
		}
		return req
	}
	bases := []rounds{
		func(req *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("dial %s: Authorization: Bearer %s", req.URL, mark(4))
		},
		func(req *http.Request) (*http.Response, error) {
			return answer(401, `{"error":{"message":"Incorrect API key provided: sk-`+mark(12)+`","code":"invalid_api_key"}}`), nil
		},
		func(*http.Request) (*http.Response, error) { return answer(200, emptyAnswer), nil },
	}
	named := len(bases)
	// An upstream that tells what it was given, in words that name no secret.
	for i := range 12 {
		echo := fmt.Sprintf(`{"error":{"message":"who is %s, or %s?","code":"stranger"}}`, mark(i), strings.ToLower(mark(i)))
		bases = append(bases, func(*http.Request) (*http.Response, error) { return answer(403, echo), nil })
		bases = append(bases, func(*http.Request) (*http.Response, error) { return nil, errors.New(echo) })
	}
	for i, base := range bases {
		_, _, _ = send(deadletter.NewTransport(base, q), dirty())
		client := &http.Client{Transport: deadletter.NewTransport(base, q)}
		if resp, err := client.Do(dirty()); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		if i >= named {
			continue // a function's own client has told nobody what it sent
		}
		_ = q.Do(deadletter.WithItem(t.Context(), "fn"), []byte("the prompt"), func(ctx context.Context) error {
			_, err := (&http.Client{Transport: base}).Do(dirty().WithContext(ctx))
			return errors.Join(err, errors.New("api_key="+mark(1)))
		})
	}
	var all bytes.Buffer
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	sum := summary(t, j)
	fmt.Fprintf(&all, "%s %+v %+v %s", &logs, hooks, sum, q)
	if !strings.Contains(all.String(), "tenant=7") || len(hooks) == 0 || sum.Letters() != 2 {
		t.Fatalf("nothing was kept: %+v", sum)
	}
	if i := strings.Index(strings.ToUpper(all.String()), "MARKER"); i >= 0 {
		t.Errorf("a secret was kept: ...%s...", all.String()[max(0, i-80):i+40])
	}

	// The replay's errors are scrubbed as well.
	r, err := j.Get(t.Context(), deadletter.ID("q", "item"))
	if err != nil {
		t.Fatal(err)
	}
	// Hiding what was echoed does not change what the failure is.
	echo := errors.New(`{"error":{"message":"who is ` + mark(11) + `, or ` + strings.ToLower(mark(11)) + `?","code":"stranger"}}`)
	if want := string(signature.Of(echo)); r.Signature != want || !strings.Contains(r.Err, "who is REDACTED, or REDACTED?") {
		t.Errorf("signature %s, want %s: %s", r.Signature, want, r.Err)
	}
	f := deadletter.Filter{IDs: []string{deadletter.ID("q", "item")}}
	sender := deadletter.HTTPSender{
		Client: &http.Client{Transport: bases[0]},
		Authorize: func(req *http.Request) error {
			u := req.URL.Query()
			u.Set("key", mark(0))
			req.URL.RawQuery = u.Encode()
			return nil
		},
	}
	if rep, err := deadletter.Replay(t.Context(), j, sender.Send, deadletter.Options{Filter: f}); err != nil || rep.Returned != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	sender.Client = &http.Client{Transport: rounds(func(req *http.Request) (*http.Response, error) {
		return answer(403, `{"error":{"message":"who is `+req.URL.Query().Get("key")+`?"}}`), nil
	})}
	if rep, err := deadletter.Replay(t.Context(), j, sender.Send, deadletter.Options{Filter: f}); err != nil || rep.Returned != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	b, err := os.ReadFile(segment(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(bytes.ToUpper(b), []byte("MARKER")) {
		t.Error("the replay's failure holds a secret")
	}
	var key string
	sender.Client = &http.Client{Transport: rounds(func(req *http.Request) (*http.Response, error) {
		key = req.URL.Query().Get("key")
		return answer(200, goodAnswer), nil
	})}
	if rep, err := deadletter.Replay(t.Context(), j, sender.Send, deadletter.Options{Filter: f}); err != nil || rep.Acked != 1 || key != mark(0) {
		t.Errorf("%+v, %v, key %q", rep, err, key)
	}
}

// What is purged is gone from the disk too.
func TestPurgeRemovesPayloadsFromTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openJournal(t, dir)
	put(t, j, "confidential-item", "p")
	put(t, j, "stays", "p")
	c, err := j.Claim(t.Context(), deadletter.ClaimReq{Filter: deadletter.Filter{IDs: []string{deadletter.ID("q", "confidential-item")}}})
	if err != nil || len(c) != 1 {
		t.Fatal(c, err)
	}
	if err := j.Resolve(t.Context(), c[0].Token, deadletter.Outcome{Verb: deadletter.Discard, Reason: "gone"}); err != nil {
		t.Fatal(err)
	}
	// A reader in the middle of a list keeps what it sees.
	for r, err := range j.List(t.Context(), deadletter.Filter{States: []deadletter.State{deadletter.Discarded, deadletter.Dead}}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.ItemID == "confidential-item" {
			if n, err := j.Purge(t.Context(), deadletter.Filter{}); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("confidential-item")) {
			t.Errorf("%s still holds what was purged", f)
		}
	}
	put(t, j, "next", "p")
	if n := len(contents(t, j)); n != 2 {
		t.Errorf("%d letters, want 2", n)
	}
}
