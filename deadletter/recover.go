package deadletter

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// tornMark is in the names of files with tails that were cut off.
const tornMark = segSuffix + ".torn-"

func placeOf(seg *segment, off int64, line []byte, head int) place {
	return place{seg: seg, off: off, n: len(line), head: head, sum: crc32.Checksum(line[:head], castagnoli)}
}

// catchUp reads what has been appended since the last look, by whoever. locked
// says that nobody appends meanwhile: then the end of the last segment is
// mended. j.mu is held.
func (j *Journal) catchUp(locked bool) error {
	for range 8 {
		n, raw := j.readNote()
		if n.Gen != j.note.Gen {
			j.stale = true
		}
		j.note, j.raw = n, raw
		var err error
		if j.stale || j.files == nil || j.gone() {
			err = j.reload(locked)
		} else {
			err = j.readOn(locked, n.Seg)
		}
		if locked {
			if err == nil {
				err = j.feed()
			}
			j.stale = err != nil
			return err
		}
		// Without the lock bytes may have been replaced under our eyes: then
		// the generation says so, and the reading does not count.
		again, _ := j.readNote()
		if again.Gen == n.Gen && !errors.Is(err, fs.ErrNotExist) {
			j.stale = err != nil
			return err
		}
		j.stale = true
	}
	return fmt.Errorf("deadletter: the journal in %s changes faster than it can be read", j.dir)
}

// gone reports whether somebody has removed the segment in use.
func (j *Journal) gone() bool {
	last := j.files.last()
	if last == nil {
		return false
	}
	_, err := j.fsys.Stat(last.path)
	return errors.Is(err, fs.ErrNotExist)
}

// readOn reads from the known end, through segments up to number seg.
func (j *Journal) readOn(locked bool, seg uint64) error {
	last := j.files.last()
	if last == nil || seg > last.num {
		nums, torn, err := segments(j.fsys, j.dir)
		if err != nil {
			return err
		}
		j.torn = torn
		var later []uint64
		for _, n := range nums {
			if last == nil || n > last.num {
				later = append(later, n)
			}
		}
		if last != nil {
			if err := j.readSegment(last, j.end, locked, len(later) == 0); err != nil {
				return err
			}
		}
		return j.readFiles(later, locked)
	}
	return j.readSegment(last, j.end, locked, true)
}

// reload forgets everything and reads the directory.
func (j *Journal) reload(locked bool) error {
	nums, torn, err := segments(j.fsys, j.dir)
	if err != nil {
		return err
	}
	if old := j.files; old != nil {
		j.files = nil
		if old.pins--; old.pins == 0 {
			_ = old.close()
		}
	}
	j.files = &files{pins: 1}
	j.ix, j.end, j.noFeed, j.size, j.damage, j.torn = newIndex(), 0, false, 0, nil, torn
	from := 0
	for i, n := range nums {
		seg, err := j.open(n)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by a compaction since the listing
		}
		if err != nil {
			return err
		}
		if e := seg.first(); e != nil && e.Op == opBase {
			from = i
		}
		if err := seg.f.Close(); err != nil {
			return fmt.Errorf("deadletter: %w", err)
		}
	}
	if locked {
		j.sweep(nums[:from])
	}
	if err := j.readFiles(nums[from:], locked); err != nil {
		return err
	}
	for _, d := range j.damage {
		j.cfg.Logger.Warn("deadletter: damage in the journal", "file", d.File, "offset", d.Offset, "bytes", d.Bytes, "what", d.What)
	}
	return nil
}

// open opens segment n.
func (j *Journal) open(n uint64) (*segment, error) {
	flag := os.O_RDWR
	if j.cfg.ReadOnly {
		flag = os.O_RDONLY
	}
	seg := &segment{num: n, path: j.path(segName(n))}
	f, err := j.fsys.OpenFile(seg.path, flag, 0)
	if err != nil {
		return nil, fmt.Errorf("deadletter: %w", err)
	}
	seg.f = f
	return seg, nil
}

// readFiles opens and reads the segments nums, which follow those that are open.
func (j *Journal) readFiles(nums []uint64, locked bool) error {
	for i, n := range nums {
		seg, err := j.open(n)
		if err != nil {
			return err
		}
		j.files.segs = append(j.files.segs, seg)
		j.end, j.noFeed = 0, false
		if err := j.readSegment(seg, 0, locked, i == len(nums)-1); err != nil {
			return err
		}
	}
	return nil
}

