package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/nightfuse/nightfuse/breaker"
)

// A breaker around a function. Give a batch program a File store, so that the
// next run knows what this one has learned.
func ExampleNew() {
	clk := clock.NewMock() // leave Clock out for real time
	up, err := breaker.New(breaker.Config{Name: "model-api", Threshold: 3, RepeatTrip: -1, Jitter: -1, Clock: clk})
	if err != nil {
		fmt.Println(err)
		return
	}
	overloaded := errors.New("status 503: overloaded")
	call := func(ctx context.Context) error { return overloaded }

	for range 4 {
		fmt.Println(up.Do(context.Background(), call))
	}
	clk.Add(30 * time.Second) // the cooldown
	err = up.Do(context.Background(), func(context.Context) error { return nil })
	fmt.Println(err, up.State())
	// Output:
	// status 503: overloaded
	// status 503: overloaded
	// status 503: overloaded
	// breaker: model-api is open until 1970-01-01T00:00:30Z (signature 1:002ed3241f63): 3 failures since the last success, the last: status 503: overloaded
	// <nil> closed
}

// Allow and Done are for callers who judge the call themselves.
func ExampleBreaker_Allow() {
	up, err := breaker.New(breaker.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := up.Allow(context.Background())
	if err != nil {
		fmt.Println("not sent:", err)
		return
	}
	// The call goes here. This one met a revoked key: no use in going on.
	p.Done(breaker.Result{Outcome: breaker.Fatal, Err: errors.New("status 401: invalid_api_key")})

	_, err = up.Allow(context.Background())
	var open *breaker.OpenError
	fmt.Println(errors.Is(err, breaker.ErrOpen), errors.As(err, &open))
	fmt.Println(open.Reason)
	// Output:
	// true true
	// fatal: status 401: invalid_api_key
}

// The transport guards an http.Client. Build it around budget.NewTransport and
// inside budget.NewPacedTransport and retry.NewTransport.
func ExampleNewTransport() {
	up, err := breaker.New(breaker.Config{Threshold: 2, RepeatTrip: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	var rt http.RoundTripper = upstream(503)
	rt = breaker.NewTransport(rt, up)
	client := &http.Client{Transport: rt}

	for range 3 {
		resp, err := client.Get("https://api.example.com/v1/models")
		if err != nil {
			fmt.Println("not sent:", errors.Is(err, breaker.ErrOpen))
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close() // the verdict is given here
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// 503
	// 503
	// not sent: true
}

// One breaker per host and model, so that one broken model does not shut the
// provider.
func ExampleNewGroup() {
	ups, err := breaker.NewGroup(breaker.Config{Threshold: 1, Jitter: -1}, breaker.ByHostAndModel)
	if err != nil {
		fmt.Println(err)
		return
	}
	rt := breaker.NewTransport(upstream(503), ups)
	req, err := http.NewRequest(http.MethodPost, "https://api.example.com/v1/chat/completions", strings.NewReader(`{"model":"small"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = resp.Body.Close()

	for key, up := range ups.All() {
		fmt.Println(key, up.State())
	}
	fmt.Println(ups.Get("api.example.com/large").State())
	// Output:
	// api.example.com/small open
	// closed
}

// The state outlives the process, in a file that people can read.
func ExampleFile() {
	dir, err := os.MkdirTemp("", "breaker")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	run := func(handle func(*breaker.Breaker)) {
		store, err := breaker.File(dir)
		if err != nil {
			fmt.Println(err)
			return
		}
		up, err := breaker.New(breaker.Config{Name: "model-api", Store: store, StoreTimeout: time.Minute})
		if err != nil {
			fmt.Println(err)
			return
		}
		handle(up)
	}
	run(func(up *breaker.Breaker) {
		fmt.Println(up.Trip(context.Background(), "no credit left"))
	})
	run(func(up *breaker.Breaker) { // the next process
		_, err := up.Allow(context.Background())
		fmt.Println(errors.Is(err, breaker.ErrOpen), up.Stats().LastTrip.Reason)
	})
	// Output:
	// <nil>
	// true no credit left
}

// Several breakers of one program can share what they know.
func ExampleMemory() {
	store := breaker.Memory()
	for range 2 {
		up, err := breaker.New(breaker.Config{Name: "model-api", Store: store, Threshold: 2, RepeatTrip: -1})
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = up.Do(context.Background(), func(context.Context) error { return errors.New("refused") })
		fmt.Println(up.State())
	}
	// Output:
	// closed
	// open
}

// Wait is for loops that would rather pause than stop.
func ExampleBreaker_Wait() {
	up, err := breaker.New(breaker.Config{Cooldown: 20 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = up.Trip(context.Background(), "maintenance")
	for _, item := range []string{"a", "b"} {
		for {
			err := up.Do(context.Background(), func(context.Context) error { return nil })
			if !errors.Is(err, breaker.ErrOpen) {
				fmt.Println(item, err)
				break
			}
			if err := up.Wait(context.Background()); err != nil {
				return
			}
		}
	}
	// Output:
	// a <nil>
	// b <nil>
}

// upstream answers everything with one status.
func upstream(status int) http.RoundTripper {
	return trip(func(*http.Request) (*http.Response, error) { return answer(status, `{}`), nil })
}
