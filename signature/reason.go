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
	for _, p := range reasons(status) {
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

// reasons gives the phrases in use for a status, in lower case.
func reasons(status int) []string {
	switch status {
	case 200:
		return []string{"ok"}
	case 201:
		return []string{"created"}
	case 202:
		return []string{"accepted"}
	case 204:
		return []string{"no content"}
	case 206:
		return []string{"partial content"}
	case 301:
		return []string{"moved permanently"}
	case 302:
		return []string{"found"}
	case 303:
		return []string{"see other"}
	case 304:
		return []string{"not modified"}
	case 307:
		return []string{"temporary redirect"}
	case 308:
		return []string{"permanent redirect"}
	case 400:
		return []string{"bad request"}
	case 401:
		return []string{"unauthorized", "unauthorised", "authorization required"}
	case 402:
		return []string{"payment required"}
	case 403:
		return []string{"forbidden"}
	case 404:
		return []string{"not found", "page not found"}
	case 405:
		return []string{"method not allowed"}
	case 406:
		return []string{"not acceptable"}
	case 407:
		return []string{"proxy authentication required"}
	case 408:
		return []string{"request timeout", "request time-out"}
	case 409:
		return []string{"conflict"}
	case 410:
		return []string{"gone"}
	case 411:
		return []string{"length required"}
	case 412:
		return []string{"precondition failed"}
	case 413:
		return []string{"request entity too large", "payload too large", "content too large"}
	case 414:
		return []string{"uri too long", "request uri too long"}
	case 415:
		return []string{"unsupported media type"}
	case 416:
		return []string{"range not satisfiable", "requested range not satisfiable"}
	case 417:
		return []string{"expectation failed"}
	case 418:
		return []string{"i'm a teapot"}
	case 421:
		return []string{"misdirected request"}
	case 422:
		return []string{"unprocessable entity", "unprocessable content"}
	case 423:
		return []string{"locked"}
	case 424:
		return []string{"failed dependency"}
	case 425:
		return []string{"too early"}
	case 426:
		return []string{"upgrade required"}
	case 428:
		return []string{"precondition required"}
	case 429:
		return []string{"too many requests", "rate limit", "rate limited", "resource exhausted"}
	case 431:
		return []string{"request header fields too large"}
	case 451:
		return []string{"unavailable for legal reasons"}
	case 499:
		return []string{"client closed request"}
	case 500:
		return []string{"internal server error", "internal error"}
	case 501:
		return []string{"not implemented"}
	case 502:
		return []string{"bad gateway", "proxy error"}
	case 503:
		return []string{"service unavailable", "service temporarily unavailable", "backend fetch failed", "slow down", "unavailable"}
	case 504:
		return []string{"gateway timeout", "gateway time-out"}
	case 505:
		return []string{"http version not supported"}
	case 507:
		return []string{"insufficient storage"}
	case 508:
		return []string{"loop detected"}
	case 511:
		return []string{"network authentication required"}
	case 520:
		return []string{"web server returned an unknown error", "unknown error"}
	case 521:
		return []string{"web server is down"}
	case 522:
		return []string{"connection timed out"}
	case 523:
		return []string{"origin is unreachable"}
	case 524:
		return []string{"a timeout occurred"}
	case 525:
		return []string{"ssl handshake failed"}
	case 526:
		return []string{"invalid ssl certificate"}
	case 529:
		return []string{"overloaded", "site is overloaded"}
	}
	return nil
}
