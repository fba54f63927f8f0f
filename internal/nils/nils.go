// Package nils finds the nil that a comparison with nil does not: a nil pointer
// in an interface, which a Config's field can hold by mistake and whose first
// use would be a panic in the middle of the night.
package nils

import (
	"fmt"
	"reflect"
)

// In reports whether v is nil, or holds a nil pointer, function, map, slice or
// channel.
func In(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan:
		return r.IsNil()
	}
	return false
}

// Field returns an error for a field of a Config that may be left out, when it
// holds a nil all the same.
func Field(name string, v any) error {
	if v == nil || !In(v) {
		return nil
	}
	return fmt.Errorf("%s is a nil %T: leave it out for the default", name, v)
}

// Error returns err as a function handed it over. A nil pointer in it is an
// error, since the function says so, but its methods would panic: it becomes an
// error that says what was returned.
func Error(err error) error {
	if err == nil {
		return nil
	}
	if r := reflect.ValueOf(err); r.Kind() == reflect.Pointer && r.IsNil() {
		return fmt.Errorf("a nil %T was returned as an error", err)
	}
	return err
}