// readSegment reads seg from off. last says that it is the one in use, whose
// end may be unfinished.
func (j *Journal) readSegment(seg *segment, off int64, locked, last bool) error {
	info, err := seg.f.Stat()
	if err != nil {
		return fmt.Errorf("deadletter: %w", err)
	}
	size := info.Size()
	if size == off {
		return nil
	}
	if size < off {
		return fmt.Errorf("%w: %s has shrunk from %d to %d bytes", ErrCorrupt, seg.path, off, size)
	}
	s, err := seg.read(off, size, func(e *entry, at place, _ []byte) {
		if e.Op == opBase {
			j.ix.seq = max(j.ix.seq, e.Seq)
			return
		}
		j.ix.set(e.ID, e.next(j.ix.letters[e.ID], at))
	})
	if err != nil {
		return fmt.Errorf("deadletter: read %s: %w", seg.path, err)
	}
	j.damage = append(j.damage, s.damage...)
	if !last {
		j.damage = append(j.damage, s.tail...)
		s.end = size
	}
	j.size += s.end - off
	j.end, j.noFeed = s.end, s.noFeed && last
	if !last || !locked || s.end == size {
		return nil
	}
	if err := j.setAside(seg, s.end, size); err != nil {
		// No room for it, or no right: what cannot be cut off stays, and is
		// damage in the middle from now on.
		j.cfg.Logger.Error("deadletter: cannot cut off an unfinished tail", "file", seg.path, "offset", s.end, "error", err)
		j.damage = append(j.damage, s.tail...)
		return j.roll()
	}
	return nil
}

// feed adds the line feed that a whole last line lacks. The directory's lock is
// held.
func (j *Journal) feed() error {
	if !j.noFeed {
		return nil
	}
	if _, err := j.files.last().f.WriteAt([]byte{'\n'}, j.end); err != nil {
		return fmt.Errorf("deadletter: %w", err)
	}
	j.noFeed = false
	j.end++
	j.size++
	return nil
}

// setAside copies the bytes from end to size into a file beside seg and cuts
// them off.
func (j *Journal) setAside(seg *segment, end, size int64) error {
	var f durable.File
	for i := 1; f == nil; i++ {
		path := fmt.Sprintf("%s.torn-%d", seg.path, end)
		if i > 1 {
			path += fmt.Sprintf("-%d", i)
		}
		opened, err := j.fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err == nil {
			f = opened
		}
	}
	_, err := io.Copy(f, io.NewSectionReader(seg.f, end, size-end))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = j.fsys.SyncDir(j.dir)
	}
	if err != nil {
		_ = j.fsys.Remove(f.Name())
		return err
	}
	j.torn++
	j.cfg.Logger.Warn("deadletter: unfinished tail set aside", "file", f.Name(), "bytes", size-end)
	return j.cut(seg, end)
}

// cut cuts seg off at end. The generation goes up first: another process may
// have read what will be other bytes soon.
func (j *Journal) cut(seg *segment, end int64) error {
	if err := j.writeNote(j.note.Gen+1, seg.num); err != nil {
		return err
	}
	if err := seg.f.Truncate(end); err != nil {
		return err
	}
	return seg.f.Sync()
}

// roll begins a new segment. j.mu is held.
func (j *Journal) roll() error {
	num := uint64(1)
	if last := j.files.last(); last != nil {
		num = last.num + 1
	}
	// Told first: nobody may append to the old one once the new one is there.
	if err := j.writeNote(j.note.Gen, num); err != nil {
		return err
	}
	seg := &segment{num: num, path: j.path(segName(num))}
	f, err := j.fsys.OpenFile(seg.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("deadletter: new segment: %w", err)
	}
	seg.f = f
	if err := j.fsys.SyncDir(j.dir); err != nil {
		_ = f.Close()
		return fmt.Errorf("deadletter: new segment: %w", errors.Join(err, j.fsys.Remove(seg.path)))
	}
	j.files.segs = append(j.files.segs, seg)
	j.end, j.noFeed = 0, false
	return nil
}

// sweep removes what a compaction could not: segments that are replaced by a
// later one, and its unfinished file.
func (j *Journal) sweep(nums []uint64) {
	for _, n := range nums {
		if seg, err := j.open(n); err == nil {
			j.retire(seg)
		}
	}
	list, err := j.fsys.ReadDir(j.dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if filepath.Ext(e.Name()) == tmpSuffix {
			_ = j.fsys.Remove(j.path(e.Name()))
		}
	}
}

// retire closes and removes a segment whose letters stand elsewhere. One with
// damage is kept under another name, since only it has the damaged bytes.
func (j *Journal) retire(seg *segment) {
	damaged := true
	if info, err := seg.f.Stat(); err == nil {
		s, err := seg.read(0, info.Size(), func(*entry, place, []byte) {})
		damaged = err != nil || len(s.damage)+len(s.tail) > 0
	}
	_ = seg.f.Close()
	// What fails here (Windows keeps files that are being read) is done when
	// the journal is opened next.
	if damaged {
		_ = j.fsys.Rename(seg.path, seg.path+".damaged")
		return
	}
	_ = j.fsys.Remove(seg.path)
}
