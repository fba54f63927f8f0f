package signature_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
	"testing"
)

// answerNoName answers questions, as over TCP, that there is no such name.
func answerNoName(c net.Conn) {
	for {
		var n [2]byte
		if _, err := io.ReadFull(c, n[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(n[:]))
		if _, err := io.ReadFull(c, q); err != nil || len(q) < 12 {
			return
		}
		q[2] |= 0x80        // an answer
		q[3] = 0x80 | 3     // recursion available, no such name
		q[10], q[11] = 0, 0 // the question's options go
		e := 12             // the question is repeated
		for e < len(q) && q[e] != 0 {
			e += 1 + int(q[e])
		}
		q = q[:min(e+5, len(q))]
		binary.BigEndian.PutUint16(n[:], uint16(len(q)))
		if _, err := c.Write(append(n[:], q...)); err != nil {
			return
		}
	}
}

// goAway gives a server that takes a connection of HTTP/2 up to the first
// request and leaves.
func (v vary) goAway() func(net.Conn) {
	p := binary.BigEndian.AppendUint32(nil, 1+v.Uint32N(1<<30))
	p = binary.BigEndian.AppendUint32(p, 0) // NO_ERROR
	p = append(p, v.one([]string{"", "graceful_stop", "max_age", "shutdown"})...)
	return func(c net.Conn) { leave(c, p) }
}

// leave speaks HTTP/2 until there is a request and says go away.
func leave(c net.Conn, payload []byte) {
	const (
		headers  = 1
		settings = 4
		goaway   = 7
	)
	frame := func(kind byte, payload ...byte) []byte {
		return append([]byte{0, 0, byte(len(payload)), kind, 0, 0, 0, 0, 0}, payload...)
	}
	if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		_, _ = c.Write(frame(settings))
	}()
	for {
		var h [9]byte
		if _, err := io.ReadFull(c, h[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, c, int64(h[0])<<16|int64(h[1])<<8|int64(h[2])); err != nil {
			return
		}
		if h[3] == headers {
			break
		}
	}
	go hold(c)
	<-greeted
	_, _ = c.Write(frame(goaway, payload...))
}

// clientTLS trusts pool and spares the test the dearer curves.
func clientTLS(pool *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: pool, CurvePreferences: []tls.CurveID{tls.CurveP256}}
}

// box is an authority and two servers it signed for: one of another name, one
// of the name in the URL.
type box struct {
	trusted  *x509.CertPool // holds the authority
	namesake *x509.CertPool // holds another of its name
	other    string
	right    string
}

func newBox(t *testing.T, number int, host string) box {
	t.Helper()
	name := fmt.Sprintf("box %d", number)
	root, key := certificate(t, name, nil, nil)
	twin, _ := certificate(t, name, nil, nil)
	x := box{trusted: x509.NewCertPool(), namesake: x509.NewCertPool()}
	x.trusted.AddCert(root)
	x.namesake.AddCert(twin)
	for _, s := range []struct {
		addr *string
		name string
	}{{&x.other, fmt.Sprintf("node-%d.example.org", number)}, {&x.right, "api.example.net"}} {
		c, k := certificate(t, s.name, root, key)
		conf := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{c.Raw}, PrivateKey: k}}, CurvePreferences: []tls.CurveID{tls.CurveP256}}
		ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		*s.addr = ln.Addr().String()
		serve(t, ln, func(c *net.TCPConn) {
			_ = tls.Server(c, conf).Handshake()
			c.Close()
		})
	}
	return x
}

// certificate makes an authority, or a server's certificate signed by parent.
func certificate(t *testing.T, name string, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(rand.Int64()), Subject: pkix.Name{CommonName: name}, NotBefore: past, NotAfter: past.AddDate(200, 0, 0)}
	if parent == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = c, key
	} else {
		c.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(cryptorand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}
