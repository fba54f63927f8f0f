package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/retry"
)

// A web page under 200 is what stands before a model API, not its answer: the
// call is made again. A GET may well ask for a page.
func TestWebPageIsNoAnswer(t *testing.T) {
	t.Parallel()
	page := step{status: 200, header: "Content-Type: text/html", body: "<html><head><title>Please log in</title></head></html>"}
	for _, kind := range []string{"Content-Type: text/html", "Content-Type: application/json", ""} {
		first := page
		first.header = kind
		sc := newScript(first, good)
		resp, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "body", readAll(t, resp), goodBody)
		equal(t, "calls", sc.calls(), 2)
	}

	sc := newScript(page)
	_, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
	e := asError(t, err)
	equal(t, "calls", sc.calls(), 4)
	equal(t, "status", e.Status, 502)
	equal(t, "code", e.Code, "html")
	if !errors.Is(err, retry.ErrBody) || !strings.Contains(err.Error(), "502 Bad Gateway: 200 with an error inside: html: Please log in") {
		t.Errorf("%v", err)
	}

	// Plain text is passed on as it comes, and does not end like a good answer.
	plain := page
	plain.header = "Content-Type: text/plain"
	sc = newScript(plain)
	resp, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		err = errors.Join(err, resp.Body.Close())
	}
	if !errors.Is(err, retry.ErrBody) {
		t.Errorf("a page called plain text: %v", err)
	}

	sc = newScript(page)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://upstream/", nil)
	noError(t, err)
	resp, err = retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(req)
	noError(t, err)
	equal(t, "body of a GET", readAll(t, resp), page.body)
	equal(t, "calls of a GET", sc.calls(), 1)

	// What only calls itself a page is looked at.
	mislabelled := good
	mislabelled.header = page.header
	sc = newScript(mislabelled)
	resp, err = retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
	noError(t, err)
	equal(t, "body of JSON called a page", readAll(t, resp), goodBody)
	equal(t, "calls", sc.calls(), 1)
}

// An error that says no more than its status does is an answer's, not a proxy's
// refusal, and worth another attempt; 407 is final in every form.
func TestStatusTexts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err   error
		calls int
	}{
		{errors.New(http.StatusText(http.StatusTooManyRequests)), 4},
		{errors.New(http.StatusText(http.StatusServiceUnavailable)), 4},
		{errors.New(http.StatusText(http.StatusProxyAuthRequired)), 1},
		{&bareError{407}, 1},
	} {
		n := 0
		err := mustNew(t, noWait(retry.Config{})).Do(t.Context(), func(context.Context) error { n++; return tc.err })
		if n != tc.calls || err == nil {
			t.Errorf("%v: %d calls, want %d, %v", tc.err, n, tc.calls, err)
		}
	}
	sc := newScript(failWith(407))
	resp, err := retry.NewTransport(sc, mustNew(t, noWait(retry.Config{}))).RoundTrip(post(t, "http://upstream/", "{}"))
	noError(t, err)
	readAll(t, resp)
	equal(t, "status", resp.StatusCode, 407)
	equal(t, "calls", sc.calls(), 1)
}
