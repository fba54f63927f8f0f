package deadletter_test

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

	"github.com/nightfuse/nightfuse/deadletter"
)

// A function that processes items, with its failures kept.
func ExampleNew() {
	letters, err := deadletter.New(deadletter.Config{Name: "nightly", Store: deadletter.NewMemory()})
	if err != nil {
		fmt.Println(err)
		return
	}
	summarize := func(_ context.Context, text string) error {
		if text == "" {
			return errors.New("nothing to summarize")
		}
		return nil
	}
	for _, doc := range []struct{ id, text string }{{"doc-1", "hello"}, {"doc-2", ""}} {
		ctx := deadletter.WithItem(context.Background(), doc.id, "lang", "en")
		err := letters.Do(ctx, []byte(doc.text), func(ctx context.Context) error { return summarize(ctx, doc.text) })
		fmt.Println(doc.id, err)
	}
	r, err := letters.Get(context.Background(), "doc-2")
	fmt.Println(r.State, r.Err, r.Labels["lang"], err)
	fmt.Println(letters)
	// Output:
	// doc-1 <nil>
	// doc-2 nothing to summarize
	// dead nothing to summarize en <nil>
	// {"name":"nightly","items":2,"done":1,"dead":1,"pending":0,"cancelled":0,"passed":0,"lost":0,"resolved":0,"unresolved":0,"bytes":0,"hook_panics":0}
}

// A client whose failed requests are kept. In a real program the base is the
// chain of retry, pacer, breaker and budget.
func ExampleNewTransport() {
	upstream := rounds(func(*http.Request) (*http.Response, error) {
		return answer(http.StatusBadRequest, `{"error":{"message":"too long","code":"context_length_exceeded"}}`), nil
	})
	store := deadletter.NewMemory()
	letters, err := deadletter.New(deadletter.Config{Name: "nightly", Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: deadletter.NewTransport(upstream, letters)}

	ctx := deadletter.WithItem(context.Background(), "doc-17")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://api.example/v1/chat/completions?key=s3cr3t", strings.NewReader("{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Authorization", "Bearer s3cr3t")
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = resp.Body.Close()

	r, err := letters.Get(context.Background(), "doc-17")
	fmt.Println(r.Status, r.Method, r.URL, string(r.Payload), r.Header, err)
	// Output:
	// 400 POST https://api.example/v1/chat/completions?key=REDACTED {} map[] <nil>
}

// A store for tests, or for batches whose letters may end with the process.
func ExampleNewMemory() {
	store := deadletter.NewMemory()
	ctx := context.Background()
	for range 2 {
		_ = store.Put(ctx, deadletter.Record{Queue: "q", ItemID: "doc-1", Status: 503, Attempts: 4, Payload: []byte("hello")})
	}
	r, err := store.Get(ctx, deadletter.ID("q", "doc-1"))
	fmt.Println(r.Failures, r.TotalCalls, string(r.Payload), err)
	// Output:
	// 2 8 hello <nil>
}

// A journal in a directory of its own.
func ExampleOpenJournal() {
	dir, err := os.MkdirTemp("", "letters")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	store, err := deadletter.OpenJournal(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = store.Put(ctx, deadletter.Record{Queue: "q", ItemID: "doc-1", Payload: []byte("hello")})
	fmt.Println(err, store.Close())

	// The next morning.
	store, err = deadletter.OpenJournal(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	for r, err := range store.List(ctx, deadletter.Filter{}) {
		fmt.Println(r.ItemID, r.State, r.PayloadSize, err)
	}
	damage, err := store.Verify(ctx)
	fmt.Println(damage, err)
	// Output:
	// <nil> <nil>
	// doc-1 dead 5 <nil>
	// [] <nil>
}

// A look at the journal of a batch that is running, without touching it.
func ExampleStoreConfig_Journal() {
	dir, err := os.MkdirTemp("", "letters")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	batch, err := deadletter.OpenJournal(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer batch.Close()
	ctx := context.Background()
	_ = batch.Put(ctx, deadletter.Record{Queue: "q", ItemID: "doc-1", Signature: "1:0123456789ab", SignatureText: "status <num>"})

	look, err := deadletter.StoreConfig{ReadOnly: true}.Journal(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer look.Close()
	sum, err := look.Stats(ctx, deadletter.Filter{})
	fmt.Println(sum.Letters(deadletter.Dead), sum.Groups[0].Count, sum.Groups[0].Text, err)
	// Output:
	// 1 1 status <num> <nil>
}

// A store on a fake clock: the lease of a claim runs out.
func ExampleStoreConfig_Memory() {
	clk := clock.NewMock()
	store, err := deadletter.StoreConfig{Clock: clk}.Memory()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = store.Put(ctx, deadletter.Record{Queue: "q", ItemID: "doc-1"})
	for _, wait := range []time.Duration{0, time.Minute, time.Hour} {
		clk.Add(wait)
		claims, err := store.Claim(ctx, deadletter.ClaimReq{By: "me"})
		fmt.Println(len(claims), err)
	}
	// Output:
	// 1 <nil>
	// 0 <nil>
	// 1 <nil>
}

// Replaying letters by a function.
func ExampleReplay() {
	store := deadletter.NewMemory()
	ctx := context.Background()
	for _, item := range []string{"doc-1", "doc-2", "doc-3"} {
		_ = store.Put(ctx, deadletter.Record{Queue: "nightly", ItemID: item, EstTokens: 100, Payload: []byte("text of " + item)})
	}
	report, err := deadletter.Replay(ctx, store, nil, deadletter.Options{DryRun: true})
	fmt.Println("would send", report.Matched, "for about", report.EstTokens, "tokens", err)

	report, err = deadletter.Replay(ctx, store, func(ctx context.Context, r deadletter.Record) error {
		if r.ItemID == "doc-2" {
			return errors.New("still too long")
		}
		return nil // the result of r.Payload is safe by now
	}, deadletter.Options{Filter: deadletter.Filter{Queue: "nightly"}})
	fmt.Println("acked", report.Acked, "returned", report.Returned, err)
	// Output:
	// would send 3 for about 300 tokens <nil>
	// acked 2 returned 1 <nil>
}

// Replaying letters as the requests they were, with fresh credentials and the
// result written before the letter is acked.
func ExampleHTTPSender() {
	upstream := rounds(func(req *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(req.Body)
		fmt.Println("sent", string(body), req.Header.Get("Authorization"))
		return answer(http.StatusOK, goodAnswer), err
	})
	store := deadletter.NewMemory()
	ctx := context.Background()
	_ = store.Put(ctx, deadletter.Record{
		Queue: "nightly", ItemID: "doc-1", Method: "POST", URL: "https://api.example/v1/chat/completions", Payload: []byte("{}"),
	})
	sender := deadletter.HTTPSender{
		Client:    &http.Client{Transport: upstream}, // the same chain as the batch
		Authorize: func(req *http.Request) error { req.Header.Set("Authorization", "Bearer fresh"); return nil },
		Accept: func(_ context.Context, r deadletter.Record, _ *http.Response, body []byte) error {
			fmt.Println("result of", r.ItemID, "has", len(body) > 0)
			return nil
		},
	}
	report, err := deadletter.Replay(ctx, store, sender.Send, deadletter.Options{})
	fmt.Println("acked", report.Acked, err)
	// Output:
	// sent {} Bearer fresh
	// result of doc-1 has true
	// acked 1 <nil>
}
