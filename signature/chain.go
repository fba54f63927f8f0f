package signature

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Bounds on what is followed in a chain of errors: it may be a cycle, and a
// join may hold thousands.
const (
	maxDepth  = 32
	maxNodes  = 256
	maxJoined = 8
)

// facts are what one walk through a chain of errors found.
type facts struct {
	name    string // what an error calls itself
	status  int
	host    string   // of the first URL
	causes  []string // types, outermost first; for Explain alone
	special bool     // some error in the chain is taken apart
	joined  bool     // some error in the chain is a join
	explain bool
	nodes   int
}

// plain is the type of most errors, which have a text and nothing else.
var plain = reflect.TypeOf(errors.New(""))

// appendError appends the template of err to dst.
func (s *Signer) appendError(dst []byte, err error, rep *Report) ([]byte, facts) {
	if rep == nil && s.status == nil && reflect.TypeOf(err) == plain {
		return s.appendText(dst, err.Error(), nil), facts{}
	}
	f := facts{explain: rep != nil}
	s.walk(err, 0, &f)
	var n *[kinds]int
	if rep != nil {
		n = new([kinds]int)
		defer func() { rep.Replaced = replaced(n) }()
	}
	if f.name != "" {
		return appendName(dst, f.name, s.rules.max), f
	}
	if f.joined {
		if pieces := s.pieces(err, 0); len(pieces) == 1 {
			return append(dst, pieces[0]...), f
		} else if len(pieces) > 1 {
			for i, p := range pieces {
				if i > 0 {
					dst = append(dst, "; "...)
				}
				dst = append(dst, p...)
			}
			return dst, f
		}
	}
	at := len(dst)
	if f.status != 0 {
		if slices.Contains(s.coarse, f.status) {
			return s.appendCoarse(dst, err, &f, n), f
		}
		dst = strconv.AppendInt(dst, int64(f.status), 10)
		dst = append(dst, ' ')
	}
	text := ""
	if f.special || f.joined {
		text = s.render(err, 0)
	} else {
		text = errorText(err)
	}
	head := len(dst)
	dst = s.appendText(dst, text, n)
	if f.status != 0 && startsWithStatus(dst[head:], dst[at:head-1]) {
		dst = append(dst[:at], dst[head:]...) // the text begins with it already
	}
	return dst, f
}

func startsWithStatus(t, status []byte) bool {
	return len(t) >= len(status) && string(t[:len(status)]) == string(status) && (len(t) == len(status) || !isAlnum(t[len(status)]))
}

// appendCoarse appends a template of nothing but a status and a host.
func (s *Signer) appendCoarse(dst []byte, err error, f *facts, n *[kinds]int) []byte {
	host := f.host
	if host == "" {
		_, rest, _ := strings.Cut(s.Normalize(errorText(err)), "://")
		if k := strings.IndexAny(rest, " \"'`)>],"); k >= 0 {
			rest = rest[:k]
		}
		host = rest
	}
	dst = strconv.AppendInt(dst, int64(f.status), 10)
	if host == "" {
		return dst
	}
	dst = append(dst, ' ')
	return s.appendText(dst, "https://"+host, n)
}

// walk looks at err and everything it wraps, outermost first. A panic in one
// of the methods asked ends the walk and loses nothing found so far.
func (s *Signer) walk(err error, depth int, f *facts) {
	defer func() { _ = recover() }()
	for ; err != nil && depth < maxDepth && f.nodes < maxNodes; depth++ {
		f.nodes++
		if f.explain {
			f.causes = append(f.causes, reflect.TypeOf(err).String())
		}
		if n, ok := err.(interface{ ErrorSignature() string }); ok && f.name == "" {
			f.name = call(n.ErrorSignature)
		}
		if f.status == 0 {
			f.status = s.statusOf(err)
		}
		if f.host == "" {
			f.host = urlHost(err)
		}
		switch u := err.(type) {
		case interface{ Signs() error }:
			f.special = true
			err = u.Signs()
		case interface{ Unwrap() error }:
			f.special = f.special || apart(err)
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			join := isJoin(err, u.Unwrap())
			f.joined = f.joined || join
			name := f.name
			for _, e := range u.Unwrap() {
				s.walk(e, depth+1, f)
			}
			if join {
				f.name = name // a part of a join names itself alone
			}
			return
		default:
			f.special = f.special || apart(err)
			return
		}
	}
}

// statusOf asks one error for its HTTP status, 0 if it has none.
func (s *Signer) statusOf(err error) (code int) {
	defer func() {
		if recover() != nil {
			code = 0
		}
	}()
	switch e := err.(type) {
	case interface{ StatusCode() int }:
		code = e.StatusCode()
	case interface{ HTTPStatusCode() int }: // AWS
		code = e.HTTPStatusCode()
	}
	if (code < 100 || code > 599) && s.status != nil {
		if c, ok := s.status(err); ok {
			code = c
		}
	}
	if code < 100 || code > 599 {
		return 0
	}
	return code
}

// pieces gives the sorted, distinct templates of the errors joined in err, or
// nil if err is no join. Neither order nor repetition counts.
func (s *Signer) pieces(err error, depth int) []string {
	for ; depth < maxDepth; depth++ {
		switch u := err.(type) {
		case interface{ Signs() error }:
			err = u.Signs()
			continue
		case interface{ Unwrap() []error }:
			children := unwrapAll(u.Unwrap)
			if !isJoin(err, children) {
				return nil
			}
			var all []string
			for _, c := range children[:min(len(children), maxNodes)] {
				if c == nil {
					continue
				}
				if more := s.pieces(c, depth+1); more != nil {
					all = append(all, more...)
					continue
				}
				t, _ := s.appendError(nil, c, nil)
				all = append(all, string(t))
			}
			slices.Sort(all)
			all = slices.Compact(all)
			return all[:min(len(all), maxJoined)]
		}
		return nil
	}
	return nil
}

// isJoin tells errors.Join from an fmt.Errorf with several %w: the text of a
// join is the texts of its parts, a line each.
func isJoin(err error, children []error) bool {
	if len(children) == 0 || len(children) > maxNodes {
		return false
	}
	text := errorText(err)
	for i, c := range children {
		if c == nil {
			return false
		}
		if i > 0 {
			if text == "" || text[0] != '\n' {
				return false
			}
			text = text[1:]
		}
		t := errorText(c)
		if !strings.HasPrefix(text, t) {
			return false
		}
		text = text[len(t):]
	}
	return text == ""
}

// errorText gives err.Error(), or the type's name when there is no value to
// ask or asking panics.
func errorText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = typeName(err)
		}
	}()
	if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
		return typeName(err)
	}
	return err.Error()
}

func typeName(err error) string { return fmt.Sprintf("%T", err) }

// call runs a method of a foreign error.
func call(f func() string) (s string) {
	defer func() {
		if recover() != nil {
			s = ""
		}
	}()
	return f()
}

func unwrapAll(f func() []error) (errs []error) {
	defer func() {
		if recover() != nil {
			errs = nil
		}
	}()
	return f()
}

// appendName appends the name an error gave itself: as it is, but valid and
// bounded.
func appendName(dst []byte, name string, limit int) []byte {
	name = strings.ToValidUTF8(name, string(mark))
	if len(name) > limit {
		name = strings.ToValidUTF8(name[:limit], "")
	}
	return append(dst, name...)
}
