package modelapi

import (
	"bytes"
	"net/http"
)

// A captive portal and a content network answer a POST with 200 and a web page.
// No model API does.

// pageCode is the code of such an answer.
const pageCode = "html"

// posted reports whether req is a POST, or a redirect's GET that came of one.
func posted(req *http.Request) bool {
	for range 16 {
		switch {
		case req == nil:
			return false
		case req.Method == http.MethodPost:
			return true
		case req.Response == nil:
			return false
		}
		req = req.Response.Request
	}
	return false
}

var pageBegins = [...]string{"<!doctype html", "<html"}

// isPage reports whether b, the begin of a body, is a web page's, and whether
// there is enough of it to tell.
func isPage(b []byte) (page, decided bool) {
	b = bytes.TrimLeft(b, " \t\r\n\ufeff")
	decided = true
	for _, begin := range pageBegins {
		n := min(len(b), len(begin))
		if !bytes.EqualFold(b[:n], []byte(begin[:n])) {
			continue
		}
		if n == len(begin) {
			return true, true
		}
		decided = false
	}
	return false, decided
}

// webPage reports whether a 2xx answer is a web page in place of an answer.
func (v *View) webPage() bool {
	if v.status == http.StatusNoContent || v.status == http.StatusResetContent {
		return false
	}
	if v.page || !v.posted || !v.streaming || v.mode == opaque {
		return v.page
	}
	page, _ := isPage(v.head)
	return page
}

// MayBePage reports whether the answer is a web page by its headers where a
// model's answer should be. Its first byte can tell otherwise.
func (v *View) MayBePage() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.page
}
