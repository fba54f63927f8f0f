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
	common, all, changes := 0, 0, 0
	for k := 1; k < n; k++ {
		x, y := class[w[k-1]], class[w[k]]
		if x != y {
			changes++
			if x&cLower != 0 {
				continue // a new word of camelCase begins here
			}
		}
		all++
		if follows[lower[w[k-1]]-'a']>>(lower[w[k]]-'a')&1 != 0 {
			common++
		}
	}
	switch {
	case allHex(w):
		return true
	case b&cLetter == cUpper:
		return n >= 20 && common*5 < all*2
	case b&cLetter == cLower:
		return n >= 16 && common*2 < all || n >= 10 && common*10 < all*(3+bit(sep))
	case changes*10 < n*3:
		return n >= 16 && common*2 < all
	case n >= 20:
		return common*20 < all*13
	case n >= 14:
		return common*10 < all*6
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
