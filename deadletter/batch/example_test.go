package batch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/batch"
)

// Three files, one of which no model can do anything with. The next run calls
// nobody; a replay does what failed.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "batch-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store := deadletter.NewMemory() // OpenJournal in a real run
	letters, err := deadletter.New(deadletter.Config{Name: "nightly", Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	cfg := batch.Config{Dir: dir, Letters: letters, Workers: 1}
	items := slices.Values([]batch.Item{
		{ID: "a.txt", Input: []byte("A fable.")},
		{ID: "b.txt", Input: []byte("!!!")},
		{ID: "c.txt", Input: []byte("A long story.")},
	})
	mended := false
	summarise := func(_ context.Context, it batch.Item) ([]byte, error) {
		if it.ID == "b.txt" && !mended {
			return []byte("n/a"), nil
		}
		return fmt.Appendf(nil, `{"summary":"%s in short"}`, it.ID), nil
	}

	rep, err := batch.Run(context.Background(), cfg, items, summarise)
	fmt.Println(rep)
	fmt.Println(err, errors.Is(err, batch.ErrIncomplete), rep.DeadItems)

	rep, _ = batch.Run(context.Background(), cfg, items, summarise)
	fmt.Println(rep)

	mended = true
	rep, err = batch.Replay(context.Background(), cfg, store, summarise, deadletter.Options{})
	fmt.Println(rep, err)

	rep, err = batch.Run(context.Background(), cfg, items, summarise)
	fmt.Println(rep, err)
	// Output:
	// state=finished calls=4 done=2 dead=1 pending=0 lost=0 calls_per_done=2.00 exit=4
	// batch: not every item has a result: finished: dead letters remain true [b.txt]
	// state=finished calls=0 done=2 dead=1 pending=0 lost=0 calls_per_done=none exit=4
	// state=finished calls=1 done=1 dead=0 pending=0 lost=0 calls_per_done=1.00 exit=0 <nil>
	// state=finished calls=0 done=3 dead=0 pending=0 lost=0 calls_per_done=none exit=0 <nil>
}

func ExampleOpenFolder() {
	dir, err := os.MkdirTemp("", "batch-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	results, err := batch.OpenFolder(filepath.Join(dir, "results"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	err = results.Store(ctx, batch.Result{Item: "a.txt", InputHash: "9f86d081", Data: []byte(`{"summary":"short"}`)})
	fmt.Println(err, filepath.Base(results.Path("a.txt")))
	r, ok, err := results.Load(ctx, "a.txt")
	fmt.Println(string(r.Data), ok, err)
	_, ok, err = results.Load(ctx, "b.txt")
	fmt.Println(ok, err)
	// Output:
	// <nil> a.txt.result.json
	// {"summary":"short"} true <nil>
	// false <nil>
}

func ExampleFields() {
	check := batch.Fields("summary")
	fmt.Println(check(batch.Item{}, []byte(`{"summary":"A fable.","tokens":5}`)))
	fmt.Println(check(batch.Item{}, []byte(`{"summary":" N/A ","tokens":5}`)))
	// Output:
	// <nil>
	// batch: placeholder: "summary" of the result is " N/A "
}
