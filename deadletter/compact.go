package deadletter

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maybeCompact compacts when more than half of the journal is of no use, and
// that is worth it. j's lock is held, j.mu is not.
func (j *Journal) maybeCompact() {
	j.mu.Lock()
	waste := j.size - j.ix.live
	due := waste > j.ix.live && waste > j.cfg.Segment/4 && j.size >= j.retryAt
	j.mu.Unlock()
	if !due {
		return
	}
	if err := j.compact(); err != nil {
		// Nothing is lost by waiting: the old segments are complete.
		j.cfg.Logger.Error("deadletter: compaction failed", "error", err)
		j.mu.Lock()
		j.retryAt = j.size + j.cfg.Segment
		j.mu.Unlock()
	}
}

// Compact rewrites the journal without what no longer counts: resolved and
// purged letters and all but the last state of the others. It happens by
// itself when more than half of the journal is of that kind, and after a
// Purge. A segment with damaged lines is kept as NAME.damaged.
func (j *Journal) Compact(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("deadletter: %w", context.Cause(ctx))
	}
	if j.cfg.ReadOnly {
		return ErrReadOnly
	}
	if j.isClosed() {
		return ErrClosed
	}
	j.q.Lock()
	for j.leading {
		j.wake.Wait()
	}
	j.leading = true
	j.q.Unlock()
	defer func() {
		j.q.Lock()
		j.leading = false
		j.wake.Broadcast()
		j.q.Unlock()
	}()
	return j.locked(j.compact)
}

// compact writes the next segment with all that counts and removes the others.
// The directory's lock is held.
func (j *Journal) compact() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return ErrClosed
	case j.failed != nil:
		return j.failed
	}
	if err := j.catchUp(true); err != nil {
		return err
	}
	last := j.files.last()
	if last == nil {
		return nil
	}
	num := last.num + 1
	tmp := j.path(segName(num) + tmpSuffix)
	// Readers go on meanwhile with what they have: under the directory's lock
	// nobody else changes it.
	j.writing = true
	j.mu.Unlock()
	err := j.writeCompact(tmp)
	j.mu.Lock()
	j.writing = false
	if err != nil {
		return fmt.Errorf("deadletter: compact: %w", errors.Join(err, j.fsys.Remove(tmp)))
	}
	if err := j.writeNote(j.note.Gen+1, num); err != nil {
		return err
	}
	// From here on the next look reads the directory, whatever has happened.
	j.stale = true
	if err := j.fsys.Rename(tmp, j.path(segName(num))); err != nil {
		return fmt.Errorf("deadletter: compact: %w", err)
	}
	if err := j.fsys.SyncDir(j.dir); err != nil {
		return fmt.Errorf("deadletter: compact: %w", err)
	}
	return j.catchUp(true)
}

// writeCompact writes the unresolved letters into a new file, in the order in
// which they stand.
func (j *Journal) writeCompact(path string) error {
	f, err := j.fsys.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	now := j.cfg.Clock.Now()
	keep := make([]*letter, 0, len(j.ix.letters))
	for _, l := range j.ix.letters {
		if !l.state.resolved() {
			keep = append(keep, l)
		}
	}
	slices.SortFunc(keep, func(a, b *letter) int {
		return cmp.Or(cmp.Compare(a.body.seg.num, b.body.seg.num), cmp.Compare(a.body.off, b.body.off))
	})
	err = func() error {
		head, err := encodeHead(&entry{V: 1, Op: opBase, At: norm(now), Seq: j.ix.seq})
		if err != nil {
			return err
		}
		buf := appendLine(nil, head, nil)
		for _, l := range keep {
			line, err := j.rewrite(l, now)
			if errors.Is(err, ErrCorrupt) {
				j.cfg.Logger.Error("deadletter: letter cannot be read, left out of the compacted journal", "id", l.id, "error", err)
				continue
			}
			if err != nil {
				return err
			}
			buf = append(buf, line...)
			if len(buf) < 1<<20 {
				continue
			}
			if _, err := f.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
		if _, err := f.Write(buf); err != nil {
			return err
		}
		return f.Sync()
	}()
	return errors.Join(err, f.Close())
}

// rewrite returns l as one line.
func (j *Journal) rewrite(l *letter, now time.Time) ([]byte, error) {
	r, err := j.record(l)
	if err != nil {
		return nil, err
	}
	l.overlay(&r, time.Time{})
	r.State = l.state
	head, err := encodeHead(&entry{V: 1, Op: opPut, At: norm(now), ID: l.id, From: l.from, Rec: &r})
	if err != nil {
		return nil, err
	}
	var payload []byte
	if l.size > 0 {
		line, err := j.line(l.body)
		if err != nil {
			return nil, err
		}
		b, ok := body(line)
		if !ok {
			return nil, fmt.Errorf("%w: checksum of letter %s", ErrCorrupt, l.id)
		}
		head, _ := split(b)
		payload = b[len(head):]
	}
	return appendLine(nil, head, payload), nil
}

// Verify reads every byte of the journal and returns what is wrong: damaged
// lines, payloads that do not match their hash, tails and segments that were
// set aside. It changes nothing and takes no lock; an unfinished line at the
// very end is not damage, a commit may be under way.
func (j *Journal) Verify(ctx context.Context) ([]Damage, error) {
	fs, err := j.view(ctx, func(*index) {})
	if err != nil {
		return nil, err
	}
	defer func() { _ = j.unpin(fs) }()
	j.mu.Lock()
	segs := slices.Clone(fs.segs)
	j.mu.Unlock()
	var out []Damage
	for i, seg := range segs {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("deadletter: %w", context.Cause(ctx))
		}
		info, err := seg.f.Stat()
		if err != nil {
			return nil, fmt.Errorf("deadletter: %w", err)
		}
		s, err := seg.read(0, info.Size(), func(e *entry, at place, line []byte) {
			if what := wrongPayload(e, line); what != "" {
				out = append(out, Damage{File: filepath.Base(seg.path), Offset: at.off, Bytes: int64(at.n), What: what})
			}
		})
		if err != nil {
			return nil, fmt.Errorf("deadletter: verify %s: %w", seg.path, err)
		}
		out = append(out, s.damage...)
		if i < len(segs)-1 {
			out = append(out, s.tail...)
		}
	}
	list, err := j.fsys.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("deadletter: %w", err)
	}
	for _, e := range list {
		what := ""
		switch {
		case strings.Contains(e.Name(), tornMark):
			what = "an unfinished tail that was cut off"
		case strings.HasSuffix(e.Name(), segSuffix+".damaged"):
			what = "a segment with damaged lines that was compacted"
		default:
			continue
		}
		var size int64
		if info, err := e.Info(); err == nil {
			size = info.Size()
		}
		out = append(out, Damage{File: e.Name(), Bytes: size, What: what})
	}
	return out, nil
}

// wrongPayload says what is wrong with the payload of a line whose checksum is
// right.
func wrongPayload(e *entry, line []byte) string {
	if e.Op != opPut {
		return ""
	}
	_, text := split(line[:len(line)-tailLen])
	if len(text) == 0 && e.Rec.PayloadSize == 0 {
		return ""
	}
	p, err := base64.StdEncoding.AppendDecode(nil, bytes.Clone(text))
	if err != nil {
		return "payload is not base64"
	}
	sum := sha256.Sum256(p)
	if hex.EncodeToString(sum[:]) != e.Rec.PayloadHash {
		return "payload does not match its hash"
	}
	return ""
}
