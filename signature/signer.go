package signature

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Hosts says what becomes of the host names in URLs.
type Hosts uint8

const (
	// HostsKeep keeps the names of hosts: two upstreams that fail alike have
	// two signatures. Addresses and ports fold.
	HostsKeep Hosts = iota
	// HostsFold folds the names of hosts as well.
	HostsFold
)

const (
	defaultMax = 4096
	minMax     = 256
)

// Config holds rules beside the built-in ones. The zero Config gives the rules
// of Of.
type Config struct {
	// Keep lists tokens, or beginnings of tokens, that are never folded, such
	// as "tenant-" or "gpt-"; case does not matter. Nil keeps none.
	Keep []string
	// Fold reports whether a token is to be folded although it looks like a
	// word. It must be deterministic and safe for concurrent use; a panic
	// counts as false. Nil folds none.
	Fold func(token string) bool
	// Status finds the HTTP status in an error that carries it in a field. It
	// is asked about each error of the chain that has no method for it. It must
	// be safe for concurrent use; a panic counts as none. Nil finds none.
	Status func(error) (int, bool)
	// Coarse lists HTTP statuses that sign by status and host alone, so that
	// one outage met on many routes is one signature. Nil lists none.
	Coarse []int
	// Hosts says whether host names stay; zero is HostsKeep.
	Hosts Hosts
	// MaxInput is the number of bytes of a message that are examined; of a
	// longer one these are its first three quarters and its last quarter.
	// 0 is 4096, the smallest is 256.
	MaxInput int
}

// Signer signs errors by the rules of its Config. It is immutable and safe for
// concurrent use; what it remembers saves time and changes no result. It has no
// statistics, since it has no state.
type Signer struct {
	rules   rules
	status  func(error) (int, bool)
	coarse  []int
	settled *memory
}

// rules are what the scanner has to know.
type rules struct {
	keep   []string
	fold   func(string) bool
	hosts  Hosts
	max    int
	hooked bool
}

// New checks c and makes a Signer. All bad fields are reported at once.
func New(c Config) (*Signer, error) {
	var bad []error
	s := &Signer{status: c.Status, coarse: slices.Clone(c.Coarse), settled: new(memory)}
	s.rules = rules{fold: c.Fold, hosts: c.Hosts, max: c.MaxInput}
	for i, k := range c.Keep {
		if k == "" || strings.ContainsAny(k, " \t\r\n") {
			bad = append(bad, fmt.Errorf("signature: Keep[%d] %q is no token", i, k))
		}
		s.rules.keep = append(s.rules.keep, string(appendLower(nil, k)))
	}
	for i, v := range c.Coarse {
		if v < 100 || v > 599 {
			bad = append(bad, fmt.Errorf("signature: Coarse[%d] %d is no HTTP status", i, v))
		}
	}
	if c.Hosts > HostsFold {
		bad = append(bad, fmt.Errorf("signature: Hosts %d is unknown", c.Hosts))
	}
	switch {
	case c.MaxInput == 0:
		s.rules.max = defaultMax
	case c.MaxInput < minMax:
		bad = append(bad, fmt.Errorf("signature: MaxInput %d is below %d bytes", c.MaxInput, minMax))
	}
	s.rules.hooked = len(c.Keep) > 0 || c.Fold != nil
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	return s, nil
}

func appendLower(dst []byte, s string) []byte {
	for i := range len(s) {
		dst = append(dst, lower[s[i]])
	}
	return dst
}

// foldToken asks the caller's rule.
func (r *rules) foldToken(t string) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return r.fold(t)
}

// keeps reports whether t starts with a token to keep.
func (r *rules) keeps(t string) bool {
	for _, k := range r.keep {
		if hasPrefixFold(t, k) {
			return true
		}
	}
	return false
}

// Of gives the signature of err, "" for nil.
func (s *Signer) Of(err error) ID {
	if err == nil {
		return ""
	}
	buf := buffers.Get().(*[]byte)
	b, _ := s.appendError(append((*buf)[:0], Version+":"...), err, nil)
	id := sum(b)
	*buf = b
	buffers.Put(buf)
	return id
}

