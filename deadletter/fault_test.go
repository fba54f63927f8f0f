package deadletter_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

// faulty is a disk in memory whose steps fail when the test says so.
type faulty struct {
	*durabletest.Faults
	mu   sync.Mutex
	hook func(durabletest.Op) (int, error)
}

func newFaulty() *faulty {
	f := &faulty{}
	f.Faults = &durabletest.Faults{FS: durabletest.NewDisk(1), Hook: func(op durabletest.Op) (int, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.hook == nil {
			return 0, nil
		}
		return f.hook(op)
	}}
	return f
}

// set makes steps of a kind on the journal's segments fail.
func (f *faulty) set(kind string, keep int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = func(op durabletest.Op) (int, error) {
		if op.Kind == kind && strings.Contains(op.Path, ".jsonl") {
			return keep, err
		}
		return 0, nil
	}
}

func (f *faulty) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = nil
}

// The disk is full after k bytes of a line, and has room again later
// (prometheus/prometheus#7835).
func TestDiskFullAfterEveryByte(t *testing.T) {
	t.Parallel()
	for _, withTruncate := range []bool{true, false} {
		for keep := 0; keep < 900; keep += 23 {
			fsys := newFaulty()
			j := openOn(t, fsys)
			put(t, j, "before", "p")
			fsys.set("write", keep, syscall.ENOSPC)
			if !withTruncate {
				whole := fsys.hook
				fsys.hook = func(op durabletest.Op) (int, error) {
					if op.Kind == "truncate" {
						return 0, syscall.EIO
					}
					return whole(op)
				}
			}
			if err := j.Put(t.Context(), letter("full", "p")); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("keep %d: %v, want ENOSPC", keep, err)
			}
			fsys.heal()
			put(t, j, "after", "p")
			for i := range 2 {
				got := contents(t, j)
				delete(got, "full") // not acknowledged: it may have come through
				if diff := cmp.Diff(got, map[string]string{"before": "p", "after": "p"}); diff != "" {
					t.Fatalf("keep %d, opening %d: %s", keep, i, diff)
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				j = openOn(t, fsys)
			}
		}
	}
}

