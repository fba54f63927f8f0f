package modelapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// sdkDepth bounds the walk through an error's tree, which may be a cycle.
const sdkDepth = 32

// OfError returns what err, made of a model API's answer, says of that answer:
// what a guard below has seen of it, else what an SDK's error keeps (status, the
// provider's code, the response's headers, the details), judged as the answer
// itself would be. It is false for errors that stand for no failed answer. now
// is the time that hints count from.
func OfError(err error, now time.Time) (Verdict, bool) {
	if err == nil {
		return Verdict{}, false
	}
	if v, ok := seen(err); ok {
		return v, true
	}
	status := StatusOf(err)
	if status < 400 {
		return Verdict{}, false
	}
	h, body := sdkAnswer(err, sdkDepth)
	if h == nil {
		h = make(http.Header)
	}
	h.Set("Content-Type", "application/json")
	h.Del("Content-Encoding") // the SDK has undone it
	resp := &http.Response{StatusCode: status, Header: h, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}
	view := Watch(nil, resp, now)
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return view.Verdict(), true
}

// StandIn reports whether err tells of the answer that a retry gives to SDKs in
// place of its own error: by its type in what an SDK keeps of the body, or in the
// text. Such an answer says nothing of the upstream's.
func StandIn(err error) bool {
	_, body := sdkAnswer(err, sdkDepth)
	said := string(body) + " " + err.Error()
	return strings.Contains(said, "nightfuse_failed") || strings.Contains(said, "nightfuse_refused_by_")
}

// seen is the verdict that err carries. Foreign errors are asked with care.
func seen(err error) (v Verdict, ok bool) {
	defer func() {
		if recover() != nil {
			v, ok = Verdict{}, false
		}
	}()
	var judged interface{ Verdict() Verdict }
	if !errors.As(err, &judged) {
		return v, false
	}
	v = judged.Verdict()
	return v, v.Class != Unjudged
}

// sdkAnswer returns the headers of the response that an SDK's error keeps, and
// an error body like the one it was made of.
func sdkAnswer(err error, depth int) (http.Header, []byte) {
	for ; err != nil && depth > 0; depth-- {
		if h, body := ownAnswer(err); h != nil || body != nil {
			return h, body
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				if h, body := sdkAnswer(e, depth-1); h != nil || body != nil {
					return h, body
				}
			}
			return nil, nil
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// sdkFields are the fields in which SDKs keep what an error body said.
var sdkFields = [...]string{"Code", "Type", "Status", "Message", "Details"}

// ownAnswer asks err itself, by the names that SDKs use. Foreign errors are
// asked with care: one that panics says nothing.
func ownAnswer(err error) (h http.Header, body []byte) {
	defer func() {
		if recover() != nil {
			h, body = nil, nil
		}
	}()
	v := reflect.ValueOf(err)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil, nil
	}
	if f := v.FieldByName("Response"); f.IsValid() && f.CanInterface() {
		if resp, ok := f.Interface().(*http.Response); ok && resp != nil {
			h = resp.Header.Clone()
		}
	}
	if raw, ok := err.(interface{ RawJSON() string }); ok && json.Valid([]byte(raw.RawJSON())) {
		return h, enveloped([]byte(raw.RawJSON()))
	}
	said := make(map[string]any)
	for _, name := range sdkFields {
		f := v.FieldByName(name)
		if !f.IsValid() || !f.CanInterface() || f.IsZero() {
			continue
		}
		key := map[string]string{"Code": "code", "Type": "type", "Status": "status", "Message": "message", "Details": "details"}[name]
		switch x := f.Interface(); f.Kind() {
		case reflect.String:
			said[key] = f.String()
		case reflect.Pointer:
			if f.Elem().Kind() == reflect.String {
				said[key] = f.Elem().String()
			}
		case reflect.Interface, reflect.Slice:
			said[key] = x
		}
	}
	if len(said) == 0 {
		return h, nil
	}
	body, merr := json.Marshal(map[string]any{"error": said})
	if merr != nil {
		return h, nil
	}
	return h, body
}

// enveloped puts an error object into the member that bodies have it in,
// unless it stands there already.
func enveloped(raw []byte) []byte {
	var has struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(raw, &has) != nil || len(has.Error) > 0 {
		return raw
	}
	return append(append([]byte(`{"error":`), raw...), '}')
}
