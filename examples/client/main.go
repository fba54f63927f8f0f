// Client shows the shortest way in: an http.Client that reserves tokens, stops
// when the upstream is down, and retries what can be retried. Hand it to any
// SDK that takes an http.Client.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/nightfuse/nightfuse/breaker"
	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/retry"
)

// newClient returns a client with three guards around base.
func newClient(base http.RoundTripper) (*http.Client, error) {
	day, err1 := budget.New(budget.Config{Limit: 2_000_000}) // tokens a UTC day, 15 % of them kept back
	up, err2 := breaker.New(breaker.Config{Name: "api.example.com"})
	again, err3 := retry.New(retry.Config{})
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	rt := base
	rt = budget.NewTransport(rt, day)  // innermost: every attempt reserves for itself
	rt = breaker.NewTransport(rt, up)  // every attempt is a call that counts
	rt = retry.NewTransport(rt, again) // never more than 4 calls, never earlier than asked
	return &http.Client{Transport: rt}, nil
}

// ask makes one item's call and says whether an error leaves the item pending.
func ask(ctx context.Context, call func(context.Context) error) (pending bool, err error) {
	ctx, outcome := retry.WithOutcome(ctx)
	err = call(ctx)                       // through the SDK
	err = errors.Join(outcome.Err(), err) // also an empty stream that the SDK took for a success
	var refused interface{ RefusedBy() string }
	pending = errors.As(err, &refused) && refused.RefusedBy() != ""
	return pending, err
}

func main() {
	client, err := newClient(http.DefaultTransport)
	if err != nil {
		log.Fatal(err)
	}

	// An upstream that is overloaded at first, and then has no credit left.
	calls := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch calls++; calls {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			io.WriteString(w, `{"choices":[{"message":{"content":"Two refunds."}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`)
		default:
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, `{"error":{"code":"insufficient_quota","message":"You exceeded your current quota."}}`)
		}
	}))
	defer upstream.Close()

	for range 3 {
		pending, err := ask(context.Background(), func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, upstream.URL+"/v1/chat/completions", strings.NewReader(`{"max_tokens":20}`))
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		})
		fmt.Printf("failed: %v, pending: %v, after %d calls\n", err != nil, pending, calls)
	}
}
