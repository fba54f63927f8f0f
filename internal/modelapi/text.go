package modelapi

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape returns the text of the inside of a JSON string. It may be cut off.
func unescape(b []byte) string {
	var out strings.Builder
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c != '\\' {
			out.WriteByte(c)
			continue
		}
		if i++; i == len(b) {
			break
		}
		switch c = b[i]; c {
		case 'n':
			out.WriteByte('\n')
		case 't':
			out.WriteByte('\t')
		case 'r', 'b', 'f':
			out.WriteByte(' ')
		case 'u':
			r, ok := hex4(b[i+1:])
			if !ok {
				i = len(b)
				break
			}
			i += 4
			if utf16.IsSurrogate(r) {
				low, ok := rune(0), false
				if len(b) > i+2 && b[i+1] == '\\' && b[i+2] == 'u' {
					low, ok = hex4(b[i+3:])
				}
				if r = utf16.DecodeRune(r, low); ok && r != utf8.RuneError {
					i += 6
				}
			}
			out.WriteRune(r)
		default:
			out.WriteByte(c)
		}
	}
	return strings.ToValidUTF8(out.String(), "\ufffd")
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		d, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | d
	}
	return r, true
}

// cut returns the first n bytes of s, or fewer to keep characters whole.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
