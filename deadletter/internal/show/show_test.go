package show_test

import (
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter/internal/show"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                     "",
		"a plain text, äöü 漢字": "a plain text, äöü 漢字",
		"\x1b[2J\a":            `\x1b[2J\a`,
		"left\u202eright":      `left\u202eright`,
		"\u2066\u200f\u200b\t": `\u2066\u200f\u200b\t`,
		"\xff\xfe":             `\xff\xfe`,
		"a\r\nb":               `a\r\nb`,
		"\U000e0041":           `\U000e0041`,
		"\u0085\u2028\u00a0":   `\u0085\u2028\u00a0`,
		"\u05d0 is no trick":   "\u05d0 is no trick",
	} {
		if got := show.Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
	if got := show.Lines("a\n\tb\x00"); got != "a\n\tb"+`\x00` {
		t.Errorf("Lines: %q", got)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"12345": "12345", "123456": "1234…", "äöüßé": "äöüßé", "äöüßéà": "äöüß…",
		strings.Repeat("\u202e", 1<<20): `\u20…`, strings.Repeat("漢", 99): "漢漢漢漢…",
	} {
		if got := show.Short(in, 5); got != want {
			t.Errorf("Short(%.20q) = %q, want %q", in, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for in, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1 kB", 16 << 20: "16.8 MB", 999_600: "1 MB", 5e12: "5 TB"} {
		if got := show.Size(in); got != want {
			t.Errorf("Size(%d) = %q, want %q", in, got, want)
		}
	}
}
