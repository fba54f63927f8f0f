package signature

// Byte classes. The scanner looks every byte up once and decides on the union
// of a token's classes, so that a plain word costs one table load a byte.
const (
	cLower uint8 = 1 << iota
	cUpper
	cDigit
	cSpace // blanks, line ends and all other control characters
	cHigh  // not ASCII
	cGlue  // may stand inside a compound such as a host, a path or an address
	cJoin  // may stand between two marks that become one

	cLetter = cLower | cUpper
	cAlnum  = cLetter | cDigit
)

var (
	class = classes()
	lower = lowers()

	hexDigit = hexDigits()
)

func classes() (t [256]uint8) {
	for c := range t {
		switch {
		case c <= ' ' || c == 0x7f:
			t[c] = cSpace
		case c >= 0x80:
			t[c] = cHigh
		case '0' <= c && c <= '9':
			t[c] = cDigit
		case 'a' <= c && c <= 'z':
			t[c] = cLower
		case 'A' <= c && c <= 'Z':
			t[c] = cUpper
		}
	}
	for _, c := range []byte(`-_.@:/+%~\$`) {
		t[c] |= cGlue
	}
	for _, c := range []byte(" -.:/,+_") {
		t[c] |= cJoin
	}
	return t
}

func lowers() (t [256]byte) {
	for c := range t {
		t[c] = byte(c)
		if 'A' <= c && c <= 'Z' {
			t[c] = byte(c) + 'a' - 'A'
		}
	}
	return t
}

func hexDigits() (t [256]bool) {
	for _, c := range []byte("0123456789abcdefABCDEF") {
		t[c] = true
	}
	return t
}

func isDigit(c byte) bool { return class[c]&cDigit != 0 }
func isAlnum(c byte) bool { return class[c]&cAlnum != 0 }
func isHex(c byte) bool   { return hexDigit[c] }

func allHex(s string) bool {
	for i := range len(s) {
		if !isHex(s[i]) {
			return false
		}
	}
	return true
}

// vowels counts the vowels of s; words have some, random letters have few.
func vowels(s string) (n int) {
	for i := range len(s) {
		switch lower[s[i]] {
		case 'a', 'e', 'i', 'o', 'u', 'y':
			n++
		}
	}
	return n
}

// hasPrefixFold reports whether s starts with the lower-case prefix p, whatever
// the case of s.
func hasPrefixFold(s, p string) bool {
	if len(s) < len(p) {
		return false
	}
	for i := range len(p) {
		if lower[s[i]] != p[i] {
			return false
		}
	}
	return true
}

// word is a short word in lower case on the stack, for a switch over strings.
type word struct {
	b [20]byte
	n int
}

func lowerWord(s string) (w word) {
	if len(s) > len(w.b) {
		return w
	}
	for i := range len(s) {
		w.b[i] = lower[s[i]]
	}
	w.n = len(s)
	return w
}

// byLetter gives the row of t for the letter c, whatever its case.
func byLetter(t *[128][]string, c byte) []string {
	if c < 128 {
		return t[lower[c]]
	}
	return nil
}

func lettersOnly(s string) bool {
	for i := range len(s) {
		if class[s[i]]&cLetter == 0 {
			return false
		}
	}
	return true
}
