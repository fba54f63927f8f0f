package modelapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// A captive portal, a content network and a proxy answer a POST with 200 and a
// web page. That is no answer of a model API.
func TestWebPages(t *testing.T) {
	t.Parallel()
	const html = "Content-Type: text/html; charset=utf-8\n"
	asked := func(method string) *http.Request { return &http.Request{Method: method} }
	post, get := asked(http.MethodPost), asked(http.MethodGet)
	moved := asked(http.MethodGet)
	moved.Response = &http.Response{StatusCode: 302, Request: post}
	page := func(text string) modelapi.Verdict {
		return modelapi.Verdict{Class: modelapi.ServerError, Status: 200, Inner: 502, Code: "html", Text: text, InBody: true, Ended: true}
	}
	fine := modelapi.Verdict{Class: modelapi.OK, Status: 200, Ended: true}
	const portal = "<!DOCTYPE html>\n<html><head><title>Please log in</title></head></html>"
	const chat = `{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`
	for name, c := range map[string]struct {
		req          *http.Request
		header, body string
		want         modelapi.Verdict
	}{
		"a portal":                   {post, html, portal, page("Please log in")},
		"upper case":                 {post, "Content-Type: TEXT/HTML\n", "<HTML><TITLE>Hi</TITLE>", page("Hi")},
		"XHTML":                      {post, "Content-Type: application/xhtml+xml\n", portal, page("Please log in")},
		"white space first":          {post, html, "\ufeff \r\n" + portal, page("Please log in")},
		"no title":                   {post, html, "<html>please log in</html>", page("")},
		"a title with attributes":    {post, html, "<html><title data-x=1>Hi</title>", page("Hi")},
		"almost a title":             {post, html, "<html><titles>Hi</titles>", page("")},
		"Latin-1":                    {post, html, "<html><!-- \xe9\xe9 --><title>Hors service</title>", page("Hors service")},
		"longer in lower case":       {post, html, "<html><!-- \u023a --><title>Kapal\u0131</title>", page("Kapal\u0131")},
		"shorter in lower case":      {post, html, "<html><!-- \u0130\u212a --><TITLE>Hi</TITLE>", page("Hi")},
		"nothing in the title":       {post, html, "<html>\xe9\xe9\xe9<title>", page("")},
		"text called HTML":           {post, html, "please log in", page("please log in")},
		"nothing, called HTML":       {post, html, "", page("")},
		"compressed":                 {post, html + "Content-Encoding: gzip\n", "\x1f\x8b\x08", page("")},
		"after a redirect":           {moved, html, portal, page("Please log in")},
		"called JSON":                {post, jsonType, portal, page("Please log in")},
		"called text":                {post, "Content-Type: text/plain\n", "  <html lang=en>", page("")},
		"called nothing":             {post, "", portal, page("Please log in")},
		"called events":              {post, sseType, portal, page("")},
		"request unknown":            {nil, html, portal, page("Please log in")},
		"request unknown, no type":   {nil, "", portal, fine},
		"a GET":                      {get, html, portal, fine},
		"a GET, called nothing":      {get, "", portal, fine},
		"JSON called HTML":           {post, html, chat, fine},
		"an answer in markup":        {post, "Content-Type: text/plain\n", "<answer>hi</answer>", fine},
		"almost a page":              {post, "Content-Type: text/plain\n", "<!doctype htm", fine},
		"markup, called text, a GET": {get, "Content-Type: text/plain\n", "<html>", fine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, chunk := range chunks {
				resp := response(200, c.header, c.body, chunk)
				resp.Request = c.req
				got := watched(t, resp, c.body)
				if d := cmp.Diff(got, c.want); d != "" {
					t.Errorf("in chunks of %d (-got +want):\n%s", chunk, d)
				}
			}
		})
	}
	for status, want := range map[int]modelapi.Class{204: modelapi.OK, 302: modelapi.OK, 403: modelapi.Auth, 503: modelapi.Overloaded} {
		resp := response(status, html, portal, 0)
		resp.Request = post
		if got := modelapi.Watch(nil, resp, noon).Verdict(); got.Class != want || got.InBody {
			t.Errorf("%d: %v, in the body %v, want %v", status, got.Class, got.InBody, want)
		}
	}
}

// A page is known by its headers until its first byte tells otherwise.
func TestMayBePage(t *testing.T) {
	t.Parallel()
	resp := response(200, "Content-Type: text/html\n", `{"a":1}`, 0)
	resp.Request = &http.Request{Method: http.MethodPost}
	v := modelapi.Watch(nil, resp, noon)
	if d := v.Verdict(); !v.MayBePage() || d.Class != modelapi.ServerError || !d.InBody {
		t.Errorf("before the body: %+v", d)
	}
	if _, _, err := v.Hold(100, time.Minute); err != nil {
		t.Fatal(err)
	}
	if d := v.Verdict(); v.MayBePage() || d.Class != modelapi.OK {
		t.Errorf("after the body: %+v", d)
	}
}
