package deadletter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
)

// maxBatch bounds how many bytes wait for one sync.
const maxBatch = 32 << 20

// errAborted is the answer of a commit whose leader was torn away by a panic
// or runtime.Goexit. What it wrote is found by the next commit.
var errAborted = errors.New("deadletter: commit was aborted: the change may have been made")

// commit is one change that waits to be made durable.
type commit struct {
	plan  func(*tx) error
	bytes int
	done  bool
	err   error
}

// change makes one change durable together with those that wait meanwhile.
// There is no goroutine for it: the first caller leads, writing and syncing for
// all that have come; the others wait, and one of them leads next.
func (j *Journal) change(ctx context.Context, size int, plan func(*tx) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("deadletter: %w", context.Cause(ctx))
	}
	if j.cfg.ReadOnly {
		return ErrReadOnly
	}
	if j.isClosed() {
		return ErrClosed
	}
	c := &commit{plan: plan, bytes: size}
	j.q.Lock()
	j.pending = append(j.pending, c)
	for !c.done {
		if j.leading {
			j.wake.Wait()
			continue
		}
		j.leading = true
		j.gather()
		batch := j.take()
		j.q.Unlock()
		j.lead(batch)
		j.q.Lock()
	}
	j.q.Unlock()
	return c.err
}

func (j *Journal) isClosed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.closed
}

// gather lets those that the last commit has woken come along, when it had
// several: else every second sync would be for one alone. j.q is held, but not
// throughout.
func (j *Journal) gather() {
	for n := 0; j.shared && n < len(j.pending); {
		n = len(j.pending)
		j.q.Unlock()
		runtime.Gosched()
		j.q.Lock()
	}
}

// take returns the commits of the next batch.
func (j *Journal) take() []*commit {
	n, bytes := 0, 0
	for n < len(j.pending) && (n == 0 || bytes+j.pending[n].bytes <= maxBatch) {
		bytes += j.pending[n].bytes
		n++
	}
	j.shared = n > 1
	batch := j.pending[:n:n]
	j.pending = j.pending[n:]
	return batch
}

// lead makes the changes of batch and gives the lead back, whatever happens.
func (j *Journal) lead(batch []*commit) {
	answered := false
	answer := func(err error) {
		answered = true
		j.q.Lock()
		for _, c := range batch {
			if c.err == nil {
				c.err = err
			}
			c.done = true
		}
		j.wake.Broadcast()
		j.q.Unlock()
	}
	defer func() {
		if !answered {
			j.mu.Lock()
			j.stale, j.writing = true, false
			j.mu.Unlock()
			answer(errAborted)
		}
		j.q.Lock()
		j.leading = false
		j.wake.Broadcast()
		j.q.Unlock()
	}()
	err := j.locked(func() error {
		err := j.commit(batch)
		answer(err)
		if err == nil {
			j.maybeCompact()
		}
		return err
	})
	if !answered {
		answer(err)
	}
}

// commit plans, writes and syncs batch, under the directory's lock. The index
// changes only when all of it is on the disk.
func (j *Journal) commit(batch []*commit) error {
	t, err := j.plan(batch)
	if err != nil {
		return err
	}
	if len(j.buf) > 0 {
		err = j.write(t)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writing = false
	if err != nil {
		return err
	}
	for id, l := range t.over {
		j.ix.set(id, l)
	}
	j.ix.seq = max(j.ix.seq, t.seq)
	j.end += int64(len(j.buf))
	j.size += int64(len(j.buf))
	if cap(j.buf) > 1<<20 {
		j.buf = nil
	}
	return nil
}

// plan brings the index up to date and runs the changes on top of it. From
// here until commit ends, readers of this journal see it as it is now.
func (j *Journal) plan(batch []*commit) (*tx, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.closed:
		return nil, ErrClosed
	case j.failed != nil:
		return nil, j.failed
	}
	if err := j.catchUp(true); err != nil {
		return nil, err
	}
	if last := j.files.last(); last == nil || j.end >= j.cfg.Segment {
		if err := j.roll(); err != nil {
			return nil, err
		}
	}
	if j.note.By != j.self.By || j.note.Seg != j.files.last().num {
		if err := j.writeNote(j.note.Gen, j.files.last().num); err != nil {
			return nil, err
		}
	}
	j.buf = j.buf[:0]
	t := &tx{
		ix: j.ix, over: map[string]*letter{}, seq: j.ix.seq, now: j.cfg.Clock.Now(),
		load:  j.recent,
		write: j.appendEntry,
	}
	for _, c := range batch {
		had := len(j.buf)
		if c.err = t.run(c.plan); c.err != nil {
			j.buf = j.buf[:had]
		}
	}
	j.writing = len(j.buf) > 0
	return t, nil
}

// recent is record also for a letter of the batch in hand.
func (j *Journal) recent(l *letter) (Record, error) {
	if from := l.head.off - j.end; l.head.seg == j.files.last() && from >= 0 {
		return decodeHead(bytes.Clone(j.buf[from:from+int64(l.head.head)]), l.head.sum)
	}
	return j.record(l)
}

// appendEntry appends e to the batch. line and payload are its parts if they
// are known.
func (j *Journal) appendEntry(e *entry, line, payload []byte) (place, error) {
	had := len(j.buf)
	if line == nil {
		var err error
		if line, err = encodeHead(e); err != nil {
			return place{}, err
		}
	}
	j.buf = appendLine(j.buf, line, payload)
	return placeOf(j.files.last(), j.end+int64(had), j.buf[had:len(j.buf)-1], len(line)), nil
}

// write puts the batch on the disk.
func (j *Journal) write(t *tx) error {
	last := j.files.last()
	if _, err := last.f.WriteAt(j.buf, j.end); err != nil {
		// A full disk, most likely. What was written is cut off now if
		// possible, else by the next commit, which finds it behind the end.
		_ = j.cut(last, j.end)
		return fmt.Errorf("deadletter: write: %w", err)
	}
	err := last.f.Sync()
	if err == nil {
		return nil
	}
	// The kernel may have dropped the pages and called them clean, so syncing
	// this file again proves nothing: the batch goes into another one.
	j.cfg.Logger.Error("deadletter: sync failed, going on in a new segment", "file", last.path, "error", err)
	_ = j.cut(last, j.end)
	if err2 := j.moveOn(t); err2 != nil {
		err = fmt.Errorf("%w: %w", ErrStoreFailed, errors.Join(err, err2))
		j.mu.Lock()
		j.failed, j.stale = err, true
		j.mu.Unlock()
		return err
	}
	return nil
}

// moveOn writes the batch into a new segment and moves what t planned there.
func (j *Journal) moveOn(t *tx) error {
	j.mu.Lock()
	old, from := j.files.last(), j.end
	err := j.roll()
	now := j.files.last()
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if _, err := now.f.WriteAt(j.buf, 0); err != nil {
		return err
	}
	if err := now.f.Sync(); err != nil {
		return err
	}
	for _, l := range t.over {
		if l == nil {
			continue
		}
		for _, p := range []*place{&l.head, &l.body} {
			if p.seg == old && p.off >= from {
				p.seg, p.off = now, p.off-from
			}
		}
	}
	return nil
}
