package deadletter_test

import (
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/deadlettertest"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	deadlettertest.Run(t, func(t *testing.T, clk deadletter.Clock) deadlettertest.Opened {
		m, err := deadletter.StoreConfig{Clock: clk}.Memory()
		if err != nil {
			t.Fatal(err)
		}
		return deadlettertest.Opened{Store: m}
	})
}

func TestJournalKeepsTheContract(t *testing.T) {
	t.Parallel()
	deadlettertest.Run(t, func(t *testing.T, clk deadletter.Clock) deadlettertest.Opened {
		dir := t.TempDir()
		var j *deadletter.Journal
		open := func() deadletter.Store {
			if j != nil {
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if j, err = (deadletter.StoreConfig{Clock: clk}).Journal(dir); err != nil {
				t.Fatal(err)
			}
			return j
		}
		s := open()
		t.Cleanup(func() { _ = j.Close() })
		return deadlettertest.Opened{Store: s, Reopen: open, Letters: manyLetters}
	})
}

// Small segments and a compaction at every restart: many files, and nothing
// different.
func TestJournalOfManySegmentsKeepsTheContract(t *testing.T) {
	t.Parallel()
	deadlettertest.Run(t, func(t *testing.T, clk deadletter.Clock) deadlettertest.Opened {
		disk := durabletest.NewDisk(1)
		c := deadletter.StoreConfig{Clock: clk, Segment: 8 << 10, MaxPayload: 100_000}
		var j *deadletter.Journal
		open := func() deadletter.Store {
			var err error
			if j, err = deadletter.OpenJournalFS(disk, c, diskDir); err != nil {
				t.Fatal(err)
			}
			return j
		}
		s := open()
		return deadlettertest.Opened{Store: s, MaxPayload: 100_000, Letters: 500, Reopen: func() deadletter.Store {
			keep := deadletter.Filter{States: []deadletter.State{deadletter.Acked, deadletter.Discarded}}
			if sum, err := j.Stats(t.Context(), keep); err != nil {
				t.Fatal(err)
			} else if sum.Letters() == 0 { // a compaction forgets them, as it should
				if err := j.Compact(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			return open()
		}}
	})
}
