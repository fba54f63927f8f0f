package deadletter_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// Syncs fail at random, which leaves pages that are clean and not on the disk,
// and then the power: whatever was acknowledged is there.
func TestFailedSyncsAndPowerCuts(t *testing.T) {
	t.Parallel()
	const seeds = 60/cutStep + 1
	failed, sticky, cuts := 0, 0, 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 2))
		disk := durabletest.NewDisk(seed)
		calm := false
		fsys := &durabletest.Faults{FS: disk, Hook: func(op durabletest.Op) (int, error) {
			if !calm && op.Kind == "sync" && strings.Contains(op.Path, ".jsonl") && rng.IntN(3) == 0 {
				failed++
				return 0, syscall.EIO
			}
			return 0, nil
		}}
		open := func() *deadletter.Journal {
			calm = true // what it mends at opening it may try until it works
			defer func() { calm = false }()
			return openOn(t, fsys)
		}
		j := open()
		acked := map[string]string{}
		for i := range 25 {
			item, payload := fmt.Sprint("i", i), strings.Repeat("p", 1+rng.IntN(2000))
			switch err := j.Put(t.Context(), letter(item, payload)); {
			case err == nil:
				acked[item] = payload
			case errors.Is(err, deadletter.ErrStoreFailed):
				sticky++
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				j = open()
			default:
				t.Fatalf("seed %d: %v", seed, err)
			}
			if rng.IntN(6) > 0 {
				continue
			}
			cuts++
			disk.PowerCut()
			j = open()
			got := contents(t, j)
			for item, want := range acked {
				if got[item] != want {
					t.Fatalf("seed %d: %s was acknowledged and came back with %d of %d bytes", seed, item, len(got[item]), len(want))
				}
			}
		}
	}
	if failed < 2*seeds || cuts < 2*seeds || sticky < seeds/4 {
		t.Errorf("%d syncs failed, %d stores, %d power cuts", failed, sticky, cuts)
	}
}
