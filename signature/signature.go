package signature

import (
	"crypto/sha256"
	"encoding/hex"
)

// Version is the version of the rules. Signatures of different versions are
// never equal.
const Version = "1"

// ID is the signature of an error: the version of the rules, a colon, and 12
// hexadecimal digits. The empty ID means no error.
type ID string

// Current reports whether id was made by this version of the rules. A stored
// ID that is not current says nothing about errors signed today.
func (id ID) Current() bool {
	return len(id) > len(Version) && string(id[:len(Version)]) == Version && id[len(Version)] == ':'
}

var standard = &Signer{rules: rules{max: defaultMax}, settled: new(memory)}

// Of gives the signature of err by the default rules. It is "" for nil, never
// panics, and is safe for concurrent use, like all functions of this package.
func Of(err error) ID { return standard.Of(err) }

// OfString gives the signature of a message by the default rules.
func OfString(msg string) ID { return standard.OfString(msg) }

// Normalize gives the template of a message by the default rules: what is left
// when everything that varies from one occurrence to the next is folded.
func Normalize(msg string) string { return standard.Normalize(msg) }

// AppendNormalize appends the template of msg to dst and returns the extended
// slice. It allocates nothing when dst has room for len(msg) more bytes and the
// template is one of those met lately; the first message of a kind costs more.
func AppendNormalize(dst []byte, msg string) []byte { return standard.AppendNormalize(dst, msg) }

// Explain tells how the signature of err came about, by the default rules.
func Explain(err error) Report { return standard.Explain(err) }

// sum hashes a template that is preceded by the version's prefix.
func sum(prefixed []byte) ID {
	h := sha256.Sum256(prefixed)
	var b [len(Version) + 1 + 12]byte
	copy(b[:], Version+":")
	hex.Encode(b[len(Version)+1:], h[:6])
	return ID(b[:])
}
