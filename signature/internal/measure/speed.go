package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/signature"
	"github.com/nightfuse/nightfuse/signature/internal/sketch"
)

const (
	rounds = 51
	turn   = 2 * time.Millisecond // of one form in a round
)

const (
	short  = "item 29b5ef69-67c8-4775-bccf-c2d08ee68ad7: upstream 503 after 1m30s from 10.0.0.7:443"
	answer = `POST "https://api.openai.com/v1/chat/completions": 429 Too Many Requests {"message":"Rate limit hit for gpt-4o in organization org-sYXxMtpwWmOfNAPeeIEEEPbq on requests per minute (RPM): limit 500, used 15, requested 1. Try again in 7m7s.","type":"requests","param":null,"code":"rate_limit_exceeded"}`
)

// speed writes the medians for each message and what they say.
func speed(w io.Writer) {
	buf := make([]byte, 0, 4096)
	for _, m := range []struct{ name, text string }{{"short", short}, {"answer", answer}} {
		err := errors.New(m.text)
		t := medians(
			func() { buf = signature.AppendNormalize(buf[:0], m.text) },
			func() { signature.Of(err) },
			func() { sketch.Of(m.text) },
			func() { sketch.Few(m.text) },
			func() { sketch.Joined(m.text) },
		)
		fmt.Fprintf(w, "%s (%d B): AppendNormalize %v, Of %v, expressions %v, fewer %v, joined %v\n", m.name, len(m.text), t[0], t[1], t[2], t[3], t[4])
		for i, name := range []string{"expressions", "fewer expressions", "one joined expression"} {
			fmt.Fprintf(w, "  faster than %s: AppendNormalize %.1fx, Of %.1fx\n", name, ratio(t[2+i], t[0]), ratio(t[2+i], t[1]))
		}
	}
	var forms []func()
	sizes := []int{300, 3000, 30_000, 300_000}
	for _, n := range sizes {
		text := strings.Repeat(answer+" ", n/len(answer)+1)[:n]
		forms = append(forms, func() { buf = signature.AppendNormalize(buf[:0], text) })
	}
	t := medians(forms...)
	for i := 1; i < len(t); i++ {
		fmt.Fprintf(w, "%d B: %v, %.1fx the time of %d B\n", sizes[i], t[i], ratio(t[i], t[i-1]), sizes[i-1])
	}
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// medians gives the median time of one call of each form.
func medians(forms ...func()) []time.Duration {
	calls := make([]int, len(forms))
	for i, f := range forms {
		for calls[i] = 1; ; calls[i] *= 2 {
			if took(f, calls[i]) >= turn {
				break
			}
		}
	}
	times := make([][]time.Duration, len(forms))
	for range rounds {
		for i, f := range forms {
			times[i] = append(times[i], took(f, calls[i])/time.Duration(calls[i]))
		}
	}
	list := make([]time.Duration, len(forms))
	for i := range times {
		slices.Sort(times[i])
		list[i] = times[i][rounds/2]
	}
	return list
}

func took(f func(), calls int) time.Duration {
	began := time.Now()
	for range calls {
		f()
	}
	return time.Since(began)
}
