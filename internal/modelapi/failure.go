package modelapi

import (
	"strconv"
	"strings"
)

// failure is what a body says of an error.
type failure struct {
	code, typ, status, reason, text string
	outer                           string // the type beside the error, where there is none in it

	number    int // the code where it is an HTTP status
	perDay    bool
	zeroQuota bool
	delay     string
}

// failure is a value that says something of an error.
func (f *facts) failure(n node, b []byte, quoted, null bool) {
	e := &f.err
	switch n {
	case nError:
		// A string, or true. null, false, 0 and "" are no error.
		if quoted && len(b) > 0 {
			e.word(&e.text, b, false)
			f.doc.fails = true
		} else if string(b) == "true" {
			f.doc.fails = true
		}
	case nMessage, nRootText:
		e.word(&e.text, b, null)
	case nErrText:
		e.word(&e.text, b, null)
		f.doc.fails = f.doc.fails || len(b) > 0 && !null
	case nErrCode, nRootCode:
		if i, err := strconv.Atoi(string(b)); err == nil && i >= 100 && i < 600 {
			e.number = i
		}
		if string(b) != "0" {
			e.word(&e.code, b, null)
			f.doc.fails = f.doc.fails || n == nErrCode && len(b) > 0 && !null
		}
	case nErrType:
		e.word(&e.typ, b, null)
		f.doc.fails = f.doc.fails || len(b) > 0 && !null
	case nErrStatus:
		e.word(&e.status, b, null)
		f.doc.fails = f.doc.fails || len(b) > 0 && !null
	case nReason:
		e.word(&e.reason, b, null)
	case nQuotaID:
		e.perDay = e.perDay || strings.Contains(string(b), "PerDay")
	case nQuotaValue:
		e.zeroQuota = e.zeroQuota || string(b) == "0"
	case nRetryDelay:
		e.word(&e.delay, b, null)
	}
}

func (e *failure) word(dst *string, b []byte, null bool) {
	if !null && len(b) > 0 {
		*dst = unescape(b)
	}
}
