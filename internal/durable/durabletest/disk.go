package durabletest

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// Sector is what a disk writes completely or not at all, in bytes.
const Sector = 512

// Disk is a file system in memory with a page cache above a disk. It has one
// flat folder: paths are only compared, and every directory exists. Each
// sector that was written since its file's last Sync is on the disk or not
// after a power cut, as chance has it, the file's new length likewise, and each
// new, renamed or removed name since the last SyncDir. A failed Sync writes
// some sectors, forgets that the others were to be written, and sometimes
// drops them from the cache. Safe for concurrent use.
type Disk struct {
	mu      sync.Mutex
	rng     *rand.Rand
	names   map[string]*inode // as programs see them
	stable  map[string]*inode // as the next boot sees them
	pending []change          // names that no SyncDir has made stable yet
}

// change is one change of the folder, kept or lost as a whole.
type change struct {
	removed, added string
	node           *inode
}

type inode struct {
	cache []byte
	disk  []byte
	dirty map[int]bool // sectors of cache that are to be written
	owner *diskFile    // who holds the lock
	mtime time.Time
}

// NewDisk returns an empty disk whose accidents follow from seed.
func NewDisk(seed uint64) *Disk {
	return &Disk{rng: rand.New(rand.NewPCG(seed, 1)), names: map[string]*inode{}, stable: map[string]*inode{}}
}

// PowerCut ends every process and boots: what was not stable is kept or lost by
// chance. Files that were open must not be used any more.
func (d *Disk) PowerCut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.pending {
		if d.rng.IntN(2) == 0 {
			c.apply(d.stable)
		}
	}
	d.pending = nil
	d.names = map[string]*inode{}
	for _, name := range sortedKeys(d.stable) {
		n := d.stable[name]
		n.writeBack(d.rng)
		n.cache, n.owner = slices.Clone(n.disk), nil
		d.names[name] = n
	}
}

// writeBack writes each dirty sector, and the length, or loses it.
func (n *inode) writeBack(rng *rand.Rand) {
	size := len(n.disk)
	if rng.IntN(2) == 0 {
		size = len(n.cache)
	}
	n.resize(size)
	for s := range sectors(len(n.cache)) {
		if n.dirty[s] && rng.IntN(2) == 0 {
			n.write(s)
		}
	}
	n.dirty = map[int]bool{}
}

func (n *inode) resize(size int) {
	if size <= len(n.disk) {
		n.disk = n.disk[:size]
		return
	}
	n.disk = append(n.disk, make([]byte, size-len(n.disk))...)
}

// write copies one sector as far as the file on the disk reaches.
func (n *inode) write(sector int) {
	from := sector * Sector
	to := min(from+Sector, len(n.cache), len(n.disk))
	if from < to {
		copy(n.disk[from:to], n.cache[from:to])
	}
}

func sectors(size int) int { return (size + Sector - 1) / Sector }

func (c change) apply(names map[string]*inode) {
	if c.removed != "" {
		delete(names, c.removed)
	}
	if c.added != "" {
		names[c.added] = c.node
	}
}

func (d *Disk) change(c change) {
	c.apply(d.names)
	d.pending = append(d.pending, c)
}

// OpenFile knows O_CREATE, O_EXCL, O_TRUNC and O_APPEND.
func (d *Disk) OpenFile(name string, flag int, _ fs.FileMode) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	n := d.names[name]
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case n != nil && flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	case n == nil:
		n = &inode{dirty: map[int]bool{}, mtime: time.Now()}
		d.change(change{added: name, node: n})
	case flag&os.O_TRUNC != 0:
		n.cache = nil
	}
	return &diskFile{disk: d, node: n, name: name, appends: flag&os.O_APPEND != 0}, nil
}

// Rename moves a name.
func (d *Disk) Rename(oldpath, newpath string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	oldpath, newpath = filepath.Clean(oldpath), filepath.Clean(newpath)
	n := d.names[oldpath]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: oldpath, Err: fs.ErrNotExist}
	}
	d.change(change{removed: oldpath, added: newpath, node: n})
	return nil
}

// Remove removes a name; open files go on.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	if d.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	d.change(change{removed: name})
	return nil
}

// Stat describes a file.
func (d *Disk) Stat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name = filepath.Clean(name)
	n := d.names[name]
	if n == nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return n.info(name), nil
}

