package durabletest

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// ErrKilled is the error of every call after [Faults.Kill].
var ErrKilled = errors.New("durabletest: process killed")

// Op is one step that a [Faults] is about to do.
type Op struct {
	// Kind is one of open, read, write, truncate, sync, lock, unlock, rename,
	// remove, stat, readdir, mkdir, syncdir. Closing never fails.
	Kind string
	Path string // of a rename: the new name
	Size int    // of a read, write or truncate: the bytes asked for
}

// Faults is the file system FS with faults. Hook is asked before every step,
// one step at a time; a nil error lets it happen. A failing write first writes
// keep bytes, which is how a full disk or a kill leaves a torn one; a failing
// sync may have written anything, see [Disk]. Otherwise a failing step does
// nothing. Safe for concurrent use; set the fields before the first use.
type Faults struct {
	FS   durable.FS                        // nil = durable.OS
	Hook func(op Op) (keep int, err error) // nil = no faults

	mu     sync.Mutex
	killed bool
	open   map[*file]struct{}
}

// Kill is a SIGKILL of the process that uses this file system: its files are
// closed and its locks end with nothing else done, and every later step fails
// with [ErrKilled]. It may be called from Hook through [KillNow] only.
func (f *Faults) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kill()
}

// KillNow returns what a Hook returns to kill the process in this step, after
// keep bytes of a write.
func KillNow(keep int) (int, error) { return keep, ErrKilled }

func (f *Faults) kill() {
	f.killed = true
	for opened := range f.open {
		_ = opened.File.Close()
	}
	f.open = nil
}

// step asks the hook and carries out a kill, after partial has run.
func (f *Faults) step(op Op, partial func(keep int)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.killed {
		return ErrKilled
	}
	if f.Hook == nil {
		return nil
	}
	keep, err := f.Hook(op)
	if err == nil {
		return nil
	}
	if partial != nil {
		partial(min(keep, op.Size))
	}
	if errors.Is(err, ErrKilled) {
		f.kill()
		return ErrKilled
	}
	return &fs.PathError{Op: op.Kind, Path: op.Path, Err: err}
}

func (f *Faults) base() durable.FS {
	if f.FS == nil {
		return durable.OS
	}
	return f.FS
}

// OpenFile is a step "open".
func (f *Faults) OpenFile(name string, flag int, perm fs.FileMode) (durable.File, error) {
	if err := f.step(Op{Kind: "open", Path: name}, nil); err != nil {
		return nil, err
	}
	base, err := f.base().OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	opened := &file{File: base, fs: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[*file]struct{}{}
	}
	f.open[opened] = struct{}{}
	return opened, nil
}

// Rename is a step "rename".
func (f *Faults) Rename(oldpath, newpath string) error {
	if err := f.step(Op{Kind: "rename", Path: newpath}, nil); err != nil {
		return err
	}
	return f.base().Rename(oldpath, newpath)
}

// Remove is a step "remove".
func (f *Faults) Remove(name string) error {
	if err := f.step(Op{Kind: "remove", Path: name}, nil); err != nil {
		return err
	}
	return f.base().Remove(name)
}

// Stat is a step "stat".
func (f *Faults) Stat(name string) (fs.FileInfo, error) {
	if err := f.step(Op{Kind: "stat", Path: name}, nil); err != nil {
		return nil, err
	}
	return f.base().Stat(name)
}

// ReadDir is a step "readdir".
func (f *Faults) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.step(Op{Kind: "readdir", Path: name}, nil); err != nil {
		return nil, err
	}
	return f.base().ReadDir(name)
}

// MkdirAll is a step "mkdir".
func (f *Faults) MkdirAll(name string, perm fs.FileMode) error {
	if err := f.step(Op{Kind: "mkdir", Path: name}, nil); err != nil {
		return err
	}
	return f.base().MkdirAll(name, perm)
}

// SyncDir is a step "syncdir".
func (f *Faults) SyncDir(name string) error {
	if err := f.step(Op{Kind: "syncdir", Path: name}, nil); err != nil {
		return err
	}
	return f.base().SyncDir(name)
}

// file is an open file of a Faults.
type file struct {
	durable.File
	fs *Faults
}

func (f *file) Read(p []byte) (int, error) {
	if err := f.fs.step(Op{"read", f.Name(), len(p)}, nil); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.step(Op{"read", f.Name(), len(p)}, nil); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *file) Write(p []byte) (n int, err error) {
	err = f.fs.step(Op{"write", f.Name(), len(p)}, func(keep int) { n, _ = f.File.Write(p[:keep]) })
	if err != nil {
		return n, err
	}
	return f.File.Write(p)
}

func (f *file) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.fs.step(Op{"write", f.Name(), len(p)}, func(keep int) { n, _ = f.File.WriteAt(p[:keep], off) })
	if err != nil {
		return n, err
	}
	return f.File.WriteAt(p, off)
}

func (f *file) Truncate(size int64) error {
	if err := f.fs.step(Op{"truncate", f.Name(), int(size)}, nil); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *file) Sync() error {
	err := f.fs.step(Op{"sync", f.Name(), 0}, func(int) {
		if d, ok := f.File.(*diskFile); ok {
			d.failSync()
		}
	})
	if err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *file) TryLock() (bool, error) {
	if err := f.fs.step(Op{"lock", f.Name(), 0}, nil); err != nil {
		return false, err
	}
	return f.File.TryLock()
}

func (f *file) Unlock() error {
	if err := f.fs.step(Op{"unlock", f.Name(), 0}, nil); err != nil {
		return err
	}
	return f.File.Unlock()
}

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.killed {
		return ErrKilled
	}
	delete(f.fs.open, f)
	return f.File.Close()
}
