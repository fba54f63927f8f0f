package signature

import (
	"crypto/x509"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// apart reports whether err is of a type whose text holds what varies and is
// therefore written anew by render.
func apart(err error) bool {
	switch err.(type) {
	case *url.Error, *net.OpError, *net.DNSError, *os.SyscallError, syscall.Errno, *fs.PathError, *os.LinkError,
		x509.UnknownAuthorityError, *x509.UnknownAuthorityError:
		return true
	}
	return false
}

// render writes the text of err with the errors of the standard library taken
// apart. Where it can, it writes what folding the text would give as well, so
// that a message read from a log signs like the error itself.
func (s *Signer) render(err error, depth int) string {
	if err == nil || depth >= maxDepth {
		return ""
	}
	if e, ok := err.(interface{ Signs() error }); ok {
		if inner := signs(e.Signs); inner != nil {
			return s.render(inner, depth+1)
		}
		return errorText(err)
	}
	if isNil(err) {
		return typeName(err)
	}
	switch e := err.(type) {
	case *url.Error:
		// The text quotes the whole URL, with ids and secrets in path and query.
		return e.Op + ` "` + bareURL(e.URL) + `": ` + s.render(e.Err, depth+1)
	case *net.OpError:
		return s.renderOp(e, depth)
	case *net.DNSError:
		// Which resolver answered is not part of the failure.
		t := "lookup " + e.Name
		if e.Name == "" {
			t = "lookup"
		}
		return t + ": " + e.Err
	case *os.SyscallError:
		return syscallName(e.Syscall) + ": " + s.render(e.Err, depth+1)
	case syscall.Errno:
		if t := errnoText(e); t != "" {
			return t
		}
		return errorText(err)
	case *fs.PathError:
		return e.Op + " " + string(mark) + ": " + s.render(e.Err, depth+1)
	case *os.LinkError:
		return e.Op + " " + string(mark) + ": " + s.render(e.Err, depth+1)
	case x509.UnknownAuthorityError, *x509.UnknownAuthorityError:
		// The text may name the certificate that was tried last.
		return "x509: certificate signed by unknown authority"
	}
	return s.renderWrapped(err, depth)
}

// renderOp leaves out the addresses, of which the local one has a new port
// each time, but not that there were some.
func (s *Signer) renderOp(e *net.OpError, depth int) string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Net != "" {
		b.WriteByte(' ')
		b.WriteString(strings.TrimRight(e.Net, "46"))
	}
	if e.Source != nil || e.Addr != nil {
		b.WriteByte(' ')
		b.WriteByte(mark)
	}
	b.WriteString(": ")
	b.WriteString(s.render(e.Err, depth+1))
	return b.String()
}

// renderWrapped takes the text of a wrapper and replaces in it the texts of
// what it wraps by their rendered form.
func (s *Signer) renderWrapped(err error, depth int) string {
	text := errorText(err)
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		if inner := signs(u.Unwrap); inner != nil {
			return replaceLast(text, errorText(inner), s.render(inner, depth+1))
		}
	case interface{ Unwrap() []error }:
		if pieces := s.pieces(err, depth); pieces != nil {
			return strings.Join(pieces, "; ")
		}
		for _, inner := range unwrapAll(u.Unwrap) {
			if inner != nil {
				text = replaceLast(text, errorText(inner), s.render(inner, depth+1))
			}
		}
	}
	return text
}

func replaceLast(text, from, to string) string {
	if from == "" || from == to {
		return text
	}
	k := strings.LastIndex(text, from)
	if k < 0 {
		return text
	}
	return text[:k] + to + text[k+len(from):]
}

func signs(f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	return f()
}

// bareURL keeps the scheme and host of a URL that may not even parse.
func bareURL(u string) string {
	scheme, rest, ok := strings.Cut(u, "://")
	if !ok {
		if k := strings.IndexAny(u, "?# \t\r\n"); k >= 0 {
			u = u[:k]
		}
		return u
	}
	if k := strings.IndexAny(rest, "/?#\\ \t\r\n\""); k >= 0 {
		rest = rest[:k]
	}
	if k := strings.LastIndexByte(rest, '@'); k >= 0 {
		rest = rest[k+1:]
	}
	return scheme + "://" + rest
}

func urlHost(err error) string {
	e, ok := err.(*url.Error)
	if !ok || e == nil {
		return ""
	}
	_, rest, ok := strings.Cut(bareURL(e.URL), "://")
	if !ok {
		return ""
	}
	return rest
}

// syscallName gives the calls of Windows the names of their Unix counterparts.
func syscallName(name string) string {
	switch name {
	case "connectex":
		return "connect"
	case "wsarecv", "wsarecvfrom", "recvfrom", "recvmsg":
		return "read"
	case "wsasend", "wsasendto", "sendto", "sendmsg":
		return "write"
	}
	return name
}
