package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// TempPrefix begins the name of every temp file, so that listings can skip
// them and [Sweep] knows them.
const TempPrefix = ".nightfuse-tmp-"

// sweepAge protects a temp file in the moments in which its writer has no lock
// on it: after the creation and, on Windows, before the rename.
const sweepAge = time.Minute

// WriteFile replaces the file at path by data, atomically and durably: at every
// moment, and after a crash at any moment, path is the old file or the complete
// new one. nil fsys is [OS].
//
// perm is the mode of the new file, before the umask. A symbolic link at path is
// replaced, not followed. After an error path holds the old content, with one
// exception: when only the last step failed, the sync of the directory, the new
// content is in place but a power cut may bring the old one back. The temp file
// is removed after every error; what a killed process leaves, Sweep removes.
// Concurrent writers of one path are safe; the last one stays.
func WriteFile(fsys FS, path string, data []byte, perm fs.FileMode) error {
	if err := Replace(fsys, path, data, perm); err != nil {
		return err
	}
	return SyncDir(fsys, filepath.Dir(path))
}

// Replace is [WriteFile] without the sync of the directory: after a power cut
// path may be the old file again, or missing if it was new, but never a part
// of the new one. A later [SyncDir] makes it durable, for any number of files.
func Replace(fsys FS, path string, data []byte, perm fs.FileMode) (err error) {
	fsys = orOS(fsys)
	f, err := createTemp(fsys, filepath.Dir(path), perm)
	if err != nil {
		return fmt.Errorf("durable: replace %s: %w", path, err)
	}
	temp, open := f.Name(), true
	defer func() {
		if err == nil {
			return
		}
		if open {
			_ = f.Close()
		}
		_ = fsys.Remove(temp)
		err = fmt.Errorf("durable: replace %s: %w", path, err)
	}()
	if err := writeAll(f, data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if closeBeforeRename {
		open = false
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := fsys.Rename(temp, path); err != nil {
		return err
	}
	if open {
		// The content is synced and in place; a failing close changes nothing.
		_ = f.Close()
	}
	return nil
}

// createTemp makes a new file that Sweep leaves alone while this process lives.
func createTemp(fsys FS, dir string, perm fs.FileMode) (File, error) {
	for range 100 {
		f, err := fsys.OpenFile(filepath.Join(dir, TempPrefix+rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// The lock only speaks to Sweep, which also goes by the age: where
		// there are no locks the write is as good without one.
		_, _ = f.TryLock()
		return f, nil
	}
	return nil, fmt.Errorf("no free name for a temp file: %w", fs.ErrExist)
}

func writeAll(w io.Writer, data []byte) error {
	n, err := w.Write(data)
	if err == nil && n < len(data) {
		return io.ErrShortWrite
	}
	return err
}

// Sweep removes the temp files that dead writers left in dir and reports how
// many. A temp file is left alone while its writer lives (it holds a lock on
// it) or for a minute after its last change, so Sweep is safe beside writers of
// this and other processes. Where the system has no locks only files older than
// an hour go. A missing dir has no temp files. nil fsys is [OS].
func Sweep(fsys FS, dir string) (removed int, err error) {
	fsys = orOS(fsys)
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("durable: sweep %s: %w", dir, err)
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), TempPrefix) || !e.Type().IsRegular() {
			continue
		}
		ok, err := sweepOne(fsys, filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("durable: sweep: %w", err))
		}
		if ok {
			removed++
		}
	}
	return removed, errors.Join(errs...)
}

func sweepOne(fsys FS, path string) (removed bool, err error) {
	f, err := fsys.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	age := time.Since(info.ModTime())
	if age < sweepAge {
		return false, nil
	}
	dead, err := f.TryLock()
	if errors.Is(err, errors.ErrUnsupported) {
		dead, err = age > time.Hour, nil
	}
	if !dead || err != nil {
		return false, err
	}
	if closeBeforeRename {
		if err := f.Close(); err != nil {
			return false, err
		}
	}
	// A writer that lived a moment ago has renamed its file since: then there
	// is nothing left under this name, which is never used twice.
	if err := fsys.Remove(path); err != nil {
		return false, err
	}
	return true, nil
}
