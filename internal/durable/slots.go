package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// MaxValue is the largest value that [Slots] holds, in bytes.
const MaxValue = 1 << 20

var (
	// ErrDamaged says that no slot holds a readable value. The files are kept.
	ErrDamaged = errors.New("damaged state file")
	// ErrVersion says that a newer program wrote the files. They are kept.
	ErrVersion = errors.New("state file of a newer version")
	// ErrTooLarge says that a value is above [MaxValue]. Nothing was written.
	ErrTooLarge = errors.New("value too large for a file")
)

// Slots is one value in two files, path.0 and path.1, written in turn and in
// place under the lock file path.lock. The newer valid one counts, so a write
// that is cut off by a kill or a power cut leaves the value before it.
//
// The rule that makes this hold also after failed syncs and beside other
// processes: whoever did not itself sync the newest slot writes that slot's
// bytes again and syncs them before it touches the other slot. Without it the
// slot that is about to be overwritten may be the only one on the disk.
//
// Safe for concurrent use by goroutines and by processes of one host; most
// callers want [Slots.Update]. The files must not be removed while a process
// has them open; removed together while nobody has, they are a fresh start.
type Slots struct {
	path string
	lock *Lock
	file [2]File

	// The slot that this Slots wrote and synced last; guarded by lock. -1 means
	// none: after opening and after every error.
	synced    int
	syncedSum header

	seqMu  sync.Mutex
	seqBuf [headerSize]byte // guarded by seqMu; a field so that Seq allocates nothing
}

// OpenSlots opens the two slots of path, and creates them, mode 0600, when
// neither exists; the directory must exist. It waits for the lock until ctx
// ends. nil fsys is [OS].
//
// It fails with [ErrDamaged] when neither slot is readable or one is missing,
// with [ErrVersion] when a newer program wrote one, and changes nothing then.
func OpenSlots(ctx context.Context, fsys FS, path string) (_ *Slots, err error) {
	fsys = orOS(fsys)
	s := &Slots{path: path, synced: -1}
	if s.lock, err = OpenLock(fsys, path+".lock"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.closeFiles()
		}
	}()
	if err := s.lock.Lock(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(s.openLocked(fsys), s.lock.Unlock()); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Slots) openLocked(fsys FS) error {
	if err := s.create(fsys); err != nil {
		return err
	}
	for i := range s.file {
		f, err := fsys.OpenFile(s.name(i), os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("durable: open: %w", err)
		}
		s.file[i] = f
	}
	if _, err := s.load(); err != nil {
		return err
	}
	// Another process may have created the names and died before its sync.
	if err := fsys.SyncDir(filepath.Dir(s.path)); err != nil {
		return fmt.Errorf("durable: %w", err)
	}
	return nil
}

