package retry

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// sdkDepth bounds the walk through an error's tree, which may be a cycle.
const sdkDepth = 32

// judgeSDK judges an SDK's error for an answer as the answer itself would be:
// by its status, and by the provider's code, the wait hint and the details as
// far as the SDK keeps them. It is false for errors that carry no status.
func judgeSDK(err error, status int, now time.Time) (failure, bool) {
	if status < 400 || status > 599 {
		return failure{}, false
	}
	h, body := sdkAnswer(err, sdkDepth)
	if h == nil {
		h = make(http.Header)
	}
	h.Set("Content-Type", "application/json")
	resp := &http.Response{StatusCode: status, Header: h, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}
	view := modelapi.Watch(nil, resp, now)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return failure{}, false
	}
	_ = resp.Body.Close()
	f, bad := judgeAnswer(view.Verdict())
	f.err = err
	return f, bad
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