// OfString gives the signature of a message.
func (s *Signer) OfString(msg string) ID {
	buf := buffers.Get().(*[]byte)
	b := s.appendText(append((*buf)[:0], Version+":"...), msg, nil)
	id := sum(b)
	*buf = b
	buffers.Put(buf)
	return id
}

// buffers holds buffers for templates that are only hashed. It keeps memory,
// not state: no result depends on it.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, defaultMax)
	return &b
}}

// Normalize gives the template of a message.
func (s *Signer) Normalize(msg string) string {
	return string(s.appendText(make([]byte, 0, 256), msg, nil))
}

// AppendNormalize appends the template of msg to dst.
func (s *Signer) AppendNormalize(dst []byte, msg string) []byte {
	return s.appendText(dst, msg, nil)
}

// appendText appends the template of msg, counting replacements in n.
func (s *Signer) appendText(dst []byte, msg string, n *[kinds]int) []byte {
	return s.settle(s.pass(dst, msg, n), len(dst))
}

// pass appends what one reading of msg gives, counting replacements in n.
//
// The cut is made in the template and not in the message, so that the length
// of what is folded does not move it: up to the first blank behind max/2
// bytes, and from the rest the last max/8 bytes, where a JSON body names its
// error type.
func (s *Signer) pass(dst []byte, msg string, n *[kinds]int) []byte {
	maxIn := s.rules.max
	z := scanner{s: msg, dst: dst, r: &s.rules, n: n, end: len(msg), base: len(dst), stop: len(dst) + maxIn/2, close: nothing, wild: -1}
	if len(msg) > maxIn {
		z.end, z.cut = maxIn*3/4, true
	}
	at := z.run()
	if at < len(msg) {
		z.tail(at, maxIn)
	}
	d := z.dst
	for len(d) > z.base && d[len(d)-1] == ' ' {
		d = d[:len(d)-1]
	}
	return d
}

// tail appends what the rest of a long message, from at on, has to say.
func (z *scanner) tail(at, maxIn int) {
	from := at
	if far := len(z.s) - maxIn/4; far > at {
		from = tailStart(z.s, far, maxIn/8)
	}
	head := len(z.dst)
	t := scanner{s: z.s, dst: z.dst, r: z.r, n: z.n, i: from, end: len(z.s), base: head, close: nothing, wild: -1}
	if from < len(z.s) && class[z.s[from]]&cSpace != 0 {
		t.dst = append(t.dst, ' ')
		t.base++
	}
	t.run()
	d := t.dst
	cut := from > at
	keep := head
	if len(d)-head > maxIn/8 {
		keep = len(d)
		for k := len(d) - 1; k >= len(d)-maxIn/8; k-- {
			if d[k] == ' ' || d[k] == ',' {
				keep = k
			}
		}
		cut = true
	}
	if !cut {
		z.dst = d
		return
	}
	const more = "\u2026"
	if head > z.base && d[head-1] == mark {
		// A mark says as well that something is missing; two are one.
		for k := keep; k < len(d) && k < keep+4; k++ {
			if d[k] == mark {
				keep = k + 1
			} else if class[d[k]]&cJoin == 0 {
				break
			}
		}
		z.dst = append(d[:head], d[keep:]...)
		return
	}
	n := len(d) - keep
	d = append(d, more...)
	copy(d[head+len(more):], d[keep:keep+n])
	copy(d[head:], more)
	z.dst = d[:head+len(more)+n]
}

// tailStart moves from to the next place where a token begins, so that no
// part of one shows.
func tailStart(s string, from, within int) int {
	for k := from; k < len(s) && k-from < within; k++ {
		if class[s[k]]&cSpace != 0 {
			return k
		}
	}
	for k := from; k < len(s); k++ {
		if c := class[s[k]]; c&(cAlnum|cGlue|cHigh) == 0 {
			return k
		}
	}
	return len(s)
}
