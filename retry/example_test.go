package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/nightfuse/nightfuse/retry"
)

// flaky is a server that says 503 twice.
func flaky() *httptest.Server {
	n := 0
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n++; n < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"finish_reason":"stop","message":{"content":"Sorts a slice."}}]}`)
	}))
}

func ExampleNew() {
	_, err := retry.New(retry.Config{Attempts: -1, Base: time.Minute, Max: time.Second})
	fmt.Println(err)
	// Output:
	// retry: Attempts is -1, must be 0 (for 4) or more
	// retry: Max (1s) is below Base (1m0s)
}

func ExampleDo() {
	again, err := retry.New(retry.Config{Base: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	n := 0
	text, err := retry.Do(context.Background(), again, func(context.Context) (string, error) {
		if n++; n < 3 {
			return "", errors.New("the model is overloaded")
		}
		return "Sorts a slice.", nil
	})
	fmt.Println(text, err)
	fmt.Println("calls per done:", again.Stats().CallsPerDone())
	// Output:
	// Sorts a slice. <nil>
	// calls per done: 3
}

func ExampleNewTransport() {
	srv := flaky()
	defer srv.Close()

	again, err := retry.New(retry.Config{Base: time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: retry.NewTransport(nil, again)}
	resp, err := client.Post(srv.URL, "application/json", strings.NewReader(`{"model":"small"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", again.Stats().Calls, "calls")
	// Output:
	// 200 after 3 calls
}

func ExampleError() {
	again, err := retry.New(retry.Config{Attempts: 2, Rand: func() float64 { return 0 }, Clock: clock.NewMock()})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = again.Do(context.Background(), func(context.Context) error {
		return errors.New("the model is overloaded")
	})
	var e *retry.Error
	if errors.As(err, &e) {
		fmt.Println(e.Attempts(), "calls;", e.Cause)
	}
	fmt.Println(errors.Is(err, retry.ErrExhausted))
	fmt.Println(err)
	// Output:
	// 2 calls; attempts used up
	// true
	// retry: 2 calls in 0s: attempts used up: the model is overloaded
}

func ExampleNewQuota() {
	// However many workers fail at once: at most 1 retry for 10 calls, and 3.
	quota, err := retry.NewQuota(0.1, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := retry.New(retry.Config{Quota: quota, Rand: func() float64 { return 0 }})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 100 {
		err = again.Do(context.Background(), func(context.Context) error { return errors.New("down") })
	}
	s := again.Stats()
	fmt.Println(s.Items, "items,", s.Retries, "retries;", errors.Is(err, retry.ErrQuota))
	// Output:
	// 100 items, 13 retries; true
}

func ExampleWithOutcome() {
	again, err := retry.New(retry.Config{Attempts: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, outcome := retry.WithOutcome(context.Background())
	_ = again.Do(ctx, func(context.Context) error { return errors.New("down") })
	// What the SDK returns may be no more than a text; this is all of it.
	fmt.Println(outcome.Calls(), errors.Is(outcome.Err(), retry.ErrExhausted))
	// Output:
	// 1 true
}
