package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/retry"
)

// R15, T43: status, header, body and counts are there after the last attempt.
func TestTheErrorAfterTheLastAttempt(t *testing.T) {
	t.Parallel()
	srv := serve(t, newScript(step{
		status: 429, header: "X-Request-Id: req-7\nSet-Cookie: secret=1\nContent-Type: application/json",
		body: `{"error":{"message":"database unavailable","type":"tokens","code":"rate_limit_exceeded"}}`,
	}))
	r := mustNew(t, noWait(retry.Config{Attempts: 3}))
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	resp, err := retry.NewTransport(base, r).RoundTrip(post(t, srv.URL, "{}"))
	if resp != nil || err == nil {
		t.Fatalf("RoundTrip = %v, %v", resp, err)
	}
	e := asError(t, err)
	equal(t, "calls, status", []int{e.Calls, e.Status}, []int{3, 429})
	equal(t, "code", e.Code, "rate_limit_exceeded")
	if !bytes.Contains(e.Body, []byte("rate_limit_exceeded")) {
		t.Errorf("body head %q", e.Body)
	}
	if e.Header.Get("X-Request-Id") != "req-7" || e.Header.Get("Set-Cookie") != "" {
		t.Errorf("header %v", e.Header)
	}
	for _, s := range []string{"429", "3 calls", "database unavailable", "rate_limit_exceeded"} {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in %q", s, err)
		}
	}
}

func TestALongBodyIsCutWithAMark(t *testing.T) {
	t.Parallel()
	sc := newScript(step{status: 503, header: "Content-Type: text/html", body: "<html>gateway " + strings.Repeat("é", 9000)})
	_, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
	e := asError(t, err)
	equal(t, "head", len(e.Body), 8<<10)
	if s := err.Error(); !strings.Contains(s, "<html>gateway") || !strings.HasSuffix(s, "...") || len(s) > 1000 {
		t.Errorf("text %q", s)
	}
}

