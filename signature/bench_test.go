package signature_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/signature"
)

// benchMessage is a provider's answer as an SDK prints it.
const benchMessage = `POST "https://api.openai.com/v1/chat/completions": 429 Too Many Requests {"message":"Rate limit hit for gpt-4o in organization org-sYXxMtpwWmOfNAPeeIEEEPbq on requests per minute (RPM): limit 500, used 15, requested 1. Try again in 7m7s.","type":"requests","param":null,"code":"rate_limit_exceeded"}`

// The first sketch of this package lowered the text, ran expressions over it
// and hashed. It is the peer the scanner is measured against.
var (
	sketchUUID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	sketchHex    = regexp.MustCompile(`0x[0-9a-f]+|\b[0-9a-f]{8,}\b`)
	sketchNumber = regexp.MustCompile(`\d+`)
	sketchSpace  = regexp.MustCompile(`\s+`)
)

func sketchNormalize(msg string) string {
	msg = strings.ToLower(msg)
	msg = sketchUUID.ReplaceAllString(msg, "<uuid>")
	msg = sketchHex.ReplaceAllString(msg, "<hex>")
	msg = sketchNumber.ReplaceAllString(msg, "<n>")
	return sketchSpace.ReplaceAllString(msg, " ")
}

func sketchOf(msg string) string {
	h := sha256.Sum256([]byte(sketchNormalize(msg)))
	return hex.EncodeToString(h[:6])
}

// sketchJoined folds with one expression of alternatives.
var sketchAny = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+`)

func sketchJoined(msg string) string {
	h := sha256.Sum256([]byte(sketchAny.ReplaceAllString(strings.ToLower(msg), "#")))
	return hex.EncodeToString(h[:6])
}

// sketchLeast folds digits alone, the least that a sketch can do.
func sketchLeast(msg string) string {
	h := sha256.Sum256([]byte(sketchNumber.ReplaceAllString(strings.ToLower(msg), "n")))
	return hex.EncodeToString(h[:6])
}

// BenchmarkSign compares, in one run, the forms of this package with the
// expressions it replaces.
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
		b.Run(m.name+"/regexp-normalize", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sketchNormalize(m.msg)
			}
		})
		b.Run(m.name+"/regexp-sha256", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sketchOf(m.msg)
			}
		})
		b.Run(m.name+"/alternatives-sha256", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sketchJoined(m.msg)
			}
		})
		b.Run(m.name+"/digits-sha256", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sketchLeast(m.msg)
			}
		})
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
