package signature

// word handles the run of letters and digits that starts at z.i. A compound
// ("api.example.net", "10.0.0.7:443") is examined as a whole when its first
// part is met, and part by part from then on.
func (z *scanner) word() {
	s, i := z.s, z.i
	j, b := i, uint8(0)
	for j < z.end {
		c := class[s[j]]
		if c&cAlnum == 0 {
			break
		}
		b |= c
		j++
	}
	if j == z.end && z.cut {
		z.i = j
		z.fold(kindID)
		return
	}
	glued := j+1 < z.end && class[s[j]]&cGlue != 0 && (class[s[j+1]]&(cAlnum|cGlue) != 0 || s[j] == ':' && s[j+1] == '[')
	if z.r.hooked && i >= z.chunk && z.hook(i, j) {
		return
	}
	if !glued && b&cDigit == 0 {
		z.letters(i, j, b)
		return
	}
	// The shapes most often met come first; what is glued to them decides below.
	if glued && j-i == 8 && s[j] == '-' && isUUID(s[i:z.end]) && class[z.at(i+36)]&cGlue == 0 {
		z.i = i + 36
		z.fold(kindUUID)
		return
	}
	if glued && b == cDigit && s[j] == '.' && j-i <= 3 && i >= z.chunk {
		if e := ipv4End(s[:z.end], j); e > 0 {
			z.i = e
			z.fold(kindAddress)
			return
		}
	}
	if i >= z.chunk && z.compound(i, j, b) {
		return
	}
	if glued && z.special(i, j, b) {
		return
	}
	switch {
	case b&cDigit == 0:
		z.letters(i, j, b)
	case b&cLetter == 0:
		z.number(i, j)
	default:
		z.mixed(i, j)
	}
}

// hook asks the caller's rules about the compound at i.
func (z *scanner) hook(i, j int) bool {
	for j < z.end && (isAlnum(z.s[j]) || j+1 < z.end && class[z.s[j]]&cGlue != 0 && z.s[j] != '/' && z.s[j] != '@' && isAlnum(z.s[j+1])) {
		j++
	}
	t := z.s[i:j]
	for _, k := range z.r.keep {
		if hasPrefixFold(t, k) {
			z.copy(i, j, cUpper)
			return true
		}
	}
	if z.r.fold != nil && z.r.foldToken(t) {
		z.i = j
		z.fold(kindHook)
		return true
	}
	return false
}

