package retry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/nightfuse/nightfuse/retry"
)

func BenchmarkDoOnSuccess(b *testing.B) {
	r := mustNew(b, retry.Config{})
	ctx := b.Context()
	b.Run("Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := retry.Do(ctx, r, func(context.Context) (int, error) { return 1, nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Retrier.Do", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := r.Do(ctx, func(context.Context) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// stub answers at once, as a base that costs nothing.
type stub struct{ data []byte }

func (s *stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil, err
	}
	_ = req.Body.Close()
	return &http.Response{
		StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(s.data)),
		Body: io.NopCloser(bytes.NewReader(s.data)), Request: req,
	}, nil
}

// BenchmarkTransport sends a 4 KiB POST over a stub, and reads the answer.
func BenchmarkTransport(b *testing.B) {
	base := &stub{[]byte(goodBody)}
	r := mustNew(b, retry.Config{})
	body := bytes.Repeat([]byte("x"), 4<<10)
	for name, rt := range map[string]http.RoundTripper{"stub alone": base, "retry": retry.NewTransport(base, r)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://upstream/v1", bytes.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				resp, err := rt.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}
