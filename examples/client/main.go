// Client shows the shortest way in: an http.Client that reserves tokens, stops
// when the upstream is down, and retries what can be retried. Hand it to any
// SDK that takes an http.Client.
package main

import (
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

func main() {
	client, err := newClient(http.DefaultTransport)
	if err != nil {
		log.Fatal(err)
	}

	// An upstream that is overloaded at first.
	calls := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices":[{"message":{"content":"Two refunds."}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`)
	}))
	defer upstream.Close()

	resp, err := client.Post(upstream.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"max_tokens":20}`))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "after", calls, "calls")
}
