// Package signature gives errors fingerprints: failures that are the same have
// one signature, whatever ids, numbers, addresses and times they carry, and
// failures that are not have two.
//
// A breaker needs it to see that a storm is one failure; a queue of dead
// letters needs it to group what failed. Both keep signatures for longer than
// a process lives, so the same text gives the same signature in every process,
// on every system and in any order. There is no learning and no state, and for
// that reason no name and no statistics either.
//
//	id := signature.Of(err)          // "1:9f3c61f0a2b4", "" for nil
//	rep := signature.Explain(err)    // the template behind it and what was folded
//
// # Rules
//
// A message is read once. What varies is replaced by one mark, #, and marks
// that only separators keep apart become one, so that an address with a port,
// a date and a list of any length look alike. The template that is left, in
// lower case, is hashed with the version of the rules.
//
//	folded   numbers, amounts, durations, times, units and plurals behind numbers
//	         hexadecimal, UUIDs, ids of letters and digits, random letters
//	         IPv4, IPv6 and hardware addresses, ports, e-mail addresses
//	         file paths; of URLs all but scheme and host
//	         quoted tokens without blanks, quoted characters
//	         the 4 and 6 of tcp4 and tcp6; guesses: "(possibly because of ...)"
//	         broken UTF-8
//	kept     an HTTP status where the words around it make it one: "upstream
//	         503", "status code: 429", "502 Bad Gateway", "GET /v1/items 503",
//	         not "200 rows"
//	         SQLSTATE, errno, exit status, MySQL numbers, codes behind "code"
//	         short values of type, code, status, error and reason in JSON
//	         names with digits: sha256, utf-8, TLS 1.3, gpt-4o, claude-3-5-sonnet
//	         names of hosts, keys of JSON, prose in quotes
//
// Errors say more than their text, and less:
//
//	ErrorSignature() string  the error names itself; the first in the chain wins
//	Signs() error            a wrapper signs like this error: it is transparent
//	StatusCode() int         an HTTP status, put in front of the template
//	HTTPStatusCode() int     the same, as the AWS SDK has it
//	*url.Error               signs as method, scheme, host and cause
//	*net.OpError             signs without its addresses
//	*net.DNSError            signs without the resolver
//	*fs.PathError            signs without the path
//	syscall.Errno            has its Linux text on every system
//	errors.Join              signs as the set of its parts, in any order
//
// SDKs that carry the status in a field need Config.Status, three lines:
//
//	Status: func(err error) (int, bool) {
//		e, ok := err.(*openai.Error)
//		if !ok {
//			return 0, false
//		}
//		return e.StatusCode, true
//	}
//
// # Secrets
//
// Passwords, tokens, keys and cookies behind their names, credentials with the
// prefixes of known issuers, bearer tokens, PEM blocks, user info and queries
// of URLs fold before anything is hashed or shown. A template can still hold
// words of the message, and so of a prompt; a signature is no means of
// secrecy.
//
// # Limits
//
// Of a message of more than Config.MaxInput bytes the first three quarters and
// the last quarter are examined; of a long template the beginning and the end
// count. Time is linear up to that size and constant beyond it. A chain of
// errors is followed 32 deep, a join to its first eight distinct parts in
// order of their templates.
//
// A template is its own template: it is read again until it stays as it is.
// Those known to stay are remembered, by a hash and for speed alone, so that
// the first message of a kind takes up to twice as long as the others.
//
// # Versions
//
// The part of an ID before the colon is [Version]. A rule that changes any
// signature on file (testdata/golden.tsv) raises it. IDs of different versions
// are not equal, and [ID.Current] tells a stored one that has become useless.
//
// # Departures
//
// The first sketch masked every digit, which made 401, 429 and 500 one
// failure; status and provider codes stay here. Bytes that are not UTF-8 fold
// like values instead of becoming U+FFFD, so that a template never outgrows
// its message.
//
// # What it does not do
//
// It does not understand messages: the same reason in the words of another SDK
// is another signature. It does not learn which plain words vary, such as the
// names of users; quote them, or give Config.Fold. It does not look at stack
// traces or at the types of errors, which refactoring changes. It does not
// translate Unicode to normal forms, and 48 bits are enough to tell the
// failures of a service apart, not to resist who looks for a collision; the
// whole hash is in [Report].
package signature
