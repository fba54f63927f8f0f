package durable_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// process is one process of a night: a Slots on the shared disk that suffers
// faults and is started again after a kill.
type process struct {
	faults *durabletest.Faults
	slots  *durable.Slots
}

func start(disk *durabletest.Disk, rng *rand.Rand) *process {
	p := &process{}
	p.faults = &durabletest.Faults{FS: disk, Hook: func(op durabletest.Op) (int, error) {
		keep := 0
		if op.Size > 0 {
			keep = rng.IntN(op.Size + 1)
		}
		switch roll := rng.IntN(100); {
		case roll == 0:
			return durabletest.KillNow(keep)
		case roll < 6 && (op.Kind == "write" || op.Kind == "sync"):
			return keep, errors.New("injected")
		}
		return 0, nil
	}}
	return p
}

// nights runs n nights of two processes with kills, failed writes and failed
// syncs, each ended by a power cut, and counts those whose morning finds no
// readable value, or an older one than was acknowledged.
func nights(t *testing.T, seed uint64, n int, naive bool) (unreadable, lost, updates int) {
	rng := rand.New(rand.NewPCG(seed, 2))
	var disk *durabletest.Disk
	var acked uint64
	for night := range n {
		if night%10 == 0 {
			disk, acked = durabletest.NewDisk(rng.Uint64()), 0
		}
		procs := [2]*process{start(disk, rng), start(disk, rng)}
		for range 1 + rng.IntN(12) {
			i := rng.IntN(2)
			p := procs[i]
			got, err := p.increment(t, naive, rng.IntN(3*durabletest.Sector))
			switch {
			case errors.Is(err, durabletest.ErrKilled):
				procs[i] = start(disk, rng)
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
			t.Fatalf("seed %d, night %d: %v", seed, night, err)
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

// The model must be able to find the faults that the rule prevents.
func TestPowerCutsBreakNaiveSlots(t *testing.T) {
	t.Parallel()
	unreadable, lost, _ := nights(t, 1, 2500, true)
	t.Logf("without the rule, of 2500 nights: %d unreadable, %d lost an acknowledged value", unreadable, lost)
	if unreadable == 0 || lost == 0 {
		t.Errorf("without the rule: %d unreadable, %d lost, want some of both", unreadable, lost)
	}
}

func TestWriteFileSurvivesPowerCuts(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	for night := range 3000 {
		disk := durabletest.NewDisk(rng.Uint64())
		p := start(disk, rng)
		var acked, tried uint64
		for tried = 1; tried < 6; tried++ {
			err := durable.WriteFile(p.faults, "dir/state", numberValue(tried, 2*durabletest.Sector), 0o600)
			if errors.Is(err, durabletest.ErrKilled) {
				break
			}
			if err == nil {
				acked = tried
			}
		}
		disk.PowerCut()
		var got uint64
		data, err := durable.ReadFile(disk, "dir/state")
		if err == nil {
			got, err = number(data)
		} else if acked == 0 {
			err = nil
		}
		if err != nil || got < acked || got > tried {
			t.Fatalf("night %d: found %d, %v; acknowledged %d, tried %d", night, got, err, acked, tried)
		}
	}
}
