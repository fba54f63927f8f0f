package budget_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/nightfuse/nightfuse/budget"
	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// Atomic renames prevent torn files and not lost updates: the sum of four
// processes must be exact (maximhq/bifrost#3547).
func TestFileSharedByProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spend")
	var mu sync.Mutex
	total := 0
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			cmd, lines := child(t, "spend", path, "400") // together more than there is
			for lines.Scan() {
				n, err := strconv.Atoi(lines.Text())
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				total += n
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	equal(t, "granted", total, processCap)
	b, f, err := shared(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	equal(t, "spent", spent(t, b), int64(processCap))
	mustRefuse(t, b, "", 1, budget.ErrExhausted)
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 3 {
		t.Errorf("files %v (%v), want the two slots and the lock", files, err)
	}
}

// Processes that are killed at any point: what they were told was granted is
// spent, nothing else is but the amount in hand at the kill, the store stays
// readable, and the lock does not stay behind.
func TestFileSurvivesKills(t *testing.T) {
	t.Parallel()
	kills := 24
	if long {
		kills = 400
	}
	path := filepath.Join(t.TempDir(), "spend")
	var mu sync.Mutex
	var sure, low, high int64 // of what all processes together have spent
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(p), 3))
			for k := range kills / 4 {
				cmd, lines := child(t, "wander", path, fmt.Sprint(p*1000+k))
				var own, hand int64
				end := 1 + rnd.IntN(120)
				for n := 0; lines.Scan(); n++ {
					switch text := lines.Text(); text {
					case "ok":
						own, hand = own+hand, 0
					case "no":
						hand = 0
					default:
						delta, err := strconv.ParseInt(text, 10, 64)
						if err != nil {
							t.Errorf("%q: %v", text, err)
						}
						hand = delta
					}
					if n == end { // wherever it is by now; what it has said is read on
						if err := cmd.Process.Kill(); err != nil {
							t.Error(err)
						}
					}
				}
				_ = cmd.Wait()
				if cmd.ProcessState.Exited() && runtime.GOOS != "windows" {
					t.Errorf("a process ended by itself: %v", cmd.ProcessState)
				}
				mu.Lock()
				sure, low, high = sure+own, low+min(hand, 0), high+max(hand, 0)
				mu.Unlock()
				b, f, err := shared(path)
				if err != nil {
					t.Errorf("after a kill: %v", err)
					return
				}
				if got := spent(t, b); got < 0 || got > processCap {
					t.Errorf("spent %d of %d", got, processCap)
				}
				_ = f.Close()
			}
		})
	}
	wg.Wait()
	b, f, err := shared(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	got := spent(t, b)
	if got < sure+low || got > sure+high {
		t.Errorf("spent %d, want %d, and for what was in hand at the kills %+d to %+d", got, sure, low, high)
	}
	t.Logf("%d kills: spent %d, acknowledged %d, in hand %+d to %+d", kills, got, sure, low, high)
}

// Nights that end with a power cut, on a disk that loses what was not synced
// and whose writes and syncs fail now and then.
func TestFileSurvivesPowerCuts(t *testing.T) {
	t.Parallel()
	nights := 300
	if long {
		nights = 10_000
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	disk := durabletest.NewDisk(1)
	var low, high int64 // of what is spent, after the acknowledgements
	acknowledged := 0
	for night := range nights {
		left := 10 + rnd.IntN(80)
		var fs durable.FS = &durabletest.Faults{FS: disk, Hook: func(op durabletest.Op) (int, error) {
			keep := 0
			if op.Size > 0 {
				keep = rnd.IntN(op.Size + 1)
			}
			left--
			switch roll := rnd.IntN(200); {
			case left <= 0:
				return durabletest.KillNow(keep)
			case roll < 20 && (op.Kind == "write" || op.Kind == "sync"):
				return keep, errors.New("injected")
			}
			return 0, nil
		}}
		f, err := budget.OpenFileOn(fs, "spend")
		for err == nil && left > 0 {
			b := mustNew(t, budget.Config{Limit: processCap, Headroom: -1, Window: forever{}, Store: f})
			n := 1 + rnd.Int64N(50)
			var r *budget.Reservation
			r, err = b.Reserve(t.Context(), "", n)
			switch {
			case errors.Is(err, budget.ErrExhausted):
				// What failed before may have been written: low is not exact.
				err = b.Adjust(t.Context(), "", -processCap)
				if low = 0; err == nil {
					high = 0
				}
				continue
			case err != nil: // not known
				high = min(high+n, processCap)
			default:
				low, high = low+n, min(high+n, processCap)
				acknowledged++
				actual := rnd.Int64N(n + 1)
				if err = r.Reconcile(t.Context(), actual); err != nil {
					low -= n - actual
				} else {
					low, high = low-(n-actual), high-(n-actual)
				}
			}
			if left > 0 {
				err = nil // the process lives on after an error
			}
		}
		disk.PowerCut()
		f, err = budget.OpenFileOn(disk, "spend")
		if err != nil {
			t.Fatalf("night %d: %v", night, err)
		}
		got := spent(t, mustNew(t, budget.Config{Limit: processCap, Headroom: -1, Window: forever{}, Store: f}))
		if got < low || got > high {
			t.Fatalf("night %d: spent %d, want %d to %d", night, got, low, high)
		}
		low, high = got, got
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if acknowledged < nights {
		t.Errorf("only %d reservations in %d nights: the model tests nothing", acknowledged, nights)
	}
}
