package modelapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

const good = `{"object":"chat.completion","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2}}`

// attempt returns the box of one round trip.
func attempt() *call.Box {
	b := call.With(context.Background())
	b.BeginWire(1)
	return b
}

func TestOneViewForAllGuards(t *testing.T) {
	t.Parallel()
	resp := response(200, jsonType, good, 0)
	inner := modelapi.Watch(nil, resp, noon)
	if outer := modelapi.Watch(nil, resp, noon); outer != inner {
		t.Error("a second guard does not find the view by the body")
	}
}

// wrapped is a body of one of our own layers.
type wrapped struct{ io.ReadCloser }

func (w wrapped) Unwrap() io.ReadCloser { return w.ReadCloser }

func TestViewUnderOurOwnWrappers(t *testing.T) {
	t.Parallel()
	resp := response(200, jsonType, good, 0)
	inner := modelapi.Watch(nil, resp, noon)
	resp.Body = wrapped{wrapped{resp.Body}}
	if modelapi.Watch(nil, resp, noon) != inner {
		t.Error("a wrapper that says what it wraps hides the view")
	}
	resp.StatusCode = 503 // made up above: another answer
	if modelapi.Watch(nil, resp, noon) == inner {
		t.Error("the view of a 200 serves a 503")
	}
	var endless wrapped
	endless.ReadCloser = &endless
	resp.Body = &endless
	modelapi.Watch(nil, resp, noon)
}

func TestViewAcrossAForeignWrapper(t *testing.T) {
	t.Parallel()
	box := attempt()
	resp := response(200, jsonType, good, 0)
	inner := modelapi.Watch(box, resp, noon)
	resp.Body = struct{ io.ReadCloser }{resp.Body}
	if modelapi.Watch(box, resp, noon) != inner {
		t.Error("a wrapped body hides the view")
	}
	if modelapi.Watch(nil, resp, noon) == inner {
		t.Error("without a box a foreign body cannot have this view")
	}

	// A copy of the response with another body is still this answer.
	copied := *resp
	copied.Body = io.NopCloser(resp.Body)
	if modelapi.Watch(box, &copied, noon) != inner {
		t.Error("a copied response hides the view")
	}
}

func TestAnotherAnswerHasAnotherView(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*http.Response) *http.Response{
		"another status": func(resp *http.Response) *http.Response {
			other := *resp
			other.StatusCode, other.Body = 503, io.NopCloser(strings.NewReader("down"))
			return &other
		},
		"sent again": func(*http.Response) *http.Response { return response(200, jsonType, good, 0) },
		"no header":  func(*http.Response) *http.Response { return &http.Response{StatusCode: 200, Body: &chunked{}} },
	}
	for name, other := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := attempt()
			resp := response(200, jsonType, good, 0)
			inner := modelapi.Watch(box, resp, noon)
			if modelapi.Watch(box, other(resp), noon) == inner {
				t.Error("one view serves two answers")
			}
		})
	}
}

func TestASecondAnswerMakesTheBoxAmbiguous(t *testing.T) {
	t.Parallel()
	// A wrapper between two guards has sent twice. What it returns, in a body
	// of its own, may be either answer or neither.
	box := attempt()
	first := modelapi.Watch(box, response(200, jsonType, good, 0), noon)
	second := modelapi.Watch(box, response(200, jsonType, good, 0), noon)
	resp := response(200, jsonType, good, 0)
	if v := modelapi.Watch(box, resp, noon); v == first || v == second {
		t.Error("a guess which answer it was")
	}
}

func TestOnEndRunsBeforeTheEndReturns(t *testing.T) {
	t.Parallel()
	stream := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	tests := map[string]struct {
		resp *http.Response
		do   func(*testing.T, io.ReadCloser)
	}{
		"EOF": {response(200, jsonType, good, 0), func(t *testing.T, b io.ReadCloser) {
			if _, err := io.ReadAll(b); err != nil {
				t.Error(err)
			}
		}},
		"Close": {response(200, jsonType, good, 0), func(t *testing.T, b io.ReadCloser) {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}},
		"terminal event": {response(200, sseType, stream, 0), func(t *testing.T, b io.ReadCloser) {
			// Through the end of the line [DONE], as SDKs read: not to EOF.
			if _, err := io.ReadFull(b, make([]byte, len(stream)-1)); err != nil {
				t.Error(err)
			}
		}},
		"read error": {&http.Response{StatusCode: 200, Body: &chunked{err: errors.New("reset")}}, func(t *testing.T, b io.ReadCloser) {
			if _, err := b.Read(make([]byte, 8)); err == nil {
				t.Error("no error")
			}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := modelapi.Watch(nil, tt.resp, noon)
			var order []int
			for i := range 5 {
				v.OnEnd(func(modelapi.Verdict) { order = append(order, i) })
			}
			if order != nil {
				t.Fatal("the end came before its time")
			}
			tt.do(t, tt.resp.Body)
			v.OnEnd(func(modelapi.Verdict) { order = append(order, 5) })
			if err := tt.resp.Body.Close(); err != nil {
				t.Error(err)
			}
			if d := cmp.Diff(order, []int{0, 1, 2, 3, 4, 5}); d != "" {
				t.Errorf("(-got +want):\n%s", d)
			}
		})
	}
}