// create makes the slots of a new value, the first one first. Each appears
// complete, so that a file that is not a slot is damage and not a beginning.
func (s *Slots) create(fsys FS) error {
	var missing [2]bool
	for i := range missing {
		_, err := fsys.Stat(s.name(i))
		missing[i] = errors.Is(err, fs.ErrNotExist)
		if err != nil && !missing[i] {
			return fmt.Errorf("durable: %w", err)
		}
	}
	empty := encodeSlot(0, nil)
	switch missing {
	case [2]bool{false, false}:
		return nil
	case [2]bool{true, false}:
		return s.damaged(s.name(0) + " is missing")
	case [2]bool{false, true}:
		// Created by a process that died before the second file, if no value
		// was ever written.
		b, err := ReadFile(fsys, s.name(0))
		if err != nil {
			return fmt.Errorf("durable: %w", err)
		}
		if !bytes.Equal(b, empty) {
			return s.damaged(s.name(1) + " is missing")
		}
	}
	for i := range missing {
		if missing[i] {
			if err := WriteFile(fsys, s.name(i), empty, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// Update replaces the value by what fn makes of it. fn runs once, under the
// lock, with the newest value, or nil when none was ever written; it must be
// quick, must not call this Slots, and may keep and change old. When fn returns
// nil or bytes equal to old nothing is written; when it returns an error that
// error is returned as it is and nothing is written.
//
// A nil error means that the new value is on stable storage. It waits for the
// lock until ctx ends and then fails with [ErrLocked]; a write that has begun
// is finished. [ErrLocked], [ErrTooLarge], [ErrVersion] and [ErrDamaged] mean
// that nothing was written; after any other error the new value may or may not
// be there.
func (s *Slots) Update(ctx context.Context, fn func(old []byte) ([]byte, error)) (err error) {
	if err := s.lock.Lock(ctx); err != nil {
		return err
	}
	// Deferred, because fn may panic or end the goroutine.
	defer func() {
		if uerr := s.lock.Unlock(); err == nil {
			err = uerr
		}
	}()
	cur, err := s.load()
	if err != nil {
		return err
	}
	// fn gets its own copy: what is rewritten below must be what was stored.
	data, err := fn(bytes.Clone(cur.data))
	switch {
	case err != nil:
		return err
	case data == nil || (cur.data != nil && bytes.Equal(data, cur.data)):
		return nil
	case len(data) > MaxValue:
		return fmt.Errorf("durable: %s: %d bytes, a file holds at most %d: use an SQL store: %w", s.path, len(data), MaxValue, ErrTooLarge)
	}
	if cur.slot != s.synced || cur.header != s.syncedSum {
		if err := s.put(cur.slot, cur.seq, cur.data); err != nil {
			return err
		}
	}
	return s.put(1-cur.slot, cur.seq+1, data)
}

// put writes and syncs one slot, and remembers it if that succeeded.
func (s *Slots) put(slot int, seq uint64, data []byte) error {
	s.synced = -1
	b := encodeSlot(seq, data)
	n, err := s.file[slot].WriteAt(b, 0)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = s.file[slot].Sync()
	}
	if err != nil {
		return fmt.Errorf("durable: write %s: %w", s.name(slot), err)
	}
	s.synced = slot
	s.syncedSum, _ = parseHeader(b)
	return nil
}

// Read returns the newest value, nil when none was ever written, and its
// sequence number. It takes no lock unless writers get in its way many times
// over, then it waits for the lock until ctx ends. The value may be one that a
// writer has not yet synced; it is never a torn one.
func (s *Slots) Read(ctx context.Context) (data []byte, seq uint64, err error) {
	for wait := lockFirstWait; wait < lockLastWait; wait *= 2 {
		if cur, err := s.load(); err == nil {
			return cur.data, cur.seq, nil
		}
		time.Sleep(wait)
	}
	if err := s.lock.Lock(ctx); err != nil {
		return nil, 0, err
	}
	cur, err := s.load()
	return cur.data, cur.seq, errors.Join(err, s.lock.Unlock())
}

// Seq returns a number that changes with every write of any process, at the
// cost of two small reads (about a microsecond) and no allocation. It goes up,
// except that it may jump while a write is under way or after one was cut off,
// so compare it for being equal only. It does not say that the newest slot is
// readable: Read does.
func (s *Slots) Seq() (uint64, error) {
	s.seqMu.Lock()
	defer s.seqMu.Unlock()
	var seq uint64
	var any bool
	for i := range s.file {
		n, err := s.file[i].ReadAt(s.seqBuf[:], 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("durable: %w", err)
		}
		if h, ok := parseHeader(s.seqBuf[:n]); ok {
			seq, any = max(seq, h.seq), true
		}
	}
	if !any {
		return 0, s.damaged("neither slot has a header")
	}
	return seq, nil
}

// Close waits for a running Update of this Slots and closes the files.
// Afterwards every method fails.
func (s *Slots) Close() error {
	s.lock.turn <- struct{}{}
	defer func() { <-s.lock.turn }()
	return s.closeFiles()
}

func (s *Slots) closeFiles() error {
	err := s.lock.Close()
	for _, f := range s.file {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

// value is the newest valid slot.
type value struct {
	header
	slot int
	data []byte // nil when no value was ever written
}

// load finds the newest valid slot. It reads the two headers in one order and
// tells from them and the CRCs what was current at some moment during the call,
// also when it runs beside a writer; then it may fail, and is to be repeated.
func (s *Slots) load() (value, error) {
	var heads [2]header
	var ok [2]bool
	for i := range heads {
		b, err := readPrefix(s.file[i], headerSize)
		if err != nil {
			return value{}, err
		}
		heads[i], ok[i] = parseHeader(b)
		if ok[i] && heads[i].version > slotVersion {
			return value{}, fmt.Errorf("durable: %s has version %d, this program knows %d; the file is kept: use the newer program: %w",
				s.name(i), heads[i].version, slotVersion, ErrVersion)
		}
	}
	order := [2]int{0, 1}
	if !ok[0] || (ok[1] && heads[1].seq > heads[0].seq) {
		order = [2]int{1, 0}
	}
	for _, i := range order {
		if !ok[i] || heads[i].length > MaxValue {
			continue
		}
		b, err := readPrefix(s.file[i], headerSize+int(heads[i].length))
		if err != nil {
			return value{}, err
		}
		h, data, valid := parseSlot(b)
		if !valid {
			continue
		}
		if h.seq == 0 {
			data = nil
		}
		return value{header: h, slot: i, data: data}, nil
	}
	return value{}, s.damaged("neither slot is readable")
}

// readPrefix reads the first n bytes, or fewer when the file is shorter.
func readPrefix(f File, n int) ([]byte, error) {
	b := make([]byte, n)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("durable: %w", err)
	}
	return b[:n], nil
}

func (s *Slots) name(slot int) string { return fmt.Sprintf("%s.%d", s.path, slot) }

func (s *Slots) damaged(what string) error {
	return fmt.Errorf("durable: %s; the files are kept: restore %s and %s from a copy, or move both away to start anew: %w",
		what, s.name(0), s.name(1), ErrDamaged)
}
