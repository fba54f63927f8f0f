package breaker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// File returns a Store of small JSON files in dir, which is made when it is
// missing: one NAME.json per breaker, replaced as a whole, to read, to archive
// or, while no program uses it, to delete; and one NAME.lock, which stays. In
// names every byte but a-z, 0-9, '-' and '_' is written as %xx. Goroutines and
// processes of one host share it safely; keep it on a local disk. It is a
// Sequencer.
func File(dir string) (Store, error) { return openFiles(nil, dir) }

func openFiles(fsys durable.FS, dir string) (*files, error) {
	if fsys == nil {
		fsys = durable.OS
	}
	if dir == "" {
		return nil, errors.New("breaker: File needs a folder")
	}
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("breaker: make the state folder: %w", err)
	}
	// What killed writers have left. It costs only space, so a failure says
	// nothing yet.
	_, _ = durable.Sweep(fsys, dir)
	return &files{fs: fsys, dir: dir, open: map[string]*stateFile{}}, nil
}

type files struct {
	fs  durable.FS
	dir string

	mu   sync.Mutex
	open map[string]*stateFile
	turn uint64
}

// maxOpen is how many files are kept open, for a Group with many upstreams.
const maxOpen = 200

// stateFile is one name. The lock file's content is the sequence number: it is
// written in place, so an open file sees it change.
type stateFile struct {
	path string // of the JSON
	lock *durable.Lock

	// Guarded by files.mu.
	users int    // operations in hand
	used  uint64 // the turn of the latest one
	gone  bool   // no longer in the map; the last user closes it

	mu  sync.Mutex
	buf [8]byte // for Seq, which would else allocate it
}

func (s *files) Update(ctx context.Context, name string, fn func([]byte) ([]byte, error)) (err error) {
	if err := checkName(name); err != nil {
		return err
	}
	f, err := s.locked(ctx, name)
	if err != nil {
		return err
	}
	defer func() {
		if uerr := f.lock.Unlock(); err == nil && uerr != nil {
			err = fmt.Errorf("breaker: %w", uerr)
		}
		s.release(f)
	}()

	old, err := durable.ReadFile(s.fs, f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = nil
	case err != nil:
		return fmt.Errorf("breaker: read state: %w", err)
	case old == nil:
		old = []byte{} // an empty file is not a missing one
	}
	// fn may keep nothing, but it may change what it is given.
	now, err := fn(bytes.Clone(old))
	if err != nil {
		return err
	}
	if now == nil || (old != nil && bytes.Equal(now, old)) {
		return nil
	}
	if err := checkValue(now); err != nil {
		return err
	}
	// The number first: whoever sees it too early waits for the lock, but who
	// saw it too late would miss the write of a process that was killed.
	if err := f.raise(); err != nil {
		return fmt.Errorf("breaker: write state: %w", err)
	}
	if err := durable.WriteFile(s.fs, f.path, now, 0o600); err != nil {
		return fmt.Errorf("breaker: write state: %w", err)
	}
	return nil
}

// locked returns the file of a name with its lock held.
func (s *files) locked(ctx context.Context, name string) (*stateFile, error) {
	for {
		f, err := s.file(name)
		if err != nil {
			return nil, err
		}
		if err := f.lock.Lock(ctx); err != nil {
			s.release(f)
			return nil, err
		}
		if !s.deleted(f) {
			return f, nil
		}
		// Somebody deleted the folder under a running program. A lock on a file
		// without a name excludes nobody, so go on with the one that has it.
		_ = f.lock.Unlock()
		s.mu.Lock()
		s.forget(name, f)
		s.mu.Unlock()
		s.release(f)
	}
}

// deleted reports whether the lock file of f is no longer the one in the
// folder.
func (s *files) deleted(f *stateFile) bool {
	mine, err := f.lock.File().Stat()
	if err != nil || !os.SameFile(mine, mine) { // not a file of this system
		return false
	}
	named, err := s.fs.Stat(f.lock.File().Name())
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, named)
}

// Seq reads the sequence number, in one system call.
func (s *files) Seq(name string) (uint64, error) {
	f, err := s.file(name)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	n, err := f.number(f.buf[:])
	f.mu.Unlock()
	s.release(f)
	return n, err
}

// file returns the open file of a name, for one operation: release it.
func (s *files) file(name string) (*stateFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.open[name]
	if !ok {
		path := filepath.Join(s.dir, escape(name))
		lock, err := durable.OpenLock(s.fs, path+".lock")
		if errors.Is(err, fs.ErrNotExist) && s.fs.MkdirAll(s.dir, 0o700) == nil {
			lock, err = durable.OpenLock(s.fs, path+".lock")
		}
		if err != nil {
			return nil, fmt.Errorf("breaker: %w", err)
		}
		if len(s.open) >= maxOpen {
			s.forgetOldest()
		}
		f = &stateFile{path: path + ".json", lock: lock}
		s.open[name] = f
	}
	s.turn++
	f.users, f.used = f.users+1, s.turn
	return f, nil
}

// release ends one operation on f.
func (s *files) release(f *stateFile) {
	s.mu.Lock()
	f.users--
	last := f.gone && f.users == 0
	s.mu.Unlock()
	if last {
		_ = f.lock.File().Close()
	}
}

// forget takes f out of the map. The lock is held.
func (s *files) forget(name string, f *stateFile) {
	if s.open[name] == f {
		delete(s.open, name)
		f.gone = true
	}
}

// forgetOldest closes the file that was not used for longest. The lock is held.
func (s *files) forgetOldest() {
	var oldest *stateFile
	var name string
	for n, f := range s.open {
		if f.users == 0 && (oldest == nil || f.used < oldest.used) {
			oldest, name = f, n
		}
	}
	if oldest != nil {
		s.forget(name, oldest)
		_ = oldest.lock.File().Close()
	}
}

// number reads the sequence number; a new lock file is empty and means 0.
func (f *stateFile) number(buf []byte) (uint64, error) {
	n, err := f.lock.File().ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("breaker: read sequence number: %w", err)
	}
	if n < len(buf) {
		return 0, nil
	}
	return binary.LittleEndian.Uint64(buf), nil
}

func (f *stateFile) raise() error {
	var buf [8]byte
	n, err := f.number(buf[:])
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(buf[:], n+1)
	_, err = f.lock.File().WriteAt(buf[:], 0)
	return err
}

// maxFileName leaves room for ".json" and for file systems with 255 bytes.
const maxFileName = 200

// escape returns a file name for a breaker's name, distinct also where case
// does not count.
func escape(name string) string {
	var out strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02x", c)
		}
	}
	if out.Len() <= maxFileName {
		return out.String()
	}
	sum := sha256.Sum256([]byte(name))
	return out.String()[:maxFileName-33] + "~" + hex.EncodeToString(sum[:16])
}
