package deadletter

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// view returns the letters as they are now and the files they stand in, which
// the caller gives back to unpin.
func (j *Journal) view(ctx context.Context, look func(*index)) (*files, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("deadletter: %w", context.Cause(ctx))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, ErrClosed
	}
	if !j.writing {
		if err := j.catchUp(false); err != nil {
			return nil, err
		}
	}
	look(j.ix)
	j.files.pins++
	return j.files, nil
}

func (j *Journal) unpin(fs *files) error {
	j.mu.Lock()
	fs.pins--
	last := fs.pins == 0
	j.mu.Unlock()
	if last {
		return fs.close()
	}
	return nil
}

// record reads the record of l, without its payload.
func (j *Journal) record(l *letter) (Record, error) {
	b := make([]byte, l.head.head, l.head.head+1)
	if _, err := l.head.seg.f.ReadAt(b, l.head.off); err != nil {
		return Record{}, fmt.Errorf("deadletter: letter %s: %w", l.id, err)
	}
	r, err := decodeHead(b, l.head.sum)
	if err != nil {
		return Record{}, fmt.Errorf("letter %s in %s at offset %d: %w", l.id, l.head.seg.path, l.head.off, err)
	}
	return r, nil
}

// line reads the line at a place.
func (j *Journal) line(at place) ([]byte, error) {
	b := make([]byte, at.n)
	if _, err := at.seg.f.ReadAt(b, at.off); err != nil {
		return nil, fmt.Errorf("deadletter: %w", err)
	}
	return b, nil
}

// whole reads the record of l with its payload, as it is at now.
func (j *Journal) whole(l *letter, now time.Time) (Record, error) {
	r, err := j.record(l)
	if err != nil {
		return Record{}, err
	}
	l.overlay(&r, now)
	if l.size == 0 {
		return r, nil
	}
	line, err := j.line(l.body)
	if err == nil {
		r.Payload, err = decodePayload(line)
	}
	if err == nil && int64(len(r.Payload)) != l.size {
		err = fmt.Errorf("%w: payload of %d bytes instead of %d", ErrCorrupt, len(r.Payload), l.size)
	}
	if err != nil {
		return Record{}, fmt.Errorf("letter %s in %s at offset %d: %w", l.id, l.body.seg.path, l.body.off, err)
	}
	return r, nil
}

// Get is [Reader].
func (j *Journal) Get(ctx context.Context, id string) (Record, error) {
	var l *letter
	fs, err := j.view(ctx, func(ix *index) { l = ix.letters[id] })
	if err != nil {
		return Record{}, err
	}
	defer func() { _ = j.unpin(fs) }()
	if l == nil {
		return Record{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return j.whole(l, j.cfg.Clock.Now())
}

// List is [Reader]. It takes no lock, and the files it reads stay readable
// until the iteration ends.
func (j *Journal) List(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		now := j.cfg.Clock.Now()
		var found []*letter
		fs, err := j.view(ctx, func(ix *index) { found = ix.find(f, unresolved, now) })
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer func() { _ = j.unpin(fs) }()
		for _, l := range found {
			if ctx.Err() != nil {
				yield(Record{}, fmt.Errorf("deadletter: %w", context.Cause(ctx)))
				return
			}
			r, err := j.record(l)
			if err == nil {
				l.overlay(&r, now)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// Stats is [Reader].
func (j *Journal) Stats(ctx context.Context, f Filter) (Summary, error) {
	var s Summary
	fs, err := j.view(ctx, func(ix *index) {
		s = ix.sum(f, j.cfg.Clock.Now())
		s.Disk, s.Corrupt, s.Torn = j.size, len(j.damage), j.torn
	})
	if err != nil {
		return Summary{}, err
	}
	return s, j.unpin(fs)
}
