package neterr

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"syscall"
)

// ofSetup recognises what went wrong before there was a connection to send on.
func ofSetup(err error) Kind {
	var (
		unverified *tls.CertificateVerificationError
		authority  x509.UnknownAuthorityError
		host       x509.HostnameError
		invalid    x509.CertificateInvalidError
		roots      x509.SystemRootsError
		record     tls.RecordHeaderError
		dns        *net.DNSError
		address    *net.AddrError
		op         *net.OpError
	)
	switch {
	case errors.As(err, &unverified), errors.As(err, &authority), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &roots):
		return Cert
	case errors.Is(err, http.ErrSchemeMismatch):
		return Bad
	case errors.As(err, &record):
		// The first record: what answers there does not speak TLS. When it is a
		// plain HTTP server, the URL's scheme is wrong.
		switch {
		case string(record.RecordHeader[:]) == "HTTP/":
			return Bad
		case strings.HasPrefix(record.Msg, "first record"):
			return Dial
		}
		return Broken
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return NoHost
		}
		return Dial
	case errors.As(err, &op):
		switch op.Op {
		case "remote error", "local error":
			if refusesUs(op.Err) {
				return Cert
			}
			return Broken
		case "dial", "proxyconnect", "socks connect", "connect":
			if errors.As(err, &address) {
				return Bad
			}
			return Dial
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return Dial
	}
	if badURL(err) {
		return Bad
	}
	if k := ofProxy(err); k != None {
		return k
	}
	return ofSetupText(leaf(err).Error())
}

// badURL reports whether err comes from net/url, below the *url.Error that
// http.Client wraps everything in.
func badURL(err error) bool {
	var (
		escape url.EscapeError
		host   url.InvalidHostError
		ue     *url.Error
	)
	if errors.As(err, &escape) || errors.As(err, &host) {
		return true
	}
	for errors.As(err, &ue) {
		if ue.Op == "parse" {
			return true
		}
		err = ue.Err
	}
	return false
}

// refusesUs reports whether a TLS alert is about a certificate or about what
// both sides can speak: the same again would meet it again. The numbers are RFC
// 8446's, section 6; crypto/tls does not export the type of alerts over TCP.
func refusesUs(alert error) bool {
	v := reflect.ValueOf(alert)
	if v.Kind() != reflect.Uint8 {
		return false
	}
	switch v.Uint() {
	case 40, 42, 43, 44, 45, 46, 48, 49, 70, 71, 109, 112, 116, 120:
		return true
	}
	return false
}

// leaf is the innermost error of a plain chain.
func leaf(err error) error {
	for range 64 {
		in := errors.Unwrap(err)
		if in == nil {
			return err
		}
		err = in
	}
	return err
}

// badTexts are the refusals of net/http to send what it was given. None of
// them has a type.
var badTexts = [...]string{
	"unsupported protocol scheme", "http: no Host in request URL", "http: nil Request.", "net/http: invalid method",
	"net/http: invalid header field", "net/http: invalid trailer field", "http: invalid Host header",
	"net/http: nil Context", "invalid URL port", "http: Request.RequestURI can't be set",
}

func ofSetupText(text string) Kind {
	switch {
	case strings.HasSuffix(text, "TLS handshake timeout"):
		return Dial
	case strings.HasPrefix(text, "http2: client conn not usable"), strings.HasPrefix(text, "http2: no cached connection"),
		strings.HasPrefix(text, "http2: client conn is closed"):
		return Dial
	}
	for _, bad := range badTexts {
		if strings.HasPrefix(text, bad) {
			return Bad
		}
	}
	return None
}

// plain is the type that net/http gives a proxy's refusal of CONNECT.
var plain = reflect.TypeOf(errors.New(""))

// ofProxy recognises a proxy that refuses CONNECT. net/http tells it by the bare
// status text alone, and so does many a client of its own the answer of an
// upstream. Below http.Client's *url.Error for https nobody else is known to do
// so; what remains in doubt may have been sent. Nothing but a proxy answers 407.
func ofProxy(err error) Kind {
	in := leaf(err)
	if reflect.TypeOf(in) != plain {
		return None
	}
	text := in.Error()
	if text == http.StatusText(http.StatusProxyAuthRequired) {
		return Bad
	}
	var ue *url.Error
	for errors.As(err, &ue) {
		err = ue.Err
	}
	if ue == nil || ue.Err != in || !strings.HasPrefix(strings.ToLower(ue.URL), "https:") {
		return None
	}
	for status := 400; status < 512; status++ {
		if text != http.StatusText(status) || text == "" {
			continue
		}
		switch {
		case status >= 500:
			return Dial
		case status != http.StatusRequestTimeout && status != http.StatusTooEarly && status != http.StatusTooManyRequests:
			return Bad
		}
	}
	return None
}

// Bare returns err without the method and the URL that http.Client has added, so
// that a failure is the same one with and without a client in between.
func Bare(err error) error {
	for range 8 {
		ue, ok := err.(*url.Error)
		if !ok || ue.Op == "parse" || ue.Err == nil {
			break
		}
		err = ue.Err
	}
	return err
}
