package durable_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nightfuse/nightfuse/internal/durable"
	"github.com/nightfuse/nightfuse/internal/durable/durabletest"
)

func open(t *testing.T, fsys durable.FS, path string) *durable.Slots {
	t.Helper()
	s, err := durable.OpenSlots(t.Context(), fsys, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// set stores a value and returns what was there before.
func set(t *testing.T, s *durable.Slots, value string) (old []byte) {
	t.Helper()
	err := s.Update(t.Context(), func(was []byte) ([]byte, error) {
		old = was
		return []byte(value), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return old
}

func read(t *testing.T, s *durable.Slots) string {
	t.Helper()
	data, _, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func seq(t *testing.T, s *durable.Slots) uint64 {
	t.Helper()
	n, err := s.Seq()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSlotsKeepTheNewestValue(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	s := open(t, nil, path)
	if data, n, err := s.Read(t.Context()); data != nil || n != 0 || err != nil {
		t.Errorf("fresh: Read = %q, %d, %v; want nil, 0, nil", data, n, err)
	}
	if old := set(t, s, "one"); old != nil {
		t.Errorf("fresh: old = %q, want nil", old)
	}
	// Longer, shorter and empty values, each seen by the next and after opening.
	was := "one"
	for i, value := range []string{strings.Repeat("long ", 5000), "2", "", "four"} {
		if diff := cmp.Diff(string(set(t, s, value)), was); diff != "" {
			t.Errorf("old (-got +want):\n%s", diff)
		}
		if got := seq(t, s); got != uint64(i+2) {
			t.Errorf("Seq = %d, want %d", got, i+2)
		}
		again := open(t, nil, path)
		if diff := cmp.Diff(read(t, again), value); diff != "" {
			t.Errorf("opened again (-got +want):\n%s", diff)
		}
		was = value
	}
}

func TestSlotsTellEmptyFromNothing(t *testing.T) {
	t.Parallel()
	s := open(t, durabletest.NewDisk(1), "state")
	set(t, s, "")
	if old := set(t, s, "x"); old == nil {
		t.Error("an empty value came back as nil")
	}
}

func TestUpdateWritesNothing(t *testing.T) {
	t.Parallel()
	why := errors.New("not today")
	tests := []struct {
		name string
		data []byte
		err  error
		want error
	}{
		{"equal bytes", []byte("kept"), nil, nil},
		{"nil", nil, nil, nil},
		{"an error", []byte("x"), why, why},
		{"too large", make([]byte, durable.MaxValue+1), nil, durable.ErrTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, nil, filepath.Join(t.TempDir(), "state"))
			set(t, s, "kept")
			before := seq(t, s)
			err := s.Update(t.Context(), func(old []byte) ([]byte, error) { return tt.data, tt.err })
			if !errors.Is(err, tt.want) {
				t.Errorf("Update = %v, want %v", err, tt.want)
			}
			if tt.want == why && err != why {
				t.Errorf("fn's error came back as %#v", err)
			}
			if got := seq(t, s); got != before || read(t, s) != "kept" {
				t.Errorf("Seq = %d, value %q; want %d and the old value", got, read(t, s), before)
			}
		})
	}
}

func TestSlotsHoldExactlyTheLimit(t *testing.T) {
	t.Parallel()
	s := open(t, nil, filepath.Join(t.TempDir(), "state"))
	want := strings.Repeat("x", durable.MaxValue)
	set(t, s, want)
	if read(t, s) != want {
		t.Error("the largest value did not come back")
	}
}

// What fn does to old must not reach the file through the rewrite of the newest
// slot.
func TestUpdateLetsFnChangeOld(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	set(t, open(t, nil, path), "first")
	other := open(t, nil, path)
	err := other.Update(t.Context(), func(old []byte) ([]byte, error) {
		copy(old, "XXXXX")
		return []byte("second"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]string{0: "second", 1: "first"} {
		b, err := os.ReadFile(fmt.Sprintf("%s.%d", path, i))
		if err != nil || !bytes.HasSuffix(b, []byte(want)) {
			t.Errorf("slot %d holds %q, %v; want %q", i, b, err, want)
		}
	}
}

func TestUpdateGivesTheLockBack(t *testing.T) {
	t.Parallel()
	s := open(t, nil, filepath.Join(t.TempDir(), "state"))
	set(t, s, "before")
	var wg sync.WaitGroup
	for _, leave := range []func(){func() { panic("in fn") }, runtime.Goexit} {
		wg.Go(func() {
			defer func() { _ = recover() }()
			_ = s.Update(t.Context(), func([]byte) ([]byte, error) { leave(); return []byte("x"), nil })
			t.Error("Update came back")
		})
	}
	wg.Wait()
	if old := set(t, s, "after"); string(old) != "before" {
		t.Errorf("old = %q, want the value before", old)
	}
}

func TestUpdateIsRefusedWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	s := open(t, nil, path)
	for name, held := range map[string]*durable.Slots{"same handle": s, "another handle": open(t, nil, path)} {
		ctx, cancel := context.WithCancel(t.Context())
		err := held.Update(t.Context(), func([]byte) ([]byte, error) {
			refused := make(chan error)
			go func() { refused <- s.Update(ctx, func([]byte) ([]byte, error) { return []byte("x"), nil }) }()
			cancel()
			return nil, <-refused
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s holds the lock: Update = %v, want context.Canceled", name, err)
		}
	}
	if _, n, err := s.Read(t.Context()); n != 0 || err != nil {
		t.Errorf("the refused call wrote: %d, %v", n, err)
	}
}

func TestSlotsAfterClose(t *testing.T) {
	t.Parallel()
	s, err := durable.OpenSlots(t.Context(), nil, filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, seqErr := s.Seq()
	_, _, readErr := s.Read(t.Context())
	updateErr := s.Update(t.Context(), func([]byte) ([]byte, error) { return []byte("x"), nil })
	for _, err := range []error{seqErr, readErr, updateErr, s.Close()} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("after Close: %v, want os.ErrClosed", err)
		}
	}
}

func TestOpenSlotsJudgesWhatIsThere(t *testing.T) {
	t.Parallel()
	good, older := durable.EncodeSlot(7, []byte("good")), durable.EncodeSlot(6, []byte("older"))
	flip := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	newer := bytes.Clone(good)
	binary.LittleEndian.PutUint32(newer[8:], 2)
	newborn := durable.EncodeSlot(0, nil)
	tests := []struct {
		name string
		slot [2][]byte // nil = missing
		want string
		err  error
	}{
		{"nothing", [2][]byte{nil, nil}, "", nil},
		{"second newer", [2][]byte{older, good}, "good", nil},
		{"first newer", [2][]byte{good, older}, "good", nil},
		{"newer torn in the value", [2][]byte{older, flip(good, 33)}, "older", nil},
		{"newer torn in the length", [2][]byte{older, flip(good, 14)}, "older", nil},
		{"newer torn in the sequence", [2][]byte{older, flip(good, 26)}, "older", nil},
		{"newer torn in the magic", [2][]byte{older, flip(good, 0)}, "older", nil},
		{"newer cut off", [2][]byte{older, good[:35]}, "older", nil},
		{"newer empty", [2][]byte{older, {}}, "older", nil},
		{"older torn", [2][]byte{flip(older, 33), good}, "good", nil},
		{"tail of a longer value behind", [2][]byte{older, append(bytes.Clone(good), "tail"...)}, "good", nil},
		{"born and never written", [2][]byte{newborn, newborn}, "", nil},
		{"died between the two births", [2][]byte{newborn, nil}, "", nil},
		{"first write torn", [2][]byte{newborn, flip(good, 33)}, "", nil},
		{"both torn", [2][]byte{flip(older, 33), flip(good, 33)}, "", durable.ErrDamaged},
		{"both empty", [2][]byte{{}, {}}, "", durable.ErrDamaged},
		{"not ours", [2][]byte{[]byte("{}\n"), []byte("{}\n")}, "", durable.ErrDamaged},
		{"first missing", [2][]byte{nil, good}, "", durable.ErrDamaged},
		{"second missing", [2][]byte{good, nil}, "", durable.ErrDamaged},
		{"a newer version", [2][]byte{older, newer}, "", durable.ErrVersion},
		{"a newer version and a torn slot", [2][]byte{newer, flip(good, 33)}, "", durable.ErrVersion},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "state")
			for i, b := range tt.slot {
				if b == nil {
					continue
				}
				if err := os.WriteFile(fmt.Sprintf("%s.%d", path, i), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := durable.OpenSlots(t.Context(), nil, path)
			if !errors.Is(err, tt.err) {
				t.Fatalf("OpenSlots = %v, want %v", err, tt.err)
			}
			if err != nil {
				if s != nil {
					t.Error("OpenSlots gave slots and an error")
				}
				for i, want := range tt.slot {
					got, err := os.ReadFile(fmt.Sprintf("%s.%d", path, i))
					if (want == nil) != errors.Is(err, os.ErrNotExist) || !bytes.Equal(got, want) {
						t.Errorf("slot %d was changed to %q, %v", i, got, err)
					}
				}
				return
			}
			defer s.Close()
			if diff := cmp.Diff(read(t, s), tt.want); diff != "" {
				t.Errorf("value (-got +want):\n%s", diff)
			}
			if old := set(t, s, "next"); string(old) != tt.want || read(t, s) != "next" {
				t.Errorf("old = %q, now %q; want %q and next", old, read(t, s), tt.want)
			}
		})
	}
}