// ReadDir lists the files whose path begins with name.
func (d *Disk) ReadDir(name string) ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []fs.DirEntry
	for _, path := range sortedKeys(d.names) {
		if rest, ok := strings.CutPrefix(path, filepath.Clean(name)+string(filepath.Separator)); ok && filepath.Base(rest) == rest {
			list = append(list, fs.FileInfoToDirEntry(d.names[path].info(path)))
		}
	}
	return list, nil
}

// MkdirAll does nothing: every directory exists.
func (d *Disk) MkdirAll(string, fs.FileMode) error { return nil }

// SyncDir makes all names stable.
func (d *Disk) SyncDir(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.pending {
		c.apply(d.stable)
	}
	d.pending = nil
	return nil
}

func sortedKeys(m map[string]*inode) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// diskFile is an open file of a Disk.
type diskFile struct {
	disk    *Disk
	node    *inode
	name    string
	appends bool
	off     int64
	closed  bool
}

// locked runs fn under the disk's mutex, on an open file.
func (f *diskFile) locked(fn func(n *inode) error) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.closed {
		return &fs.PathError{Op: "use", Path: f.name, Err: fs.ErrClosed}
	}
	return fn(f.node)
}

func (f *diskFile) Name() string { return f.name }

func (f *diskFile) Read(p []byte) (n int, err error) {
	err = f.locked(func(node *inode) error {
		n, err = readAt(node, p, f.off)
		f.off += int64(n)
		if n > 0 && errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	})
	return n, err
}

func (f *diskFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.locked(func(node *inode) error {
		n, err = readAt(node, p, off)
		return err
	})
	return n, err
}

func readAt(n *inode, p []byte, off int64) (int, error) {
	if off >= int64(len(n.cache)) {
		return 0, io.EOF
	}
	read := copy(p, n.cache[off:])
	if read < len(p) {
		return read, io.EOF
	}
	return read, nil
}

func (f *diskFile) Write(p []byte) (int, error) {
	err := f.locked(func(n *inode) error {
		if f.appends {
			f.off = int64(len(n.cache))
		}
		n.put(p, f.off)
		f.off += int64(len(p))
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.locked(func(n *inode) error {
		n.put(p, off)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (n *inode) put(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	from, to := int(off), int(off)+len(p)
	for s := min(from, len(n.cache)) / Sector; s < sectors(to); s++ {
		n.dirty[s] = true
	}
	if to > len(n.cache) {
		n.cache = append(n.cache, make([]byte, to-len(n.cache))...)
	}
	copy(n.cache[from:to], p)
	n.mtime = time.Now()
}

func (f *diskFile) Truncate(size int64) error {
	return f.locked(func(n *inode) error {
		if int(size) > len(n.cache) {
			n.put(make([]byte, int(size)-len(n.cache)), int64(len(n.cache)))
		}
		n.cache = n.cache[:size]
		return nil
	})
}

func (f *diskFile) Sync() error {
	return f.locked(func(n *inode) error {
		n.resize(len(n.cache))
		for s := range n.dirty {
			n.write(s)
		}
		clear(n.dirty)
		return nil
	})
}

// failSync is what a Sync does that returns an error: see Disk.
func (f *diskFile) failSync() {
	_ = f.locked(func(n *inode) error {
		n.writeBack(f.disk.rng)
		if f.disk.rng.IntN(4) == 0 {
			n.cache = slices.Clone(n.disk)
		}
		return nil
	})
}

func (f *diskFile) TryLock() (got bool, err error) {
	err = f.locked(func(n *inode) error {
		if got = n.owner == nil || n.owner == f; got {
			n.owner = f
		}
		return nil
	})
	return got, err
}

func (f *diskFile) Unlock() error {
	return f.locked(func(n *inode) error {
		if n.owner == f {
			n.owner = nil
		}
		return nil
	})
}

func (f *diskFile) Close() error {
	return f.locked(func(n *inode) error {
		if n.owner == f {
			n.owner = nil
		}
		f.closed = true
		return nil
	})
}

func (f *diskFile) Stat() (info fs.FileInfo, err error) {
	err = f.locked(func(n *inode) error {
		info = n.info(f.name)
		return nil
	})
	return info, err
}

// info is a snapshot of an inode as an fs.FileInfo.
type info struct {
	name  string
	size  int64
	mtime time.Time
}

func (n *inode) info(path string) fs.FileInfo {
	return info{filepath.Base(path), int64(len(n.cache)), n.mtime}
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return 0o600 }
func (i info) ModTime() time.Time { return i.mtime }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
