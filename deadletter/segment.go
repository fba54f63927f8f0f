package deadletter

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nightfuse/nightfuse/internal/durable"
)

const (
	segPrefix = "deadletter-"
	segSuffix = ".jsonl"
	tmpSuffix = ".tmp"
	// maxLine is the longest line this format can have.
	maxLine = maxHead + (maxMaxPayload/3+1)*4 + 64
)

// segment is one open file of a journal.
type segment struct {
	num  uint64
	path string
	f    durable.File
}

func segName(num uint64) string { return fmt.Sprintf("%s%06d%s", segPrefix, num, segSuffix) }

// segNum returns the number of a segment's file name.
func segNum(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, segPrefix)
	if !ok {
		return 0, false
	}
	digits, ok = strings.CutSuffix(digits, segSuffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && segName(n) == name
}

// files are the open segments of one generation. They stay open while anybody
// reads them, also when a compaction has removed them from the directory.
type files struct {
	segs []*segment // by number
	pins int        // its users, the journal being one; guarded by the journal's mu
}

func (fs *files) last() *segment {
	if len(fs.segs) == 0 {
		return nil
	}
	return fs.segs[len(fs.segs)-1]
}

func (fs *files) close() error {
	var errs []error
	for _, s := range fs.segs {
		errs = append(errs, s.f.Close())
	}
	return errors.Join(errs...)
}

// lines calls fn for every line of f from off to size. line lacks its line
// feed, whose presence lf tells, is valid during the call only, and is nil for
// a line longer than any of ours.
func lines(f io.ReaderAt, off, size int64, fn func(off int64, n int, line []byte, lf bool) error) error {
	r := bufio.NewReaderSize(io.NewSectionReader(f, off, size-off), int(min(size-off+1, 128<<10)))
	var long []byte
	for off < size {
		part, err := r.ReadSlice('\n')
		line, n := part, len(part)
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long[:0], part...)
			for errors.Is(err, bufio.ErrBufferFull) {
				part, err = r.ReadSlice('\n')
				n += len(part)
				if n <= maxLine {
					long = append(long, part...)
				}
			}
			line = long
			if n > maxLine {
				line = nil
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF // the file was cut while we read
		}
		lf := err == nil
		if lf {
			n--
			if line != nil {
				line = line[:n]
			}
		}
		if ferr := fn(off, n, line, lf); ferr != nil {
			return ferr
		}
		off += int64(n)
		if lf {
			off++
		}
	}
	return nil
}

// Damage is something in a journal that is not as it was written.
type Damage struct {
	File   string `json:"file"`             // name in the journal's directory
	Line   int    `json:"line,omitempty"`   // 1 is the first
	Offset int64  `json:"offset,omitempty"` // bytes before it
	Bytes  int64  `json:"bytes"`
	What   string `json:"what"`
}

// String returns d as one line of text.
func (d Damage) String() string {
	return fmt.Sprintf("%s:%d: %d bytes at offset %d: %s", d.File, d.Line, d.Bytes, d.Offset, d.What)
}

// scan is one reading of a segment.
type scan struct {
	end    int64    // after the last whole line
	noFeed bool     // that line lacks its line feed
	damage []Damage // within the whole lines
	tail   []Damage // behind them
}

// read reads seg from off to size and calls apply for every whole line. What
// is no line is damage when a whole line comes after it; until then it may be a
// write that was cut off, or is still going on.
func (seg *segment) read(off, size int64, apply func(e *entry, at place, line []byte)) (scan, error) {
	s := scan{end: off}
	name, count, whole := filepath.Base(seg.path), 0, off == 0
	bad := func(off int64, n int, what string) {
		d := Damage{File: name, Offset: off, Bytes: int64(n), What: what}
		if whole {
			d.Line = count
		}
		s.tail = append(s.tail, d)
	}
	good := func(off int64, line []byte, lf bool) error {
		b := line[:len(line)-tailLen]
		e, err := decodeBody(b)
		switch {
		case errors.Is(err, errFuture):
			return fmt.Errorf("%s: %w", seg.path, err)
		case err != nil:
			bad(off, len(line), err.Error())
			return nil
		}
		head, _ := split(b)
		apply(e, place{seg: seg, off: off, n: len(line), head: len(head), sum: crc32.Checksum(head, castagnoli)}, line)
		s.damage, s.tail = append(s.damage, s.tail...), nil
		s.end, s.noFeed = off+int64(len(line)), !lf
		if lf {
			s.end++
		}
		return nil
	}
	err := lines(seg.f, off, size, func(off int64, n int, line []byte, lf bool) error {
		count++
		if n == 0 {
			// The line feed that a line at the end got later.
			if len(s.tail) == 0 {
				s.end, s.noFeed = off+1, false
			}
			return nil
		}
		if line == nil {
			bad(off, n, "longer than any line of a journal")
			return nil
		}
		if _, ok := body(line); ok {
			return good(off, line, lf)
		}
		from := 0
		for _, in := range salvage(line) {
			if in[0] > from {
				bad(off+int64(from), in[0]-from, "no whole line")
			}
			from = in[1]
			if err := good(off+int64(in[0]), line[in[0]:in[1]], lf && from == n); err != nil {
				return err
			}
		}
		if from < n {
			bad(off+int64(from), n-from, "no whole line")
		}
		return nil
	})
	return s, err
}

// first returns the first entry of seg, nil when it is not whole.
func (seg *segment) first() *entry {
	var e *entry
	info, err := seg.f.Stat()
	if err != nil {
		return nil
	}
	stop := errors.New("stop")
	_ = lines(seg.f, 0, min(info.Size(), 1<<12), func(_ int64, _ int, line []byte, lf bool) error {
		if lf {
			e, _ = decodeLine(line)
		}
		return stop
	})
	return e
}

// segments returns the numbers of the segments in dir, ascending, and how many
// set-aside tails there are.
func segments(fsys durable.FS, dir string) (nums []uint64, torn int, err error) {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, 0, fmt.Errorf("deadletter: %w", err)
	}
	for _, e := range list {
		if n, ok := segNum(e.Name()); ok {
			nums = append(nums, n)
		}
		if strings.HasPrefix(e.Name(), segPrefix) && strings.Contains(e.Name(), tornMark) {
			torn++
		}
	}
	slices.Sort(nums)
	return nums, torn, nil
}
