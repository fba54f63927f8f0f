package batch

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"time"
	"unicode/utf8"
)

// listed is an item as it comes from the caller, with what earlier runs made of
// it.
type listed struct {
	entry *entry
	fate  fate // pending, or done or dead before
	twice bool // its id came before
	err   error
}

// source reads the items in a goroutine of its own, so that an iterator that
// blocks does not keep the run from hearing signals.
type source struct {
	out  chan listed   // closed at the end
	quit chan struct{} // closed: nobody listens any more

	// Set before out is closed: the list came to its end, or what the iterator
	// panicked with.
	whole    bool
	panicked any
	stack    []byte
}

// errListEnded says that there may be more items.
var errListEnded = errors.New("batch: the items' iterator, Results or Validate has ended the goroutine that reads the items (runtime.Goexit, as t.FailNow does)")

// noID says that an item has no name.
type noID int64

func (n noID) Error() string { return fmt.Sprintf("batch: item %d has no ID", int64(n)) }

func (r *run) read(ctx context.Context, items iter.Seq[Item]) *source {
	s := &source{out: make(chan listed), quit: make(chan struct{})}
	go func() {
		defer close(s.out)
		defer func() {
			if p := recover(); p != nil {
				s.panicked, s.stack = p, debug.Stack()
			}
		}()
		seen := seenIDs{one: maphash.MakeSeed(), two: maphash.MakeSeed(), ids: map[[2]uint64]struct{}{}}
		n := int64(0)
		for it := range items {
			n++
			l := listed{twice: !seen.first(it.ID)}
			if !l.twice {
				l.entry = newEntry(it, n)
				l.fate, l.err = r.sort(ctx, l.entry)
				if l.fate == pending {
					// The iterator may use the memory again for its next item.
					l.entry.it.Input, l.entry.it.Labels = slices.Clone(it.Input), maps.Clone(it.Labels)
				}
			}
			select {
			case s.out <- l:
			case <-s.quit:
				return
			}
		}
		s.whole = true
	}()
	return s
}

// leaveSource ends the source. An iterator that blocks is given a moment, and
// then left behind: it ends with its next item.
func (l *loop) leaveSource() {
	close(l.src.quit)
	patience := l.cfg.Clock.After(time.Second)
	for {
		select {
		case _, ok := <-l.src.out:
			if !ok {
				return
			}
		case <-patience:
			return
		}
	}
}

// sort finds out whether an earlier run is done with the item. It runs beside
// the loop.
func (r *run) sort(ctx context.Context, e *entry) (fate, error) {
	if e.it.ID == "" {
		return pending, noID(e.seq)
	}
	if !utf8.ValidString(e.it.ID) {
		// Neither a letter nor a result keeps such a name: it would be done again
		// each time, and a replay would take two of them for one.
		e.it.Bad = errors.Join(fmt.Errorf("the id %q is not UTF-8", e.it.ID), e.it.Bad)
	}
	if e.it.Bad == nil {
		var (
			res Result
			ok  bool
			err error
		)
		guarded(func() { res, ok, err = r.results.Load(context.WithoutCancel(ctx), e.it.ID) }, func(broke error) { err = broke })
		if err != nil {
			return pending, err
		}
		if ok && res.InputHash == e.hash && res.Version == r.cfg.Version && r.valid(e.it, res.Data) == nil {
			return done, nil
		}
	}
	was, known := r.known[asText(e.it.ID)]
	e.old = known
	if known && !r.cfg.Again && was == letterOf(e.labels(r.cfg.Version)) {
		return dead, nil
	}
	return pending, nil
}

// seenIDs knows the ids of a run by 128 bits each: a million are some 40 MB.
type seenIDs struct {
	one, two maphash.Seed
	ids      map[[2]uint64]struct{}
}

func (s *seenIDs) first(id string) bool {
	k := [2]uint64{maphash.String(s.one, id), maphash.String(s.two, id)}
	_, again := s.ids[k]
	s.ids[k] = struct{}{}
	return !again
}