// compound examines the compound that starts at i, whose first part ends at j
// and has the classes b.
// It reports whether the whole of it was dealt with.
func (z *scanner) compound(i, j int, b uint8) bool {
	s := z.s
	e, at, slash, dots, prev := j, -1, -1, 0, byte(0)
	simple := true // letters, digits, hyphens and underscores alone
	for e < z.end {
		c := s[e]
		k := class[c]
		if k&(cAlnum|cGlue) == 0 {
			break
		}
		b |= k
		if k&cGlue != 0 {
			switch c {
			case '-', '_':
			case '@':
				at = e
				simple = false
			case '/':
				slash = e
				simple = false
				if prev == ':' && hasAt(s[:z.end], e, "//") {
					// An URL ends the compound; its own rules follow.
					z.chunk = e + len("//")
					slash, e = -1, z.end
					goto scanned
				}
			case '.':
				dots++
				simple = false
			default:
				simple = false
			}
		}
		prev = c
		e++
	}
	z.chunk = e
scanned:
	if n := secretToken(s[i:z.end], e-i); n > 0 {
		z.i = i + n
		z.fold(kindSecret)
		return true
	}
	if at > i && !z.continues() {
		if n, k := userinfo(s[i:z.end], at-i); n > 0 {
			z.i = i + n
			z.chunk = z.i // a host may follow
			z.fold(k)
			return true
		}
	}
	if b&cDigit != 0 {
		if n := keptName(s[i:e]); n > 0 && (i == 0 || s[i-1] != '_' && s[i-1] != '-') {
			z.copy(i, i+n, cUpper)
			z.chunk = z.i
			return true
		}
	}
	if simple && b&cAlnum == cAlnum {
		if k := randomFrom(s[i:e]); k >= 0 {
			if k > 0 {
				z.copy(i, i+k, cUpper)
			}
			z.i = e
			z.fold(kindID)
			return true
		}
	}
	if j-i == 1 && hasAt(s[:z.end], j, `:\`) || slash > i && isFile(s[i:e]) && !(z.at(e) == mark && (s[e-1] == '.' || s[e-1] == ':')) && z.starts() {
		z.i = z.pathTail(j)
		z.fold(kindPath)
		return true
	}
	if dots > 0 && slash < 0 && z.fileOperand(i, e) {
		z.i = z.pathTail(j)
		z.fold(kindPath)
		return true
	}
	if z.r.hosts == HostsFold && dots > 0 {
		if n := hostEnd(s[i:e]); n > 0 {
			z.i = i + n
			z.fold(kindAddress)
			return true
		}
	}
	return false
}

// continues reports whether a mark is glued to what comes next: in the message
// that was folded, the compound began before it.
func (z *scanner) continues() bool {
	n := len(z.dst)
	for n > z.base && class[z.dst[n-1]]&cGlue != 0 {
		n--
	}
	return n > z.base && z.dst[n-1] == mark
}

// starts reports whether a token begins here, rather than the rest of one.
func (z *scanner) starts() bool {
	n := len(z.dst)
	return n == z.base || z.dst[n-1] != ':' && opens(z.dst[n-1])
}

// special recognises values by the shape of a part and what follows it.
func (z *scanner) special(i, j int, b uint8) bool {
	s := z.s[:z.end]
	switch n := j - i; {
	case s[j] == ':' && hasAt(s, j, "://") && class[s[i]]&cLetter != 0:
		z.url(i, j, b)
		return true
	case n == 8 && s[j] == '-' && isUUID(s[i:]):
		z.i = i + 36
		z.fold(kindUUID)
		return true
	case n == 2 && isMAC(s[i:]):
		z.i = i + 17
		z.fold(kindAddress)
		return true
	case n <= 4 && s[j] == ':' && allHex(s[i:j]):
		if e := ipv6End(s, i); e > 0 && (i == 0 || class[s[i-1]]&cAlnum == 0) {
			z.i = e
			z.fold(kindAddress)
			return true
		}
	}
	return false
}

// letters handles a part without digits.
func (z *scanner) letters(i, j int, b uint8) {
	s := z.s
	n := j - i
	if n >= 8 && randomLetters(s[i:j], b, i > 0 && (s[i-1] == '_' || s[i-1] == '-')) {
		z.i = j
		z.wild = j
		z.fold(kindID)
		return
	}
	glued, spaced := z.afterMark()
	if !glued && !spaced {
		if d := len(z.dst); n <= 8 && d >= 2+z.base && z.dst[d-2] == mark && z.tailPart(i, j, b) {
			z.i = j
			z.fold(kindID)
			return
		}
	}
	if b&cUpper != 0 && class[s[i]]&cUpper != 0 && n <= 9 && z.calendar(i, j, spaced) {
		return
	}
	d := len(z.dst)
	z.copy(i, j, b)
	if spaced && z.singular(d) {
		// What is left must not read differently when it is read again.
		switch w := z.dst[d:]; {
		case isUnit(string(w)):
			z.dst = z.dst[:d-1]
			return
		case len(w) >= 8 && randomLetters(string(w), cLower, false):
			z.dst = z.dst[:d]
			z.fold(kindID)
			return
		}
	}
	if (n == 6 || n == 5) && z.dst[d] == 'b' {
		z.bearer(d)
	}
}

// singular makes "1 second" and "2 seconds" meet: the noun counted by a mark
// loses its plural ending.
func (z *scanner) singular(d int) bool {
	w := z.dst[d:]
	n := len(w)
	if n < 4 || w[n-1] != 's' || n > 20 {
		return false
	}
	switch w[n-2] {
	case 's', 'u', 'i':
		return false
	}
	switch string(w) {
	case "does", "goes", "always", "perhaps", "times":
		return false
	}
	if z.i < z.end && (class[z.s[z.i]]&(cHigh|cAlnum) != 0 || z.s[z.i] == '_' || z.s[z.i] == '-' || z.s[z.i] == '\'' || z.s[z.i] == mark) {
		return false
	}
	switch {
	case n > 4 && string(w[n-3:]) == "ies":
		z.dst = append(z.dst[:d+n-3], 'y')
	case n > 4 && (string(w[n-3:]) == "xes" || n > 5 && (string(w[n-4:]) == "ches" || string(w[n-4:]) == "shes" || string(w[n-4:]) == "sses")):
		z.dst = z.dst[:d+n-2]
	default:
		z.dst = z.dst[:d+n-1]
	}
	return true
}

// tailPart recognises the rest of an id whose earlier part was folded: the
// last five letters of a pod's name, the airport behind a ray id, the letters
// of a random part that happen to hold no digit.
func (z *scanner) tailPart(i, j int, b uint8) bool {
	sep := z.dst[len(z.dst)-1]
	if sep == '-' || sep == '+' || sep == '.' {
		w := lowerWord(z.s[i:j])
		switch string(w.b[:w.n]) {
		case "alpha", "beta", "rc", "pre", "preview", "snapshot", "canary", "nightly":
			return true // of a version
		}
	}
	if sep != '-' && sep != '_' || z.i == 0 || z.wild != z.i-1 {
		return false
	}
	n := j - i
	w := z.s[i:j]
	switch {
	case n == 5 && b == cLower && vowels(w) == 0:
		return true
	case n == 3 && b == cUpper:
		return true
	case b == cLetter && class[w[0]]&cLower != 0:
		return true
	case n <= 4 && vowels(w) == 0, n == 4 && b == cLower && oddness(w) >= 3, n == 5 && b == cLower && oddness(w) >= 4:
		return true
	}
	return false
}

// mixed handles a part with letters and digits.
func (z *scanner) mixed(i, j int) {
	s := z.s[:z.end]
	w := s[i:j]
	if len(w) == 4 && (w[3] == '4' || w[3] == '6') && (hasPrefixFold(w, "tcp") || hasPrefixFold(w, "udp")) {
		z.copy(i, j-1, cUpper) // which of the two it was, the address would have said
		z.i = j
		return
	}
	if keptMixed(w) || z.codeValue(i, j) {
		z.copy(i, j, cUpper)
		if j+1 < z.end && s[j] == '.' && isDigit(s[j+1]) && versioned(w) {
			z.emit('.')
			z.copy(j+1, j+2, 0)
		}
		return
	}
	// HTTP503, Http503Error: the status is glued to its word.
	if len(w) >= 7 && hasPrefixFold(w, "http") && statusNumber(w[4:7]) > 0 && lettersOnly(w[7:]) {
		z.copy(i, j, cUpper)
		return
	}
	// worker17: a word and its number. The word stays.
	k := 0
	for k < len(w) && class[w[k]]&cLetter != 0 {
		k++
	}
	digits := k
	for digits < len(w) && isDigit(w[digits]) {
		digits++
	}
	if k >= 3 && digits == len(w) && vowels(w[:k]) > 0 && !(allHex(w) && len(w) >= 7) && plainCase(w[:k]) && z.wild != i-1 &&
		!(k >= 5 && oddness(w[:k]) >= 5) && !(k >= 8 && randomLetters(w[:k], cLetter, i > 0 && (s[i-1] == '_' || s[i-1] == '-'))) {
		z.copy(i, i+k, cUpper)
		z.i = j
		z.fold(kindNumber)
		return
	}
	z.i = j
	if k > 0 || len(w) >= 7 {
		z.wild = j
	}
	if isDigit(w[0]) && len(w) <= 6 {
		z.fold(kindNumber)
		return
	}
	z.fold(kindID)
}

// plainCase reports whether w is written like a word: lower, UPPER, Title or
// camelCase.
func plainCase(w string) bool {
	changes := 0
	for k := 1; k < len(w); k++ {
		if class[w[k]] != class[w[k-1]] {
			changes++
		}
	}
	return changes <= 1 || changes*3 <= len(w)
}
