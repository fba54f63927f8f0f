package signature_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/nightfuse/nightfuse/signature"
)

// vary gives the parts of an error that differ from one occurrence to the next.
type vary struct{ *rand.Rand }

func (v vary) addr() net.Addr {
	var ip netip.Addr
	if v.IntN(2) == 0 {
		ip = netip.AddrFrom4([4]byte{byte(1 + v.IntN(223)), byte(v.IntN(256)), byte(v.IntN(256)), byte(v.IntN(256))})
	} else {
		b := [16]byte{0x20, 1}
		for i := 2 + v.IntN(13); i < 16; i++ {
			b[i] = byte(v.IntN(256))
		}
		ip = netip.AddrFrom16(b)
		if v.IntN(4) == 0 {
			ip = netip.MustParseAddr("fe80::1").WithZone(fmt.Sprintf("eth%d", v.IntN(4)))
		}
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(1024+v.IntN(60000))))
}

// post wraps err as net/http does.
func (v vary) post(err error) error {
	return &url.Error{Op: "Post", URL: fmt.Sprintf("https://api.example.net/v1/items/%x?key=%x", v.Uint64(), v.Uint64()), Err: err}
}

func (v vary) op(op string, err error) error {
	e := &net.OpError{Op: op, Net: "tcp", Addr: v.addr(), Err: err}
	if op != "dial" {
		e.Source = v.addr()
	}
	return v.post(e)
}

// failures are network failures as the standard library builds them.
var failures = []struct {
	name string
	make func(vary) error
}{
	{"refused", func(v vary) error { return v.op("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED)) }},
	{"reset", func(v vary) error { return v.op("read", os.NewSyscallError("read", syscall.ECONNRESET)) }},
	{"broken pipe", func(v vary) error { return v.op("write", os.NewSyscallError("write", syscall.EPIPE)) }},
	{"dial timeout", func(v vary) error { return v.op("dial", os.ErrDeadlineExceeded) }},
	{"read timeout", func(v vary) error { return v.op("read", os.ErrDeadlineExceeded) }},
	{"unreachable", func(v vary) error { return v.op("dial", os.NewSyscallError("connect", syscall.ENETUNREACH)) }},
	{"closed", func(v vary) error { return v.op("read", net.ErrClosed) }},
	{"dns", func(v vary) error {
		e := &net.DNSError{Err: "no such host", Name: "api.example.net", IsNotFound: true}
		if v.IntN(3) > 0 { // some resolvers name themselves
			e.Server = v.addr().String()
		}
		return v.post(&net.OpError{Op: "dial", Net: "tcp", Err: e})
	}},
	{"dns timeout", func(v vary) error {
		e := &net.DNSError{Err: fmt.Sprintf("read udp %v->%v: i/o timeout", v.addr(), v.addr()), Name: "api.example.net", Server: v.addr().String(), IsTimeout: true}
		return v.post(&net.OpError{Op: "dial", Net: "tcp", Err: e})
	}},
	{"tls name", func(v vary) error {
		c := &x509.Certificate{DNSNames: []string{"proxy.example.org"}}
		return v.post(fmt.Errorf("tls: failed to verify certificate: %w", x509.HostnameError{Certificate: c, Host: "api.example.net"}))
	}},
	{"tls authority", func(v vary) error {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: fmt.Sprintf("box %d", v.IntN(99))}}
		return v.post(fmt.Errorf("tls: failed to verify certificate: %w", x509.UnknownAuthorityError{Cert: c}))
	}},
	{"goaway", func(v vary) error {
		return v.post(fmt.Errorf("http2: server sent GOAWAY and closed the connection; LastStreamID=%d, ErrCode=NO_ERROR, debug=%q", v.IntN(1e6), []string{"", "graceful_stop", "max_age"}[v.IntN(3)]))
	}},
	{"eof", func(v vary) error { return v.post(io.EOF) }},
	{"unexpected eof", func(v vary) error { return v.post(io.ErrUnexpectedEOF) }},
	{"headers", func(v vary) error { return v.post(errors.New("net/http: timeout awaiting response headers")) }},
	{"client timeout", func(v vary) error {
		return v.post(fmt.Errorf("%w (Client.Timeout exceeded while awaiting headers)", context.DeadlineExceeded))
	}},
	{"deadline", func(v vary) error { return v.post(context.DeadlineExceeded) }},
	{"tls handshake", func(v vary) error { return v.post(errors.New("net/http: TLS handshake timeout")) }},
}

// TestNetworkFailures holds each failure to one signature, whatever addresses,
// ports and paths it carries, bare or wrapped with an item's id, and different
// failures to different ones.
func TestNetworkFailures(t *testing.T) {
	t.Parallel()
	v := vary{rand.New(rand.NewPCG(1, 2))}
	seen := map[signature.ID]string{}
	for _, f := range failures {
		first := f.make(v)
		want := signature.Of(first)
		if other, ok := seen[want]; ok {
			t.Errorf("%s and %s have one signature: %q", f.name, other, signature.Explain(first).Template)
		}
		seen[want] = f.name
		wrapped := signature.Of(fmt.Errorf("item %d: %w", 7, first))
		for range 1000 {
			err := f.make(v)
			if signature.Of(err) != want {
				t.Fatalf("%s: %q and %q have two signatures", f.name, signature.Explain(first).Template, signature.Explain(err).Template)
			}
			if got := fmt.Errorf("item %x: %w", v.Uint64(), err); signature.Of(got) != wrapped {
				t.Fatalf("%s, wrapped: %q has another signature than item 7", f.name, signature.Explain(got).Template)
			}
		}
	}
}

// TestTextAgrees holds the signature of an error to that of its text, as read
// from a log: taking errors apart must not make a second kind of signature.
func TestTextAgrees(t *testing.T) {
	t.Parallel()
	v := vary{rand.New(rand.NewPCG(3, 4))}
	for _, f := range failures {
		if f.name == "tls authority" {
			continue // the text may name a certificate, which Of leaves out
		}
		for range 20 {
			err := f.make(v)
			if got, want := signature.OfString(err.Error()), signature.Of(err); got != want {
				t.Fatalf("%s: text gives %q, error %q", f.name, signature.Normalize(err.Error()), signature.Explain(err).Template)
			}
		}
	}
}
