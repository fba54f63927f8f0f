package redact

import "strings"

// secrecy is how surely a name means a secret.
type secrecy int

const (
	open      secrecy = iota
	parameter         // in a URL's query, and behind = with a value that looks like a key
	weak              // in a URL's query, and elsewhere only with a value that looks like a key
	strong            // wherever it stands
)

// parameterNames carry secrets in queries and provider codes in error bodies.
var parameterNames = map[string]bool{"code": true, "state": true}

// weakNames are also everyday words of error texts ("key=42").
var weakNames = map[string]bool{
	"key": true, "token": true, "auth": true, "sig": true, "pass": true, "session": true, "sessionid": true,
	"credential": true, "credentials": true, "jwt": true, "assertion": true,
}

var strongNames = map[string]bool{
	"pwd": true, "passwd": true, "authorization": true, "proxyauthorization": true, "cookie": true, "setcookie": true,
	"subscriptionkey": true, "ocpapimsubscriptionkey": true, "awsaccesskeyid": true, "googleaccessid": true, "keyid": true,
}

// strongEnds make a strong name of anything that ends in them.
var strongEnds = [...]string{
	"apikey", "accesskey", "secretkey", "privatekey", "accesskeyid", "accesstoken", "authtoken", "idtoken", "refreshtoken",
	"sessiontoken", "securitytoken", "bearertoken", "secret", "password", "passphrase", "signature",
}

// rank returns how surely name, of a parameter or a field, means a secret.
// Case, hyphens, underscores and dots do not matter.
func rank(name string) secrecy {
	if len(name) > 64 {
		return open
	}
	var buf [64]byte
	n := buf[:0]
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '-' || c == '_' || c == '.':
			continue
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		n = append(n, c)
	}
	s := string(n)
	switch {
	case parameterNames[s]:
		return parameter
	case weakNames[s]:
		return weak
	case strongNames[s]:
		return strong
	}
	for _, end := range strongEnds {
		if strings.HasSuffix(s, end) {
			return strong
		}
	}
	if strings.HasPrefix(s, "xamz") || strings.HasPrefix(s, "xgoog") {
		return weak // dates, modes and media types are among them
	}
	return open
}
