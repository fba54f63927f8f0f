package signature_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/signature"
	"github.com/nightfuse/nightfuse/signature/internal/sketch"
)

// benchMessage is a provider's answer as an SDK prints it.
const benchMessage = `POST "https://api.openai.com/v1/chat/completions": 429 Too Many Requests {"message":"Rate limit hit for gpt-4o in organization org-sYXxMtpwWmOfNAPeeIEEEPbq on requests per minute (RPM): limit 500, used 15, requested 1. Try again in 7m7s.","type":"requests","param":null,"code":"rate_limit_exceeded"}`

// BenchmarkSign compares, in one run, the forms of this package with
// expressions that fold the same kinds of values. On a busy machine
// "go run ./signature/internal/measure -speed" compares them fairly.
func BenchmarkSign(b *testing.B) {
	short := "item 29b5ef69-67c8-4775-bccf-c2d08ee68ad7: upstream 503 after 1m30s from 10.0.0.7:443"
	for _, m := range []struct{ name, msg string }{{"short", short}, {"answer", benchMessage}} {
		err := errors.New(m.msg)
		buf := make([]byte, 0, 4096)
		b.Run(m.name+"/append", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(m.msg)))
			for b.Loop() {
				buf = signature.AppendNormalize(buf[:0], m.msg)
			}
		})
		b.Run(m.name+"/of", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				signature.Of(err)
			}
		})
		for _, peer := range []struct {
			name string
			of   func(string) string
		}{
			{"regexp", sketch.Of},
			{"regexp-normalize", sketch.Normalize},
			{"regexp-few", sketch.Few},
			{"regexp-joined", sketch.Joined},
			{"regexp-digits", sketch.Least},
		} {
			b.Run(m.name+"/"+peer.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					peer.of(m.msg)
				}
			})
		}
	}
}

// BenchmarkLength shows that time grows with the message up to the cap and not
// beyond it.
func BenchmarkLength(b *testing.B) {
	for _, n := range []struct {
		name string
		size int
	}{{"300B", 300}, {"3kB", 3000}, {"30kB", 30_000}, {"1MB", 1_000_000}} {
		msg := strings.Repeat(benchMessage+" ", n.size/len(benchMessage)+1)[:n.size]
		buf := make([]byte, 0, 4096)
		b.Run(n.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = signature.AppendNormalize(buf[:0], msg)
			}
		})
	}
}
