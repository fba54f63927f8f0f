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
	"sync/atomic"
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
	b, f, err := shared(path, processCap)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	equal(t, "spent", spent(t, b), int64(processCap))
	mustRefuse(t, b, owners[1].Name, 1, budget.ErrExhausted)
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 3 {
		t.Errorf("files %v (%v), want the two slots and the lock", files, err)
	}
}

// Processes that are killed at any point: what they were told was granted is
// spent, nothing else is but the amount in hand at the kill, the store stays
// readable, and the lock does not stay behind. Each process is an owner of its
// own, so that what it leaves can be compared to the unit.
func TestFileSurvivesKills(t *testing.T) {
	t.Parallel()
	const processes = 4
	kills := 200
	if testing.Short() {
		kills = 40
	}
	path := filepath.Join(t.TempDir(), "spend")
	var refused, inHand atomic.Int64
	var wg sync.WaitGroup
	for p := range processes {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(p), 3))
			for k := range kills / processes {
				own, hand, no := wander(t, path, p, fmt.Sprint(p*1000+k), 1+rnd.IntN(120))
				refused.Add(no)
				b, f, err := shared(path, wanderCap)
				if err != nil {
					t.Errorf("after a kill: %v", err)
					return
				}
				st, err := b.Status(t.Context())
				if err != nil {
					t.Error(err)
				}
				got := st.Owners[p].Spent
				if got != own && got != own+hand {
					t.Errorf("process %d, kill %d: spent %d, want the acknowledged %d, or with what was in hand %d", p, k, got, own, own+hand)
				}
				if hand != 0 && got == own+hand {
					inHand.Add(1)
				}
				if st.Spent < got || st.Spent > wanderCap {
					t.Errorf("process %d, kill %d: all have spent %d of %d, this one %d", p, k, st.Spent, wanderCap, got)
				}
				if k < kills/processes-1 { // the operator's correction, so that the cap is not all there is
					if err := b.Adjust(t.Context(), owners[p].Name, -got); err != nil {
						t.Error(err)
					}
				}
				_ = f.Close()
			}
		})
	}
	wg.Wait()
	b, f, err := shared(path, wanderCap)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	st, err := b.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, o := range st.Owners {
		sum += o.Spent
	}
	equal(t, "spent by all", st.Spent, sum)
	t.Logf("%d kills, %d of them between a write and its acknowledgement; %d refusals", kills, inHand.Load(), refused.Load())
	if refused.Load() == 0 {
		t.Error("nothing was refused: the cap was never near")
	}
}

// wander lets a process of the owner p wander until it has said n things, kills
// it wherever it is by then, and returns what it has spent for sure, what it
// was about to change, and how often it was refused.
func wander(t *testing.T, path string, p int, seed string, n int) (own, hand, no int64) {
	cmd, lines := child(t, "wander", path, owners[p].Name, seed)
	for said := 0; lines.Scan(); said++ {
		switch text := lines.Text(); text {
		case "ok":
			own, hand = own+hand, 0
		case "no":
			hand = 0
			no++
		default:
			delta, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			hand = delta
		}
		if said == n { // what it says until the kill is read on
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait()
	if cmd.ProcessState.Exited() && runtime.GOOS != "windows" {
		t.Errorf("a process ended by itself: %v", cmd.ProcessState)
	}
	return own, hand, no
}

// A lock file that a dead owner has left is nobody's: whoever comes takes it,
// and ten at once neither wait for the dead nor count twice.
func TestFileWithALockLeftBehind(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spend")
	if err := os.WriteFile(path+".lock", []byte(`{"host":"gone","pid":1,"at":"2020-01-01T00:00:00Z"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			b, f, err := shared(path, processCap)
			if err != nil {
				t.Error(err)
				return
			}
			_, err = b.Reserve(t.Context(), owners[0].Name, 7)
			if err := errors.Join(err, f.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b, f, err := shared(path, processCap)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	equal(t, "spent", spent(t, b), int64(70))
}

// Nights that end with a power cut, on a disk that loses what was not synced
// and whose writes and syncs fail now and then.
func TestFileSurvivesPowerCuts(t *testing.T) {
	t.Parallel()
	nights := cutNights
	if testing.Short() {
		nights = 300
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
