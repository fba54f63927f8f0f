package signature

// follows lists, for each letter, the letters that often follow it in English
// words. The pairs cover nine tenths of those in the words of the standard
// library's comments, and three tenths of those in random letters.
var follows = pairs([26]string{
	"bcdgilmnprst",      // a
	"aeilu",             // b
	"acehiklortu",       // c
	"adeiosu",           // d
	"acdefglmnprstvx",   // e
	"aefilo",            // f
	"einor",             // g
	"aeio",              // h
	"abcdefglmnoprstvz", // i
	"",                  // j
	"eis",               // k
	"adeilostuy",        // l
	"aeimopu",           // m
	"acdefgiostv",       // n
	"bcdglmnoprstuvw",   // o
	"aeiloprstu",        // p
	"u",                 // q
	"acdeimorstuy",      // r
	"acehiopstuy",       // s
	"aehilorstuy",       // t
	"abceilmnprst",      // u
	"aei",               // v
	"ai",                // w
	"p",                 // x
	"p",                 // y
	"e",                 // z
})

func pairs(rows [26]string) (t [26]uint32) {
	for a, row := range rows {
		for _, b := range row {
			t[a] |= 1 << (b - 'a')
		}
	}
	return t
}

// randomLetters tells ids that happen to hold no digit from words: their pairs
// of letters are not those of words, and their letters change case at random.
// sep says that the letters stand behind a prefix and a separator, where ids
// are found. b is the union of the classes of w, which holds letters only.
func randomLetters(w string, b uint8, sep bool) bool {
	n := len(w)
	if n >= 64 {
		return true
	}
	// Once with the seams of camelCase left out, once as it reads in lower case:
	// what folds in a template must fold in its message, too.
	common, all, changes, plain := 0, 0, 0, 0
	for k := 1; k < n; k++ {
		x, y := class[w[k-1]], class[w[k]]
		hit := int(follows[lower[w[k-1]]-'a'] >> (lower[w[k]] - 'a') & 1)
		plain += hit
		if x != y {
			changes++
			if x&cLower != 0 {
				continue
			}
		}
		all++
		common += hit
	}
	switch {
	case allHex(w), n >= 16 && plain*2 < n-1, n >= 10 && plain*10 < (n-1)*(3+bit(sep)):
		return true
	case b&cLetter != cLetter:
		return false
	case changes*10 < n*3:
		return n >= 16 && common*2 < all
	case n >= 20:
		return common*20 < all*(13+2*bit(sep))
	case n >= 14:
		return common*10 < all*(6+bit(sep))
	case n >= 10:
		return common*10 < all*(5+bit(sep)) && changes*10 >= n*(4-bit(sep))
	default:
		return sep && common*10 < all*5 && changes*2 >= n
	}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// randomFrom gives the position from which the compound t is random letters,
// digits, hyphens and underscores, as nanoid and base64url make them; a word
// may go before it as prefix. It gives -1 if t is something else.
func randomFrom(t string) int {
	if len(t) < 16 {
		return -1
	}
	k := 0
	for k < len(t) && class[t[k]]&cLower != 0 {
		k++
	}
	if k == len(t) || k > 0 && k > 12 {
		k = 0
	} else if k > 0 && (t[k] != '-' && t[k] != '_' || k >= 8 && randomLetters(t[:k], cLower, false)) {
		k = 0
	} else if k > 0 {
		k++
	}
	var b uint8
	changes, common, all, low := 0, 0, 0, 0
	for i := k; i < len(t); i++ {
		x := class[t[i]]
		if x&cAlnum == 0 && t[i] != '-' && t[i] != '_' {
			return -1
		}
		b |= x
		if x&cLower != 0 {
			low++
		} else {
			low = 0
		}
		if low > 7 {
			return -1
		}
		if i == k {
			continue
		}
		p := class[t[i-1]]
		if x != p {
			changes++
		}
		if x&cLetter != 0 && p&cLetter != 0 {
			all++
			if follows[lower[t[i-1]]-'a']>>(lower[t[i]]-'a')&1 != 0 {
				common++
			}
		}
	}
	n := len(t) - k
	if n < 14 || b&cAlnum != cAlnum || changes*5 < n*2 || common*10 > all*6 {
		return -1
	}
	return k
}
