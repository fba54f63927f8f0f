// Command msgs makes errors happen, real ones, and prints them as labelled
// messages: group, tab, message, with \\ \n \r \t escaped. Its output is
// signature/testdata/go.tsv; it is a module of its own because it needs
// database drivers and provider SDKs.
//
//	cd internal/msgs && go run . > ../../signature/testdata/go.tsv
//
// What varies in production varies here: ports, addresses, ids, paths, amounts.
package main

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
)

// samples is how often each failure is made to happen.
const samples = 5

// failure is one way to fail. The name is the group, see the label policy in
// signature/testdata/README.md.
type failure struct {
	name string
	make func(*maker) error
}

// maker gives the parts that vary.
type maker struct {
	r    *rand.Rand
	n    int  // which sample this is
	cert bool // addresses must be in the test certificate
}

func (m *maker) digits(lo, hi int) int { return lo + m.r.IntN(hi-lo) }

func (m *maker) hex(n int) string {
	b := make([]byte, (n+1)/2)
	for i := range b {
		b[i] = byte(m.r.Uint32())
	}
	return hex.EncodeToString(b)[:n]
}

func (m *maker) uuid() string {
	h := m.hex(32)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

func (m *maker) base62(n int) string {
	const all = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	b := make([]byte, n)
	for i := range b {
		b[i] = all[m.r.IntN(len(all))]
	}
	return string(b)
}

// host gives a loopback address, of IPv6 every other time.
func (m *maker) host() string {
	if m.n%2 == 1 {
		return "[::1]"
	}
	if m.cert {
		return "127.0.0.1" // the one the certificate of httptest is valid for
	}
	return fmt.Sprintf("127.%d.%d.%d", m.r.IntN(250), m.r.IntN(250), 1+m.r.IntN(250))
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
	r := rand.New(rand.NewPCG(20, 26))
	status := 0
	for _, list := range [][]failure{network(), standard(), drivers(), providers()} {
		for _, f := range list {
			for n := range samples {
				err := f.make(&maker{r: r, n: n})
				if err == nil {
					err = errors.New("nothing failed")
					fmt.Fprintf(os.Stderr, "msgs: %s: %v\n", f.name, err)
					status = 1
					continue
				}
				fmt.Fprintf(out, "%s\t%s\n", f.name, escape.Replace(err.Error()))
			}
		}
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "msgs:", err)
		status = 1
	}
	os.Exit(status)
}
