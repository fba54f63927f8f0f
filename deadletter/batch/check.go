package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nightfuse/nightfuse/internal/placeholder"
)

// ErrPlaceholder says that a result says nothing.
var ErrPlaceholder = errors.New("batch: placeholder")

var errEmpty = fmt.Errorf("%w: the result is empty", ErrPlaceholder)

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

// CheckResult returns an [ErrPlaceholder] for a result that is empty, white
// space, punctuation or markup without content, for one that is no more than
// "n/a", "null", "todo", "no summary available" or the like, and for a JSON
// document that holds nothing but such texts, null and empty objects. It is the
// default of Config.Validate, and the rule by which package retry judges an
// answer and package nighttest a night's results.
//
// A word that may be an answer passes (none, unknown, error), and so do empty
// lists that have a name: {"findings": []}. Where results are objects, [Fields]
// looks closer; where they are prose, refuse more words in a Validate of your own
// that asks CheckResult first.
func CheckResult(result []byte) error {
	text := strings.TrimSpace(string(result))
	switch {
	case text == "":
		return errEmpty
	case placeholder.Is(text):
		return fmt.Errorf("%w: the result is %.40q", ErrPlaceholder, text)
	}
	return nil
}

// Fields returns a Validate for results that are JSON objects: each of the named
// members must be there and say something, by the rule of [CheckResult]; an empty
// list says nothing here.
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
			if placeholder.Value(v) {
				return fmt.Errorf("%w: %q of the result is %.40q", ErrPlaceholder, name, fmt.Sprint(v))
			}
		}
		return nil
	}
}
