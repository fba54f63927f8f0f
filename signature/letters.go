package signature

// follows lists, for each letter, the letters that often follow it in English
// words. The pairs cover nine tenths of those in the words of the standard
// library's comments, and three tenths of those in random letters.
var follows = [26]string{
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
}

// rarely lists, for each letter, the letters that follow it in next to no
// word: fewer than 10 times in 16,634 words of the same comments and of
// Python's library.
var rarely = [26]string{
	"joq",                     // a
	"hkqvxz",                  // b
	"jwxz",                    // c
	"kz",                      // d
	"j",                       // e
	"jkqvz",                   // f
	"jkqxyz",                  // g
	"bghjpqvwxz",              // h
	"hiquwy",                  // i
	"bcdfghjklmnpqrtvwxyz",    // j
	"bchjkqvxz",               // k
	"j",                       // l
	"hjqwxz",                  // m
	"x",                       // n
	"qz",                      // o
	"jqvxz",                   // p
	"abcefghijklmnopqrtvwxyz", // q
	"jz",                      // r
	"jz",                      // s
	"jk",                      // t
	"hjkquvwy",                // u
	"hjkxyz",                  // v
	"gjkmquvwxyz",             // w
	"gjknqwz",                 // x
	"ghjkquvxyz",              // y
	"bcdfghjklmnpqrstuvwy",    // z
}

// odds weighs a pair of letters, by their numbers from 0 for a: -1 if it is
// common in words, 1 if not, 3 if rare.
var odds = weigh()

func weigh() (t [26][26]int8) {
	for a := range t {
		for b := range t[a] {
			t[a][b] = 1
		}
		for _, b := range follows[a] {
			t[a][b-'a'] = -1
		}
		for _, b := range rarely[a] {
			t[a][b-'a'] = 3
		}
	}
	return t
}

// pairOdds weighs the pair of letters x and y, whatever their case.
func pairOdds(x, y byte) int { return int(odds[lower[x]-'a'][lower[y]-'a']) }

// oddness sums the weights of the pairs of w, which holds letters only. One
// word in five hundred of 8 letters or more reaches 7, half of the random ones do.
func oddness(w string) (n int) {
	for k := 1; k < len(w); k++ {
		n += pairOdds(w[k-1], w[k])
	}
	return n
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
	common, all, changes, plain, odd := 0, 0, 0, 0, 0
	for k := 1; k < n; k++ {
		x, y := class[w[k-1]], class[w[k]]
		o := pairOdds(w[k-1], w[k])
		hit := bit(o < 0)
		odd += o
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
	case odd >= 8, n >= 10 && odd >= 6, allHex(w), n >= 16 && plain*2 < n-1, n >= 10 && plain*10 < (n-1)*(3+bit(sep)):
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
			common += bit(pairOdds(t[i-1], t[i]) < 0)
		}
	}
	n := len(t) - k
	if n < 14 || b&cAlnum != cAlnum || changes*5 < n*2 || common*10 > all*6 {
		return -1
	}
	return k
}
