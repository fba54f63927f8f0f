package fakemodel_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/internal/fakemodel"
)

// The model as a transport: the second call finds the bucket empty.
func ExampleNew() {
	model, err := fakemodel.New(fakemodel.Config{
		Limits: fakemodel.Limits{RPM: 1, Burst: 1},
		Hints:  fakemodel.Hints{Seconds: true, Wait: 2 * time.Second},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: model}
	for range 2 {
		resp, err := client.Post("http://model/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"fake-1","messages":[{"role":"user","content":"The fuse blew at night."}]}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s, retry after %q\n", resp.Status, resp.Header.Get("Retry-After"))
		_ = resp.Body.Close()
	}
	stats := model.Stats()
	fmt.Println(stats.Calls, "calls,", stats.Rejected, "rejected,", stats.Tokens, "tokens")
	// Output:
	// 200 OK, retry after ""
	// 429 Too Many Requests, retry after "2"
	// 2 calls, 1 rejected, 19 tokens
}
