package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/inspect"
)

// Secrets in the URL, the headers and the errors of an item that failed are in
// no file, no output, no page and no metric, also when the upstream echoes them
// and a replay fails in turn; and a replay with a fresh credential works
// (clusterzx/paperless-ai#966).
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	mark := func(i int) string { return fmt.Sprintf("MARKER%02dabcdefghij0123456789KLMNOPQRSTU", i) }
	const fresh = "sk-test-marker-4711" // what the command finds in TEST_KEY
	var known atomic.Bool               // the upstream knows the fresh one
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "application/json")
		if auth := req.Header.Get("Authorization"); !known.Load() || auth != "Bearer "+fresh {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s, api_key=%s","code":"invalid_api_key"}}`, auth, req.URL.Query().Get("key"))
			return
		}
		_, _ = io.WriteString(w, goodAnswer)
	}))
	t.Cleanup(srv.Close)

	dir := filepath.Join(t.TempDir(), "letters")
	j, err := deadletter.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	q, err := deadletter.New(deadletter.Config{Name: "nightly", Store: j})
	if err != nil {
		t.Fatal(err)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	for i, base := range []string{srv.URL, gone.URL} {
		ctx := deadletter.WithItem(t.Context(), fmt.Sprint("doc-", i))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.URL.User = url.UserPassword("user", mark(0))
		req.URL.RawQuery = "tenant=7&key=" + mark(1) + "&sig=" + mark(2)
		for k, h := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "Proxy-Authorization"} {
			req.Header.Set(h, "Bearer "+mark(3+k))
		}
		if resp, err := (&http.Client{Transport: deadletter.NewTransport(nil, q)}).Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}

	var all bytes.Buffer
	run := func(args ...string) {
		r := cli(t, args...)
		fmt.Fprintf(&all, "%s\n%s%s", args, r.out, r.errs)
	}
	host := strings.TrimPrefix(srv.URL, "http://")
	replay := []string{"replay", dir, "-yes", "-auth-env", "TEST_KEY", "-auth-host", host, "-attempts", "1"}
	run(replay...)
	run(append(replay, "-json")...)
	for _, verb := range []string{"ls", "groups", "export", "verify"} {
		run(verb, dir)
		run(verb, dir, "-json")
	}
	for _, verb := range []string{"show", "payload"} {
		run(verb, dir, "doc-0")
		run(verb, dir, "doc-1", "-json")
	}
	look, err := deadletter.StoreConfig{ReadOnly: true}.Journal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer look.Close()
	h, err := inspect.New(inspect.Config{Store: look, Queues: []*deadletter.Queue{q}, Logger: slog.New(slog.NewTextHandler(&all, nil))})
	if err != nil {
		t.Fatal(err)
	}
	id := deadletter.ID("nightly", "doc-0")
	for _, path := range []string{"/", "/list", "/item?id=" + id, "/item?id=" + deadletter.ID("nightly", "doc-1"), "/payload?id=" + id, "/metrics", "/healthz"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d", path, w.Code)
		}
		fmt.Fprintf(&all, "%s %v %s", path, w.Header(), w.Body)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s %s", f, b)
	}
	for _, want := range []string{"tenant=7", "invalid_api_key", "connection refused", "nightly"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("%q is nowhere: what is looked through is not what is meant", want)
		}
	}
	for _, secret := range []string{"MARKER", fresh} {
		if i := strings.Index(all.String(), secret); i >= 0 {
			t.Errorf("a secret is shown: ...%s...", all.String()[max(0, i-200):i+40])
		}
	}

	known.Store(true)
	cli(t, append(replay, "doc-0", "-state", "dead,quarantined")...).want(t, 0, "1 acked")
}
