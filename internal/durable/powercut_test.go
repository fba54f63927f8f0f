package durable_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// night is the time between two power cuts, in steps of the file system.
type night struct {
	disk *durabletest.Disk
	rng  *rand.Rand
	left int // steps until the power goes
}

// process is one process of a night: its slots on the shared disk, opened when
// they are first used.
type process struct {
	faults *durabletest.Faults
	slots  *durable.Slots
}

// start starts a process, which is killed at a random step or by the power cut,
// and whose writes and syncs fail now and then.
func (n *night) start() *process {
	hook := func(op durabletest.Op) (int, error) {
		keep := 0
		if op.Size > 0 {
			keep = n.rng.IntN(op.Size + 1)
		}
		n.left--
		switch roll := n.rng.IntN(200); {
		case n.left <= 0 || roll == 0:
			return durabletest.KillNow(keep)
		case roll < 30 && (op.Kind == "write" || op.Kind == "sync"):
			return keep, errors.New("injected")
		}
		return 0, nil
	}
	return &process{faults: &durabletest.Faults{FS: n.disk, Hook: hook}}
}

// nights runs two processes through count nights and counts the mornings that
// find no readable value, or an older one than was acknowledged.
func nights(t *testing.T, seed uint64, count int, naive bool) (unreadable, lost, updates int) {
	rng := rand.New(rand.NewPCG(seed, 2))
	var disk *durabletest.Disk
	var acked uint64
	for i := range count {
		if i%10 == 0 {
			disk, acked = durabletest.NewDisk(rng.Uint64()), 0
		}
		n := &night{disk: disk, rng: rng, left: 1 + rng.IntN(160)}
		procs := [2]*process{n.start(), n.start()}
		for n.left > 0 {
			p := rng.IntN(2)
			got, err := procs[p].increment(t, naive, rng.IntN(3*durabletest.Sector))
			switch {
			case errors.Is(err, durabletest.ErrKilled):
				procs[p] = n.start()
			case err == nil:
				updates++
				acked = max(acked, got)
			}
		}
		disk.PowerCut()
		slots, err := durable.OpenSlots(t.Context(), disk, "state")
		if err != nil {
			unreadable++
			disk, acked = durabletest.NewDisk(rng.Uint64()), 0
			continue
		}
		data, _, err := slots.Read(t.Context())
		got, nerr := number(data)
		if err = errors.Join(err, nerr, slots.Close()); err != nil {
			t.Fatalf("seed %d, night %d: %v", seed, i, err)
		}
		if got < acked {
			lost++
			acked = got
		}
	}
	return unreadable, lost, updates
}

func (p *process) increment(t *testing.T, naive bool, pad int) (uint64, error) {
	if p.slots == nil {
		s, err := durable.OpenSlots(t.Context(), p.faults, "state")
		if err != nil {
			return 0, err
		}
		p.slots = s
	}
	if naive {
		p.slots.BelieveSynced()
	}
	return increment(t.Context(), p.slots, pad)
}

func TestSlotsSurvivePowerCuts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			unreadable, lost, updates := nights(t, seed, 2500, false)
			if unreadable != 0 || lost != 0 {
				t.Errorf("2500 nights: %d unreadable, %d lost an acknowledged value, want none", unreadable, lost)
			}
			if updates < 2500 {
				t.Errorf("only %d updates succeeded: the model tests nothing", updates)
			}
		})
	}
}

// The model must be able to find the faults that the rule prevents: a morning
// in a few hundred has one.
func TestPowerCutsBreakNaiveSlots(t *testing.T) {
	t.Parallel()
	unreadable, lost, count := 0, 0, 0
	for seed := uint64(0); count < 10000 && (unreadable == 0 || lost == 0); seed++ {
		u, l, _ := nights(t, seed, 250, true)
		unreadable, lost, count = unreadable+u, lost+l, count+250
	}
	t.Logf("without the rule, of %d nights: %d unreadable, %d lost an acknowledged value", count, unreadable, lost)
	if unreadable == 0 || lost == 0 {
		t.Error("the model finds no fault in slots without the rule")
	}
}

func TestWriteFileSurvivesPowerCuts(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range 1000 {
		n := &night{disk: durabletest.NewDisk(rng.Uint64()), rng: rng, left: 1 + rng.IntN(40)}
		p := n.start()
		var acked, tried uint64
		for n.left > 0 {
			tried++
			switch err := durable.WriteFile(p.faults, "dir/state", numberValue(tried, 2*durabletest.Sector), 0o600); {
			case errors.Is(err, durabletest.ErrKilled):
				p = n.start()
			case err == nil:
				acked = tried
			}
		}
		n.disk.PowerCut()
		var got uint64
		data, err := durable.ReadFile(n.disk, "dir/state")
		if err == nil {
			got, err = number(data)
		} else if acked == 0 {
			err = nil
		}
		if err != nil || got < acked || got > tried {
			t.Fatalf("night %d: found %d, %v; acknowledged %d, tried %d", i, got, err, acked, tried)
		}
	}
}
