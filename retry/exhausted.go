package retry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
)

// failed returns what the caller gets for an item that has ended with err.
func (s *sender) failed(err error) (*http.Response, error) {
	a := s.cur
	e := err.(*Error)
	asResponse := s.asResponse() && s.loop.ctx.Err() == nil
	asItCame := a != nil && a.resp.StatusCode >= 400 && (asResponse || errors.Is(e.Cause, ErrFinal))
	if asItCame {
		s.cur = nil
		a.restore()
		if asResponse {
			a.resp.Header = a.resp.Header.Clone()
			a.resp.Header.Set("X-Should-Retry", "false")
			a.resp.Body = &told{a.resp.Body, e}
		}
		return a.resp, nil
	}
	if asResponse {
		return synthetic(s.req, e), nil
	}
	return nil, e
}

// asResponse reports whether the caller wants responses for failures.
func (s *sender) asResponse() bool {
	switch s.t.r.cfg.Exhausted {
	case ExhaustedResponse:
		return true
	case ExhaustedAuto:
		return s.req.Header.Get("X-Stainless-Retry-Count") != ""
	}
	return false
}

// told is a body that knows why the item failed.
type told struct {
	io.ReadCloser
	err error
}

// Err returns the *Error behind the response.
func (t *told) Err() error { return t.err }

// synthetic is the response for a failure that came with none of 400 or above.
func synthetic(req *http.Request, e *Error) *http.Response {
	kind := "nightfuse_failed"
	if by := e.RefusedBy(); by != "" {
		kind = "nightfuse_refused_by_" + by
	}
	var body struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	body.Error.Message, body.Error.Type, body.Error.Code = e.Error(), kind, e.Code
	if e.Code == "" {
		body.Error.Code = kind
	}
	data, err := json.Marshal(body)
	if err != nil {
		data = []byte(`{"error":{"type":"` + kind + `"}}`)
	}
	h := http.Header{
		"Content-Type":   {"application/json"},
		"Content-Length": {strconv.Itoa(len(data))},
		"X-Should-Retry": {"false"},
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable)), StatusCode: http.StatusServiceUnavailable,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, ContentLength: int64(len(data)), Request: req,
		Body: &told{io.NopCloser(bytes.NewReader(data)), e},
	}
}

// watchForeign counts requests that a retry of somebody else repeats, and says
// so once: our attempts and theirs multiply.
func (r *Retrier) watchForeign(req *http.Request) {
	if !foreign(req.Header) {
		return
	}
	r.stats.foreign.Add(1)
	if r.cfg.Logger != nil && r.warned.CompareAndSwap(false, true) {
		r.log(req.Context(), slog.LevelWarn, "retry: the SDK above retries too, so that calls multiply; set its retries to 0")
	}
}

// foreign reports whether headers say that this is a repetition by an SDK.
func foreign(h http.Header) bool {
	if len(h["X-Stainless-Retry-Count"]) == 0 && len(h["Amz-Sdk-Request"]) == 0 {
		return false // nearly always
	}
	if s := h.Get("X-Stainless-Retry-Count"); s != "" {
		n, err := strconv.Atoi(s)
		return err == nil && n > 0
	}
	for field := range strings.SplitSeq(h.Get("Amz-Sdk-Request"), ";") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(field), "attempt="); ok {
			n, err := strconv.Atoi(v)
			return err == nil && n > 1
		}
	}
	return false
}
