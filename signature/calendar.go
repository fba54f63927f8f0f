package signature

// calendar absorbs the names of months and weekdays that belong to a date.
// They must be capitalised, as dates write them: "may 5" is no date.
func (z *scanner) calendar(i, j int, spaced bool) bool {
	s := z.s[:z.end]
	month, ok := calendarName(s[i:j])
	if !ok {
		return false
	}
	k := j
	if z.at(k) == ',' || z.at(k) == '.' {
		k++
	}
	if month && (z.at(k) == '-' || z.at(k) == '/') {
		k++
	}
	k = z.blanks(k)
	next := z.at(k)
	glued := len(z.dst) > z.base+1 && z.dst[len(z.dst)-2] == mark && (z.dst[len(z.dst)-1] == '-' || z.dst[len(z.dst)-1] == '/')
	switch {
	case k == j:
		return false
	case month && (spaced || glued) && (isDigit(next) || next == mark): // 11 Jun 2026
		z.i = k
		return true
	case isDigit(next) || next == mark: // Jun 11, 2026; Wed, 11 Jun 2026
		z.i = k
		return true
	case !month && class[next]&cUpper != 0: // Sat Jun 18
		e := k
		for e < z.end && class[s[e]]&cLetter != 0 {
			e++
		}
		if m, ok := calendarName(s[k:e]); ok && m && z.blanks(e) > e && isDigit(z.at(z.blanks(e))) {
			z.i = k
			return true
		}
	}
	return false
}

func calendarName(s string) (month, ok bool) {
	w := lowerWord(s)
	switch string(w.b[:w.n]) {
	case "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
		"january", "february", "march", "april", "june", "july", "august", "september", "october", "november", "december":
		return true, true
	case "mon", "tue", "wed", "thu", "fri", "sat", "sun",
		"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday":
		return false, true
	}
	return false, false
}
