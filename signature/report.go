package signature

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
)

// Report tells how a signature came about. It holds no secret the rules know
// of, but a template may hold words of the message, and so of a prompt.
type Report struct {
	ID       ID
	Digest   string        // the whole hash, 64 hexadecimal digits, for archives
	Template string        // what was hashed: the message without what varies
	Named    bool          // the template is the name an error gave itself
	Status   int           // the HTTP status in the chain, 0 if none
	Causes   []string      // types of the errors in the chain, outermost first
	Replaced []Replacement // what was folded
}

// Replacement counts the folded parts of one kind: number, id, uuid, address,
// url, email, path, quoted, secret, hook (the caller's Fold) or invalid
// (no UTF-8).
type Replacement struct {
	Kind  string
	Count int
}

// Explain tells how the signature of err came about; the zero Report for nil.
func (s *Signer) Explain(err error) Report {
	if err == nil {
		return Report{}
	}
	var r Report
	b, f := s.appendError([]byte(Version+":"), err, &r)
	h := sha256.Sum256(b)
	r.ID = sum(b)
	r.Digest = hex.EncodeToString(h[:])
	r.Template = string(b[len(Version)+1:])
	r.Named = f.name != ""
	r.Status = f.status
	r.Causes = f.causes
	return r
}

func replaced(n *[kinds]int) (list []Replacement) {
	for k, c := range n {
		if c > 0 && kind(k) != kindNone {
			list = append(list, Replacement{Kind: kindNames[k], Count: c})
		}
	}
	return list
}

// isNil reports whether err is a nil pointer in an interface.
func isNil(err error) bool {
	v := reflect.ValueOf(err)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