// A failed sync proves nothing about what was written: the letters go into a
// new segment.
func TestSyncFails(t *testing.T) {
	t.Parallel()
	fsys := newFaulty()
	j := openOn(t, fsys)
	put(t, j, "a", "p")
	first := segment(diskDir, 1)
	fsys.mu.Lock()
	fsys.hook = func(op durabletest.Op) (int, error) {
		if op.Kind == "sync" && filepath.Clean(op.Path) == first {
			return 0, syscall.EIO
		}
		return 0, nil
	}
	fsys.mu.Unlock()
	put(t, j, "b", "p")
	put(t, j, "c", "p")
	want := map[string]string{"a": "p", "b": "p", "c": "p"}
	if diff := cmp.Diff(contents(t, j), want); diff != "" {
		t.Error(diff)
	}
	other := openOn(t, fsys)
	if diff := cmp.Diff(contents(t, other), want); diff != "" {
		t.Errorf("opened again: %s", diff)
	}
	if r, err := other.Get(t.Context(), deadletter.ID("q", "b")); err != nil || r.Failures != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSyncFailsForGood(t *testing.T) {
	t.Parallel()
	fsys := newFaulty()
	j := openOn(t, fsys)
	put(t, j, "a", "p")
	fsys.set("sync", 0, syscall.EIO)
	for range 2 {
		if err := j.Put(t.Context(), letter("b", "p")); !errors.Is(err, deadletter.ErrStoreFailed) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%v, want ErrStoreFailed with its cause", err)
		}
		fsys.heal() // and yet it stays
	}
	got := contents(t, j)
	if got["a"] != "p" {
		t.Errorf("what was safe is not readable: %v", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openOn(t, fsys)
	put(t, j, "b", "p")
	if diff := cmp.Diff(contents(t, j), map[string]string{"a": "p", "b": "p"}); diff != "" {
		t.Error(diff)
	}
}

// An error reaches everybody who shared the write.
func TestFailedBatchIsToldToAll(t *testing.T) {
	t.Parallel()
	fsys := newFaulty()
	j := openOn(t, fsys)
	put(t, j, "before", "p")
	fsys.set("write", 100, syscall.EIO)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			if err := j.Put(t.Context(), letter(fmt.Sprint(i), "p")); !errors.Is(err, syscall.EIO) {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	fsys.heal()
	put(t, j, "after", "p")
	if diff := cmp.Diff(contents(t, j), map[string]string{"before": "p", "after": "p"}); diff != "" {
		t.Error(diff)
	}
}

// Whoever leads may be torn away at any step of a commit, by a panic or by the end of its
// goroutine; the others must not wait for ever, and lose nothing that was
// acknowledged.
func TestLeaderTornAwayStrandsNobody(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"read", "stat", "write", "sync"} {
		for how, tear := range map[string]func(){"panic": func() { panic("torn away") }, "Goexit": runtime.Goexit} {
			t.Run(kind+" "+how, func(t *testing.T) {
				t.Parallel()
				fsys := newFaulty()
				j := openOn(t, fsys)
				put(t, j, "before", "p")
				fsys.mu.Lock()
				armed := true
				fsys.hook = func(op durabletest.Op) (int, error) {
					if armed && op.Kind == kind {
						armed = false
						tear()
					}
					return 0, nil
				}
				fsys.mu.Unlock()
				var wg sync.WaitGroup
				var mu sync.Mutex
				want := map[string]string{"before": "p", "after": "p", "after2": "p"}
				torn := 0
				for i := range 32 {
					wg.Go(func() {
						returned := false
						defer func() {
							_ = recover()
							mu.Lock()
							defer mu.Unlock()
							if !returned {
								torn++
							}
						}()
						err := j.Put(t.Context(), letter(fmt.Sprint(i), "p"))
						returned = true
						mu.Lock()
						defer mu.Unlock()
						if err == nil {
							want[fmt.Sprint(i)] = "p"
						}
					})
				}
				wg.Wait()
				put(t, j, "after", "p")
				put(t, j, "after2", "p")
				for range 2 {
					got := contents(t, j)
					for item := range want {
						if got[item] != "p" {
							t.Errorf("%s was acknowledged and is gone", item)
						}
					}
					if err := j.Close(); err != nil {
						t.Fatal(err)
					}
					j = openOn(t, fsys)
				}
				if torn != 1 {
					t.Errorf("%d were torn away, want one", torn)
				}
			})
		}
	}
}

func TestReadOnlyFolder(t *testing.T) {
	t.Parallel()
	disk := diskWith(t, journalOf(t, map[string]string{"a": "alpha"}, "a"))
	fsys := &durabletest.Faults{FS: disk, Hook: func(op durabletest.Op) (int, error) {
		switch op.Kind {
		case "write", "truncate", "remove", "rename", "mkdir":
			return 0, syscall.EROFS
		case "open":
			if strings.HasSuffix(op.Path, "LOCK") {
				return 0, fs.ErrPermission
			}
		}
		return 0, nil
	}}
	if _, err := deadletter.OpenJournalFS(fsys, deadletter.StoreConfig{}, diskDir); !errors.Is(err, syscall.EROFS) {
		t.Errorf("%v, want EROFS", err)
	}
	fsys2 := &durabletest.Faults{FS: disk, Hook: func(op durabletest.Op) (int, error) {
		if op.Kind == "write" && strings.Contains(op.Path, ".jsonl") {
			return 0, syscall.EROFS
		}
		return 0, nil
	}}
	j := openOn(t, fsys2)
	if err := j.Put(t.Context(), letter("b", "p")); !errors.Is(err, syscall.EROFS) {
		t.Errorf("%v, want EROFS", err)
	}
	if diff := cmp.Diff(contents(t, j), map[string]string{"a": "alpha"}); diff != "" {
		t.Error(diff)
	}
}

// script does a bit of everything and notes what was acknowledged. It ends at
// the first error.
func script(t *testing.T, fsys durable.FS, state map[string]string) error {
	j, err := deadletter.OpenJournalFS(fsys, deadletter.StoreConfig{Segment: 4 << 10}, diskDir)
	if err != nil {
		return err
	}
	defer j.Close()
	set := func(item, to string, err error) error {
		if err != nil {
			state[item] += "?" + to
			return err
		}
		state[item] = to
		return nil
	}
	for i := range 6 {
		item := fmt.Sprint("i", i)
		if err := set(item, "dead", j.Put(t.Context(), letter(item, strings.Repeat("p", 300*i)))); err != nil {
			return err
		}
		if i%2 == 0 {
			continue
		}
		c, err := j.Claim(t.Context(), deadletter.ClaimReq{Filter: deadletter.Filter{IDs: []string{deadletter.ID("q", item)}}})
		if err := set(item, "claimed", err); err != nil {
			return err
		}
		if err := set(item, "acked", j.Resolve(t.Context(), c[0].Token, deadletter.Outcome{Verb: deadletter.Ack})); err != nil {
			return err
		}
		if i == 3 {
			if err := j.Compact(t.Context()); err != nil {
				return err
			}
			delete(state, "i1")
			delete(state, "i3")
		}
	}
	return nil
}

// Killed, or without power, after any number of steps, writes cut anywhere:
// what was acknowledged is so, and the journal goes on.
func TestEndAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, power := range []bool{false, true} {
		steps := 1
		for n := 0; n < steps; n++ {
			disk := durabletest.NewDisk(uint64(n))
			at := 0
			fsys := &durabletest.Faults{FS: disk, Hook: func(op durabletest.Op) (int, error) {
				if at++; at > n {
					return durabletest.KillNow(op.Size * (n % 4) / 3)
				}
				return 0, nil
			}}
			state := map[string]string{}
			if err := script(t, fsys, state); err != nil {
				steps = n + 2
			}
			if power {
				disk.PowerCut()
			}
			j := openOn(t, disk)
			put(t, j, "next", "p")
			for item, want := range state {
				want, _, unsure := strings.Cut(want, "?")
				r, err := j.Get(t.Context(), deadletter.ID("q", item))
				switch {
				case want == "" || (unsure && err == nil):
				case err != nil:
					if !(want == "acked" && errors.Is(err, deadletter.ErrNotFound)) {
						t.Fatalf("power %v, step %d: %s was %s: %v", power, n, item, want, err)
					}
				case string(r.State) != want:
					t.Fatalf("power %v, step %d: %s is %s, want %s", power, n, item, r.State, want)
				}
			}
			if sum := summary(t, j); sum.Corrupt > 0 && !power {
				t.Fatalf("step %d: %d damaged lines after a kill", n, sum.Corrupt)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if steps < 100 {
			t.Errorf("power %v: the script has only %d steps", power, steps)
		}
	}
}
