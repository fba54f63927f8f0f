package signature_test

import (
	"testing"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/signature"
)

// slack is how much longer than its message a template may be: the sign of a
// cut, three bytes.
const slack = 3

// FuzzNormalize holds the scanner to what every caller relies on: no panic,
// UTF-8, no growth, and every template is its own template.
func FuzzNormalize(f *testing.F) {
	for _, m := range seeds(f) {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, msg string) {
		got := signature.Normalize(msg)
		if !utf8.ValidString(got) {
			t.Errorf("template is no UTF-8: %q of %q", got, msg)
		}
		if len(got) > len(msg)+slack {
			t.Errorf("template is longer than its message: %q of %q", got, msg)
		}
		if again := signature.Normalize(got); again != got {
			t.Errorf("template changes\nmessage %q\nfirst   %q\nthen    %q", msg, got, again)
		}
		if app := string(signature.AppendNormalize([]byte("429 "), msg)); app != "429 "+got {
			t.Errorf("appended form differs: %q, want %q behind the 429", app, got)
		}
	})
}
