package retry_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	avast "github.com/avast/retry-go/v4"
	cenkalti "github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/retry"
)

func mustNew(b *testing.B) *retry.Retrier {
	b.Helper()
	r, err := retry.New(retry.Config{})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// passed keeps a context from the stack, as a function that uses it does.
var passed context.Context

// marked is a context that fn gets, with room for what an attempt must carry.
type marked struct {
	context.Context
	mark *int
}

// BenchmarkDo is a call that succeeds at once. "floor" is what ours cannot do
// without: the item's time is taken at both ends, for Error.Elapsed and the
// quantiles, and fn gets a context of its own, by which a retry inside sees the
// one outside.
func BenchmarkDo(b *testing.B) {
	ctx := b.Context()
	op := func() (int, error) { return 1, nil }
	withContext := func(ctx context.Context) (int, error) { passed = ctx; return 1, nil }
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	r := mustNew(b)
	run("nightfuse", func() error {
		_, err := retry.Do(ctx, r, withContext)
		return err
	})
	epoch, took := time.Now(), time.Duration(0)
	run("floor", func() error {
		start := time.Since(epoch)
		_, err := withContext(&marked{Context: ctx})
		took += time.Since(epoch) - start
		return err
	})
	run("cenkalti", func() error {
		_, err := cenkalti.Retry(ctx, op, cenkalti.WithBackOff(cenkalti.NewExponentialBackOff()), cenkalti.WithMaxTries(4))
		return err
	})
	run("avast", func() error {
		return avast.Do(func() error { _, err := op(); return err }, avast.Context(ctx), avast.Attempts(4))
	})
	policy := retrypolicy.NewBuilder[int]().WithMaxRetries(3).WithBackoff(time.Second, 30*time.Second).Build()
	executor := failsafe.With[int](policy).WithContext(ctx)
	run("failsafe", func() error { _, err := executor.Get(op); return err })
}

const answer = `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Sorts a slice in place."}}],"usage":{"prompt_tokens":12,"completion_tokens":6,"total_tokens":18}}`

// stub reads the request's body and answers at once.
type stub struct{ kind, body string }

func (s stub) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, err
		}
		_ = req.Body.Close()
	}
	return &http.Response{
		StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {s.kind}}, ContentLength: int64(len(s.body)),
		Body: io.NopCloser(bytes.NewReader([]byte(s.body))), Request: req,
	}, nil
}

// floor does what a transport that judges answers cannot do without, and judges
// nothing: a copy of the request with a context and a body of its own, the item's
// time, and the answer held until its end is seen.
type floor struct {
	base  http.RoundTripper
	epoch time.Time
	took  time.Duration
}

func (f *floor) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Since(f.epoch)
	out := req.WithContext(&marked{Context: req.Context()})
	_ = req.Body.Close()
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	out.Body = body
	resp, err := f.base.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	data := make([]byte, resp.ContentLength)
	if _, err := io.ReadFull(resp.Body, data); err != nil {
		return nil, err
	}
	_ = resp.Body.Close()
	resp.Request, resp.Body = req, io.NopCloser(bytes.NewReader(data))
	f.took += time.Since(f.epoch) - start
	return resp, nil
}

// BenchmarkTransport is a POST of 4 KiB over a stub, its answer read to the
// end. What a retry adds is the difference to "alone". The peers do not judge
// the answer; "unjudged" is ours on an answer it passes on unread.
func BenchmarkTransport(b *testing.B) {
	judged, passed := stub{"application/json", answer}, stub{"application/octet-stream", answer}
	r := mustNew(b)
	hashicorp := retryablehttp.NewClient()
	hashicorp.Logger = nil
	hashicorp.HTTPClient = &http.Client{Transport: judged}
	send(b, "alone", judged)
	send(b, "nightfuse", retry.NewTransport(judged, r))
	send(b, "nightfuse-unjudged", retry.NewTransport(passed, r))
	send(b, "floor", &floor{base: judged, epoch: time.Now()})
	send(b, "go-retryablehttp", &retryablehttp.RoundTripper{Client: hashicorp})
	send(b, "failsafehttp", failsafehttp.NewRoundTripper(judged, failsafehttp.NewRetryPolicyBuilder().Build()))
}

// BenchmarkChain is the same through more and more of the guards, the budget in
// memory.
func BenchmarkChain(b *testing.B) {
	base := stub{"application/json", answer}
	up, err := breaker.New(breaker.Config{})
	if err != nil {
		b.Fatal(err)
	}
	day, err := budget.New(budget.Config{Limit: 1 << 50})
	if err != nil {
		b.Fatal(err)
	}
	spent := budget.NewTransport(base, day)
	send(b, "alone", base)
	send(b, "budget", spent)
	send(b, "breaker", breaker.NewTransport(base, up))
	send(b, "breaker+budget", breaker.NewTransport(spent, up))
	send(b, "retry+breaker+budget", retry.NewTransport(breaker.NewTransport(spent, up), mustNew(b)))
}

// send measures a POST of 4 KiB through rt, its answer read to the end.
func send(b *testing.B, name string, rt http.RoundTripper) {
	body := []byte(`{"model":"small","max_tokens":64,"messages":[{"role":"user","content":"` + strings.Repeat("What does it do? ", 240) + `"}]}`)
	b.Run(name, func(b *testing.B) {
		client := &http.Client{Transport: rt}
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://upstream/v1", bytes.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			resp, err := client.Do(req)
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
