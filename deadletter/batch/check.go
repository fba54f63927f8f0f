package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// ErrPlaceholder says that a result says nothing.
var ErrPlaceholder = errors.New("batch: placeholder")

// invalid is a result that Validate refused.
type invalid struct{ err error }

func (e *invalid) Error() string { return e.err.Error() }
func (e *invalid) Unwrap() error { return e.err }

// ErrorSignature makes one signature of all placeholders, whatever they say.
func (e *invalid) ErrorSignature() string {
	if errors.Is(e.err, ErrPlaceholder) {
		return "placeholder"
	}
	return ""
}

// placeholders are words that stand for an answer, in lower case.
var placeholders = []string{
	"n/a", "na", "none", "null", "nil", "todo", "tbd", "error", "unknown", "undefined", "placeholder", "br",
}

// wordless reports whether r says nothing by itself: white space, a character
// without a glyph, punctuation.
func wordless(r rune) bool {
	return !unicode.IsGraphic(r) || unicode.IsSpace(r) || unicode.IsPunct(r) || unicode.Is(unicode.Zs, r) ||
		strings.ContainsRune("\u3164\u115f\u1160\uffa0\u2800", r) // letters and a symbol that are blank
}

// CheckResult returns an [ErrPlaceholder] for a result that is empty, white
// space, punctuation or a word like "n/a", or a JSON document that holds nothing but such
// strings, null and empty lists and objects. It is the default of
// Config.Validate; where a result is an object, [Fields] looks closer.
func CheckResult(result []byte) error {
	text := strings.TrimSpace(string(result))
	if text == "" {
		return fmt.Errorf("%w: the result is empty", ErrPlaceholder)
	}
	var doc any = text
	var parsed any
	if json.Unmarshal([]byte(text), &parsed) == nil {
		doc = parsed
	}
	if hollow(doc) {
		return fmt.Errorf("%w: the result is %.40q", ErrPlaceholder, text)
	}
	return nil
}

// Fields returns a Validate for results that are JSON objects: each of the named
// members must be there and say something.
func Fields(names ...string) func(Item, []byte) error {
	return func(_ Item, result []byte) error {
		var doc map[string]any
		if err := json.Unmarshal(result, &doc); err != nil {
			return fmt.Errorf("batch: the result is no JSON object: %w", err)
		}
		for _, name := range names {
			v, ok := doc[name]
			if !ok {
				return fmt.Errorf("batch: the result has no %q", name)
			}
			if hollow(v) {
				return fmt.Errorf("%w: %q of the result is %.40q", ErrPlaceholder, name, fmt.Sprint(v))
			}
		}
		return nil
	}
}

// hollow reports whether a JSON value says nothing.
func hollow(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		s := strings.TrimFunc(v, wordless)
		word := strings.ToLower(strings.Trim(s, "<>"))
		return s == "" || slices.Contains(placeholders, word)
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !hollow(e) })
	case map[string]any:
		for _, e := range v {
			if !hollow(e) {
				return false
			}
		}
		return true
	}
	return false
}
