package durable

import (
	"io"
	"io/fs"
	"os"
)

// FS is the file system as this package and the stores built on it use it. It
// is an interface so that tests can make any single step fail. Implementations
// are safe for concurrent use.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Rename replaces newpath atomically. It retries for a bounded time where
	// the system refuses a rename because somebody is reading the target.
	Rename(oldpath, newpath string) error
	Remove(name string) error
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.DirEntry, error)
	MkdirAll(name string, perm fs.FileMode) error
	// SyncDir makes created, renamed and removed names in a directory durable.
	// It does nothing where directories cannot be synced.
	SyncDir(name string) error
}

// File is an open file of an [FS].
type File interface {
	io.Reader
	io.Writer
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Name is the name the file was opened by.
	Name() string
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	// Sync returns when the content and the size are on stable storage. After
	// an error nothing is known about the bytes written since the last
	// successful Sync, and a second Sync proves nothing: write them again.
	Sync() error
	// TryLock takes the exclusive lock of the file without waiting and reports
	// whether it got it. The lock belongs to this open file, so it also keeps
	// out whoever opened the same file in the same process. It ends with
	// Unlock, Close or the process.
	TryLock() (bool, error)
	Unlock() error
}

// OS is the operating system's file system.
var OS FS = osFS{}

// orOS makes nil mean the operating system.
func orOS(fsys FS) FS {
	if fsys == nil {
		return OS
	}
	return fsys
}

// ReadFile reads the whole file; nil fsys is [OS].
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := orOS(fsys).OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return data, err
}

// SyncDir makes the names in a directory durable; nil fsys is [OS].
func SyncDir(fsys FS, dir string) error { return orOS(fsys).SyncDir(dir) }

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Rename(oldpath, newpath string) error {
	return retryRename(func() error { return os.Rename(oldpath, newpath) }, renameMayPass)
}

func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }
func (osFS) ReadDir(name string) ([]fs.DirEntry, error)   { return os.ReadDir(name) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) SyncDir(name string) error                    { return syncDir(name) }

// osFile is an *os.File whose Sync skips the metadata nobody needs and that
// can be locked.
type osFile struct{ *os.File }

func (f osFile) Sync() error            { return datasync(f.File) }
func (f osFile) TryLock() (bool, error) { return flock(f.File) }
func (f osFile) Unlock() error          { return funlock(f.File) }