func TestExhaustedModes(t *testing.T) {
	t.Parallel()
	refuse := roundTrip(func(*http.Request) (*http.Response, error) { return nil, refusal{} })
	for _, tc := range []struct {
		name   string
		mode   retry.Exhausted
		sdk    bool
		base   http.RoundTripper
		status int // 0 = an error
	}{
		{"auto", retry.ExhaustedAuto, false, newScript(failWith(503)), 0},
		{"auto, a final answer", retry.ExhaustedAuto, false, newScript(failWith(404)), 404},
		{"auto, an SDK", retry.ExhaustedAuto, true, newScript(failWith(529)), 529},
		{"auto, an SDK and a final answer", retry.ExhaustedAuto, true, newScript(failWith(400)), 400},
		{"auto, an SDK and a refusal", retry.ExhaustedAuto, true, refuse, 503},
		{"auto, an SDK and an empty answer", retry.ExhaustedAuto, true, newScript(step{status: 200, body: `{"choices":[]}`}), 503},
		{"auto, an SDK and a dead connection", retry.ExhaustedAuto, true, newScript(step{err: io.ErrUnexpectedEOF}), 503},
		{"error, an SDK", retry.ExhaustedError, true, newScript(failWith(503)), 0},
		{"error, a refusal", retry.ExhaustedError, false, refuse, 0},
		{"response", retry.ExhaustedResponse, false, newScript(failWith(503)), 503},
		{"response, a refusal", retry.ExhaustedResponse, false, refuse, 503},
	} {
		r := mustNew(t, noWait(retry.Config{Exhausted: tc.mode}))
		req := post(t, "http://upstream/", "{}")
		if tc.sdk {
			req.Header.Set("X-Stainless-Retry-Count", "0")
		}
		resp, err := retry.NewTransport(tc.base, r).RoundTrip(req)
		if tc.status == 0 {
			if resp != nil || err == nil {
				t.Errorf("%s: RoundTrip = %v, %v", tc.name, resp, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		equal(t, tc.name+": status", resp.StatusCode, tc.status)
		equal(t, tc.name+": request", resp.Request == req, true)
		teller, told := resp.Body.(interface{ Err() error })
		stamped := resp.Header.Get("X-Should-Retry") == "false"
		if want := tc.sdk || tc.mode == retry.ExhaustedResponse; told != want || stamped != want {
			t.Errorf("%s: body tells %v, stamped %v, want both %v", tc.name, told, stamped, want)
		}
		if told {
			asError(t, teller.Err())
		}
		if b := readAll(t, resp); b == "" {
			t.Errorf("%s: no body", tc.name)
		}
		equal(t, tc.name+": done", r.Stats().Done, 0)
	}
}

// T81: an SDK's loop around our chain makes one pass when a guard refuses.
func TestAnSDKsLoopMakesOnePass(t *testing.T) {
	t.Parallel()
	passes := 0
	base := roundTrip(func(*http.Request) (*http.Response, error) { passes++; return nil, refusal{} })
	c := &http.Client{Transport: retry.NewTransport(base, mustNew(t, retry.Config{}))}
	var last *http.Response
	for n := range 3 { // retry on error, obey X-Should-Retry
		req := post(t, "http://upstream/", "{}")
		req.Header.Set("X-Stainless-Retry-Count", itoa(n))
		resp, err := c.Do(req)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = resp.Body.Close()
		last = resp
		if resp.Header.Get("X-Should-Retry") == "false" {
			break
		}
	}
	equal(t, "passes", passes, 1)
	equal(t, "status", last.StatusCode, 503)
}

func TestXShouldRetry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		step  step
		calls int
	}{
		{failWith(429, "X-Should-Retry: false"), 1},
		{failWith(400, "X-Should-Retry: true"), 4},
	} {
		sc := newScript(tc.step)
		resp, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
		if err == nil {
			_ = resp.Body.Close()
		}
		equal(t, itoa(tc.step.status)+": calls", sc.calls(), tc.calls)
	}
}

func TestForeignRetriesAreCountedAndReportedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := mustNew(t, noWait(retry.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	rt := retry.NewTransport(newScript(good), r)
	for _, h := range []struct{ k, v string }{
		{"X-Stainless-Retry-Count", "0"},
		{"X-Stainless-Retry-Count", "1"},
		{"X-Stainless-Retry-Count", "2"},
		{"Amz-Sdk-Request", "attempt=1; max=3"},
		{"Amz-Sdk-Request", "ttl=20260101T000000Z; attempt=2; max=3"},
		{"Amz-Sdk-Request", "attempt=x"},
	} {
		req := post(t, "http://upstream/", "{}")
		req.Header.Set(h.k, h.v)
		resp, err := rt.RoundTrip(req)
		noError(t, err)
		_ = resp.Body.Close()
	}
	equal(t, "counted", r.Stats().Foreign, 3)
	equal(t, "reported", strings.Count(log.String(), "calls multiply"), 1)
}

// A refused item has not failed, and the log does not say so.
func TestLogTellsRefusalsFromFailures(t *testing.T) {
	t.Parallel()
	for want, fails := range map[string]error{
		` msg="retry: gave up" retrier=retry item="" calls=1 .* refused_by="" `:      errors.New("bad request"),
		` msg="retry: gave up" retrier=retry item="" calls=0 .* refused_by=breaker `: refusal{},
	} {
		var log bytes.Buffer
		r := mustNew(t, noWait(retry.Config{Attempts: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		err := r.Do(t.Context(), func(context.Context) error { return fails })
		if err == nil || !regexp.MustCompile(want).MatchString(log.String()) {
			t.Errorf("%v: %s", err, log.String())
		}
	}
}

// No key of a URL or header is in an error's text.
func TestErrorTextsAreScrubbed(t *testing.T) {
	t.Parallel()
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("Post %q: connection reset, sent Authorization: Bearer sk-abcdefghijklmnopqrstuvwxyz123456", req.URL)
	})
	var log bytes.Buffer
	r := mustNew(t, noWait(retry.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	_, err := retry.NewTransport(base, r).RoundTrip(post(t, "http://upstream/v1?key=AIzaSyA1234567890abcdefghijklmnopqrstuv", "{}"))
	for what, s := range map[string]string{"error": err.Error(), "log": log.String()} {
		for _, secret := range []string{"AIzaSyA", "sk-abcdef"} {
			if strings.Contains(s, secret) {
				t.Errorf("the %s tells a secret: %s", what, s)
			}
		}
	}
}
