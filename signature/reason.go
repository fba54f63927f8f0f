package signature

// reasonFollows reports whether a reason phrase of the status stands behind
// the number that ends at j.
func (z *scanner) reasonFollows(j, status int) bool {
	k := z.blanks(j)
	for n := 0; k < z.end && n < 3; n++ {
		switch z.s[k] {
		case ':', '-', '(', ',', '"', '\'', '_', '|':
			k = z.blanks(k + 1)
			continue
		}
		break
	}
	if k == j || class[z.at(k)]&cLetter == 0 {
		return false
	}
	for _, p := range reasons[status] {
		if z.phrase(k, p) {
			return true
		}
	}
	return status >= 500 && z.phrase(k, "server error") || status < 500 && status >= 400 && z.phrase(k, "client error")
}

// phrase reports whether p, in lower case, stands at k. A blank or a hyphen in
// p stands for any separator of words.
func (z *scanner) phrase(k int, p string) bool {
	for i := range len(p) {
		if p[i] != ' ' && p[i] != '-' {
			if lower[z.at(k)] != p[i] {
				return false
			}
			k++
			continue
		}
		switch c := z.at(k); {
		case c == '_' || c == '-':
			k++
		default:
			e := z.blanks(k)
			if e == k {
				return false
			}
			k = e
		}
	}
	return !isAlnum(z.at(k))
}

// reasons are the phrases in use for a status, in lower case.
var reasons = [600][]string{
	200: {"ok"},
	201: {"created"},
	202: {"accepted"},
	204: {"no content"},
	206: {"partial content"},
	301: {"moved permanently"},
	302: {"found"},
	303: {"see other"},
	304: {"not modified"},
	307: {"temporary redirect"},
	308: {"permanent redirect"},
	400: {"bad request"},
	401: {"unauthorized", "unauthorised", "authorization required"},
	402: {"payment required"},
	403: {"forbidden"},
	404: {"not found", "page not found"},
	405: {"method not allowed"},
	406: {"not acceptable"},
	407: {"proxy authentication required"},
	408: {"request timeout", "request time-out"},
	409: {"conflict"},
	410: {"gone"},
	411: {"length required"},
	412: {"precondition failed"},
	413: {"request entity too large", "payload too large", "content too large"},
	414: {"uri too long", "request uri too long"},
	415: {"unsupported media type"},
	416: {"range not satisfiable", "requested range not satisfiable"},
	417: {"expectation failed"},
	418: {"i'm a teapot"},
	421: {"misdirected request"},
	422: {"unprocessable entity", "unprocessable content"},
	423: {"locked"},
	424: {"failed dependency"},
	425: {"too early"},
	426: {"upgrade required"},
	428: {"precondition required"},
	429: {"too many requests", "rate limit", "rate limited", "resource exhausted"},
	431: {"request header fields too large"},
	451: {"unavailable for legal reasons"},
	499: {"client closed request"},
	500: {"internal server error", "internal error"},
	501: {"not implemented"},
	502: {"bad gateway", "proxy error"},
	503: {"service unavailable", "service temporarily unavailable", "backend fetch failed", "slow down", "unavailable"},
	504: {"gateway timeout", "gateway time-out"},
	505: {"http version not supported"},
	507: {"insufficient storage"},
	508: {"loop detected"},
	511: {"network authentication required"},
	520: {"web server returned an unknown error", "unknown error"},
	521: {"web server is down"},
	522: {"connection timed out"},
	523: {"origin is unreachable"},
	524: {"a timeout occurred"},
	525: {"ssl handshake failed"},
	526: {"invalid ssl certificate"},
	529: {"overloaded", "site is overloaded"},
}