func TestAPanickingHookLosesNothing(t *testing.T) {
	t.Parallel()
	resp := response(200, jsonType, good, 0)
	v := modelapi.Watch(nil, resp, noon)
	var ran []string
	v.OnEnd(func(modelapi.Verdict) { ran = append(ran, "first"); panic("boom") })
	v.OnEnd(func(modelapi.Verdict) { ran = append(ran, "second") })
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v", p)
			}
		}()
		_ = resp.Body.Close()
		t.Error("the panic was swallowed")
	}()
	_ = resp.Body.Close()
	if d := cmp.Diff(ran, []string{"first", "second"}); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}

func TestAHookMayAskTheView(t *testing.T) {
	t.Parallel()
	resp := response(400, jsonType, good, 0)
	v := modelapi.Watch(nil, resp, noon)
	nested := false
	v.OnEnd(func(d modelapi.Verdict) {
		if v.Verdict().Class != d.Class || len(v.Head()) == 0 {
			t.Error("the view does not answer in a hook")
		}
		v.OnEnd(func(modelapi.Verdict) { nested = true })
	})
	_, _ = io.ReadAll(resp.Body)
	if !nested {
		t.Error("a hook given in a hook did not run")
	}
}

func TestClosedEarly(t *testing.T) {
	t.Parallel()
	chunk := func(s string) string {
		return `data: {"choices":[{"index":0,` + s + `}],"usage":{"prompt_tokens":5,"completion_tokens":1}}` + "\n\n"
	}
	tests := map[string]struct {
		header, seen, rest string
		want               modelapi.Verdict
	}{
		"nothing seen":        {jsonType, "", good, modelapi.Verdict{Class: modelapi.OK}},
		"half of a JSON body": {jsonType, good[:40], good[40:], modelapi.Verdict{Class: modelapi.OK}},
		"all of a JSON body, as a decoder reads": {jsonType, good, "\n", modelapi.Verdict{
			Class: modelapi.OK, Ended: true, HasUsage: true, Usage: modelapi.Usage{Input: 5, Output: 2},
		}},
		"an empty answer, as a decoder reads": {jsonType, `{"object":"chat.completion","choices":[]}`, "\n", modelapi.Verdict{Class: modelapi.Empty, Ended: true}},
		"half a stream": {sseType, chunk(`"delta":{"content":"a"}`), "data: [DONE]\n\n", modelapi.Verdict{
			// The usage so far is cumulative, and no more than a part.
			Class: modelapi.OK, Usage: modelapi.Usage{Input: 5, Output: 1},
		}},
		"a stream after its finish": {sseType, chunk(`"delta":{"content":"a"},"finish_reason":"stop"`), "data: [DONE]\n\n", modelapi.Verdict{
			Class: modelapi.OK, HasUsage: true, Usage: modelapi.Usage{Input: 5, Output: 1},
		}},
		"a stream cut at the limit": {sseType, chunk(`"delta":{"content":"a"},"finish_reason":"length"`), "data: [DONE]\n\n", modelapi.Verdict{
			Class: modelapi.Truncated, Code: "length", HasUsage: true, Usage: modelapi.Usage{Input: 5, Output: 1},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := response(200, tt.header, tt.seen+tt.rest, 0)
			v := modelapi.Watch(nil, resp, noon)
			if _, err := io.ReadFull(resp.Body, make([]byte, len(tt.seen))); err != nil {
				t.Fatal(err)
			}
			if c := v.Verdict().Class; c != modelapi.Unjudged && c != tt.want.Class {
				t.Errorf("before the end: %v", c)
			}
			if err := resp.Body.Close(); err != nil {
				t.Fatal(err)
			}
			tt.want.Status = 200
			if d := cmp.Diff(v.Verdict(), tt.want); d != "" {
				t.Errorf("(-got +want):\n%s", d)
			}
			if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
				t.Error("a closed body reads on")
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	tests := map[string]struct {
		status int
		header string
		seen   string
		want   modelapi.Class
	}{
		"JSON":                    {200, jsonType, good[:50], modelapi.Truncated},
		"nothing":                 {200, jsonType, "", modelapi.Truncated},
		"stream":                  {200, sseType, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", modelapi.Truncated},
		"binary":                  {200, "Content-Type: application/vnd.amazon.eventstream\n", "\x00\x01", modelapi.Truncated},
		"an error body":           {503, jsonType, `{"err`, modelapi.Overloaded},
		"after the model refused": {200, sseType, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"content_filter\"}]}\n\n", modelapi.Refused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := response(tt.status, tt.header, "", 0)
			resp.Body = &chunked{data: []byte(tt.seen), err: reset}
			v := modelapi.Watch(nil, resp, noon)
			_, err := io.ReadAll(resp.Body)
			d := v.Verdict()
			if err != reset || d.Err != reset || d.Ended || d.HasUsage || d.Class != tt.want {
				t.Errorf("read %v, verdict %+v", err, d)
			}
		})
	}
}

func TestAfterTheTerminalEventNothingCounts(t *testing.T) {
	t.Parallel()
	resp := response(200, sseType, "", 0)
	resp.Body = &chunked{data: []byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"), err: errors.New("reset")}
	v := modelapi.Watch(nil, resp, noon)
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the caller does not see the read error")
	}
	if d := v.Verdict(); d.Class != modelapi.OK || !d.Ended || d.Err != nil {
		t.Errorf("%+v", d)
	}
}

type upgrade struct {
	io.ReadCloser
	io.Writer
}

func TestWithoutABody(t *testing.T) {
	t.Parallel()
	request := func(method string) *http.Request { return &http.Request{Method: method} }
	header := http.Header{"Content-Type": {"application/json"}}
	tests := map[string]struct {
		resp *http.Response
		want modelapi.Class
	}{
		"101":            {&http.Response{StatusCode: 101, Body: upgrade{http.NoBody, io.Discard}}, modelapi.OK},
		"204":            {&http.Response{StatusCode: 204, Header: header, Body: &chunked{}}, modelapi.OK},
		"304":            {&http.Response{StatusCode: 304, Header: header, Body: &chunked{}}, modelapi.OK},
		"HEAD":           {&http.Response{StatusCode: 200, Header: header, Body: &chunked{}, Request: request("HEAD")}, modelapi.OK},
		"nothing":        {&http.Response{StatusCode: 200, Body: http.NoBody, Request: request("POST")}, modelapi.Empty},
		"no sound":       {&http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"audio/mpeg"}}, Body: http.NoBody, Request: request("POST")}, modelapi.Empty},
		"accepted":       {&http.Response{StatusCode: 202, Body: http.NoBody, Request: request("POST")}, modelapi.OK},
		"nothing got":    {&http.Response{StatusCode: 200, Body: http.NoBody, Request: request("GET")}, modelapi.OK},
		"nil body":       {&http.Response{StatusCode: 200}, modelapi.OK},
		"no JSON at all": {&http.Response{StatusCode: 200, Header: header, Body: http.NoBody, Request: request("POST")}, modelapi.Empty},
		"error":          {&http.Response{StatusCode: 429, Header: header, Body: http.NoBody}, modelapi.RateLimited},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tt.resp.Body
			v := modelapi.Watch(attempt(), tt.resp, noon)
			told := 0
			v.OnEnd(func(modelapi.Verdict) { told++ })
			if told != 1 {
				t.Error("the end is still to come")
			}
			if d := v.Verdict(); d.Class != tt.want || !d.Ended {
				t.Errorf("%+v", d)
			}
			if before != nil && tt.resp.Body != before {
				t.Error("the body was wrapped")
			}
			if tt.resp.Body == nil {
				t.Error("the body is nil")
			}
			if data, whole, err := v.Hold(10, time.Minute); len(data) != 0 || !whole || err != nil {
				t.Error(data, whole, err)
			}
		})
	}
}

func TestUnreadableBodies(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"gzip":              jsonType + "Content-Encoding: gzip\n",
		"eventstream":       "Content-Type: application/vnd.amazon.eventstream\n",
		"compressed stream": sseType + "Content-Encoding: br\n",
	}
	for name, header := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := watched(t, response(200, header, good, 7), good)
			if want := (modelapi.Verdict{Status: 200, Ended: true}); !cmp.Equal(d, want) {
				t.Errorf("(-got +want):\n%s", cmp.Diff(d, want))
			}
		})
	}
	if d := watched(t, response(200, jsonType+"Content-Encoding: identity\n", good, 0), good); d.Class != modelapi.OK || !d.HasUsage {
		t.Errorf("identity: %+v", d)
	}
}
