package modelapi

import (
	"net/http"
	"reflect"
)

// ClassOf returns the class of an HTTP status with nothing known of the body.
func ClassOf(status int) Class {
	switch {
	case status < 100 || status > 599:
		return Unjudged
	case status < 400:
		return OK
	}
	switch status {
	case 401, 403, 407:
		return Auth
	case 402:
		return Quota
	case 408, 504, 524:
		return Timeout
	case 425, 503, 529:
		// 425 asks for the same request a little later.
		return Overloaded
	case 429:
		return RateLimited
	}
	if status < 500 {
		return BadRequest
	}
	return ServerError
}

// statusFields are the fields in which SDK errors keep the status. Code is
// there for genai, and is also the name of codes that are no status, so only
// the ones of a failure count.
var statusFields = [...]string{"StatusCode", "HTTPStatusCode", "Code"}

// StatusOf returns the HTTP status that err carries, by the method StatusCode
// or HTTPStatusCode or in a field as SDK errors have it; 0 when none.
func StatusOf(err error) int { return statusOf(err, 64) }

func statusOf(err error, depth int) int {
	for ; err != nil && depth > 0; depth-- {
		if n := ownStatus(err); n != 0 {
			return n
		}
		switch x := err.(type) {
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				if n := statusOf(e, depth-1); n != 0 {
					return n
				}
			}
			return 0
		default:
			return 0
		}
	}
	return 0
}

// ownStatus is the status in err itself. Foreign errors are asked with care:
// one that panics has no status.
func ownStatus(err error) (status int) {
	defer func() {
		if recover() != nil {
			status = 0
		}
	}()
	v := reflect.ValueOf(err)
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return 0
	}
	switch x := err.(type) {
	case interface{ StatusCode() int }:
		return valid(int64(x.StatusCode()), 100)
	case interface{ HTTPStatusCode() int }:
		return valid(int64(x.HTTPStatusCode()), 100)
	}
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return 0
	}
	for _, name := range statusFields {
		low := int64(100)
		if name == "Code" {
			low = 400
		}
		if f := v.FieldByName(name); f.IsValid() && f.CanInt() {
			if n := valid(f.Int(), low); n != 0 {
				return n
			}
		}
	}
	if f := v.FieldByName("Response"); f.IsValid() && f.CanInterface() {
		if resp, ok := f.Interface().(*http.Response); ok && resp != nil {
			return valid(int64(resp.StatusCode), 100)
		}
	}
	return 0
}

func valid(n, low int64) int {
	if n < low || n > 599 {
		return 0
	}
	return int(n)
}
