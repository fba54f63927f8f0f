package durable_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

func TestSlotsCountExactlyUnderLoad(t *testing.T) {
	t.Parallel()
	const goroutines, each = 32, 10
	path := filepath.Join(t.TempDir(), "state")
	handles := []*durable.Slots{open(t, nil, path), open(t, nil, path)}
	var writers, readers sync.WaitGroup
	var done atomic.Bool
	for _, s := range handles {
		readers.Go(func() {
			var last uint64
			for !done.Load() {
				data, _, err := s.Read(t.Context())
				n, nerr := number(data)
				if err = errors.Join(err, nerr); err != nil || n < last {
					t.Errorf("Read: %d after %d, %v", n, last, err)
					return
				}
				last = n
			}
		})
	}
	for g := range goroutines {
		writers.Go(func() {
			for i := range each {
				if _, err := increment(t.Context(), handles[g%2], 600*(i%3)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	n, err := number([]byte(read(t, handles[0])))
	if n != goroutines*each || err != nil {
		t.Errorf("counted %d, %v; want %d", n, err, goroutines*each)
	}
}

func TestSlotsCountExactlyOverProcesses(t *testing.T) {
	t.Parallel()
	const processes, each = 4, 60
	path := filepath.Join(t.TempDir(), "state")
	var wg sync.WaitGroup
	for range processes {
		cmd, lines := child(t, "count", path, fmt.Sprint(each))
		wg.Go(func() {
			for lines.Scan() { // the numbers; nobody asks here
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n, err := number([]byte(read(t, open(t, nil, path))))
	if n != processes*each || err != nil {
		t.Errorf("counted %d, %v; want %d", n, err, processes*each)
	}
}

func TestSlotsSurviveKills(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	for round := range 10 {
		cmd, lines := child(t, "count", path, "1000000")
		for range 1 + 3*(round%5) {
			if !lines.Scan() {
				t.Fatalf("round %d: the child counted nothing: %v", round, lines.Err())
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		last := lines.Text()
		for lines.Scan() { // acknowledged before the kill came
			last = lines.Text()
		}
		_ = cmd.Wait() // says that it was killed
		var acked uint64
		if _, err := fmt.Sscan(last, &acked); err != nil {
			t.Fatal(err)
		}
		got, err := number([]byte(read(t, open(t, nil, path))))
		if err != nil || (got != acked && got != acked+1) {
			t.Fatalf("round %d: the slots say %d, %v; acknowledged was %d", round, got, err, acked)
		}
	}
}

func TestSeqAllocatesNothing(t *testing.T) {
	s := open(t, nil, filepath.Join(t.TempDir(), "state"))
	set(t, s, "x")
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := s.Seq(); err != nil {
			t.Error(err)
		}
	})
	if allocs != 0 {
		t.Errorf("Seq allocates %v times, want never", allocs)
	}
}

func FuzzOpenSlots(f *testing.F) {
	good := durable.EncodeSlot(7, []byte("good"))
	f.Add(good, durable.EncodeSlot(6, []byte("older")))
	f.Add(durable.EncodeSlot(0, nil), durable.EncodeSlot(0, nil))
	f.Add(good[:20], good)
	f.Add([]byte{}, []byte("{}"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		disk := durabletest.NewDisk(1)
		for name, b := range map[string][]byte{"s.0": first, "s.1": second} {
			if err := durable.WriteFile(disk, name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := durable.OpenSlots(t.Context(), disk, "s")
		if err != nil {
			if !errors.Is(err, durable.ErrDamaged) && !errors.Is(err, durable.ErrVersion) {
				t.Errorf("OpenSlots = %v, want damage or a newer version", err)
			}
			return
		}
		defer s.Close()
		data, n, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// Only a whole slot may have been accepted.
		want := durable.EncodeSlot(n, data)
		if !bytes.HasPrefix(first, want) && !bytes.HasPrefix(second, want) {
			t.Errorf("accepted %q with number %d", data, n)
		}
		set(t, s, "next")
		if got := read(t, s); got != "next" {
			t.Errorf("read %q after the update", got)
		}
	})
}

func BenchmarkSlotsUpdate(b *testing.B) {
	for _, size := range []int{64, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, err := durable.OpenSlots(b.Context(), nil, filepath.Join(b.TempDir(), "state"))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for b.Loop() {
				if _, err := increment(b.Context(), s, size-8); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSeq(b *testing.B) {
	s, err := durable.OpenSlots(b.Context(), nil, filepath.Join(b.TempDir(), "state"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Seq(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteFile(b *testing.B) {
	path, data := filepath.Join(b.TempDir(), "state"), make([]byte, 2048)
	for b.Loop() {
		if err := durable.WriteFile(nil, path, data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
}
