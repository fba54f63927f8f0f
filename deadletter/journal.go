package deadletter

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/nightfuse/nightfuse/internal/durable"
)

const lockName = "LOCK"

// Journal is a [Store] in a directory: append-only files of JSON lines that
// grep and jq can read while a batch writes them. Every change is on the disk
// before it is answered; changes that come together share one sync. Several
// processes of one host may use the directory at once, each taking its lock for
// the moment of a commit. Keep it on a local disk: a network file system may
// not lock between hosts.
//
// Its methods are safe for concurrent use.
type Journal struct {
	cfg  StoreConfig
	fsys durable.FS
	dir  string

	lock *durable.Lock // nil when reading only
	peek durable.File  // the lock file of a reader
	self note          // what this journal writes there

	mu      sync.Mutex
	ix      *index
	files   *files
	end     int64 // what is read of the last segment
	noFeed  bool  // the line before end lacks its line feed
	size    int64 // bytes of all segments
	note    note  // as read or written last
	raw     []byte
	damage  []Damage
	torn    int
	stale   bool // read everything again
	writing bool // a commit is on its way to the disk
	failed  error
	closed  bool
	retryAt int64 // size at which a failed compaction is tried again

	q       sync.Mutex
	wake    *sync.Cond
	pending []*commit
	leading bool
	shared  bool // the last commit was for several
	buf     []byte
}

// OpenJournal opens the journal in dir, making the directory (mode 0700) and
// its files (0600) as needed, and mends what a crash has left: an unfinished
// last line is moved to a file of its own and cut off. Damaged lines in the
// middle are left where they are, reported in [Summary] and by
// [Journal.Verify]; the lines behind them count.
func OpenJournal(dir string) (*Journal, error) { return StoreConfig{}.Journal(dir) }

// Journal opens the journal in dir, as [OpenJournal] does. The error names
// every field that is out of range, or what is wrong with the directory.
func (c StoreConfig) Journal(dir string) (*Journal, error) {
	return openJournal(durable.OS, c, dir)
}

func openJournal(fsys durable.FS, c StoreConfig, dir string) (*Journal, error) {
	errs := c.check()
	if dir == "" {
		errs = errors.Join(errs, errors.New("deadletter: a journal needs a directory"))
	}
	if errs != nil {
		return nil, errs
	}
	j := &Journal{cfg: c.filled(), fsys: fsys, dir: dir, stale: true}
	j.wake = sync.NewCond(&j.q)
	if c.ReadOnly {
		if _, err := fsys.Stat(dir); err != nil {
			return nil, fmt.Errorf("deadletter: open journal: %w", err)
		}
		return j, j.opened(j.catchUp(false))
	}
	if err := ownDir(fsys, dir); err != nil {
		return nil, fmt.Errorf("deadletter: open journal: %w", err)
	}
	lock, err := durable.OpenLock(fsys, j.path(lockName))
	if err != nil {
		return nil, fmt.Errorf("deadletter: open journal: %w", err)
	}
	j.lock, j.self = lock, newNote(rand.Text(), j.cfg.Clock.Now())
	return j, j.opened(j.locked(func() error {
		j.mu.Lock()
		err := j.catchUp(true)
		j.mu.Unlock()
		if err == nil {
			j.maybeCompact()
		}
		return err
	}))
}

// opened closes a journal whose opening failed.
func (j *Journal) opened(err error) error {
	if err != nil {
		_ = j.Close()
	}
	return err
}

func (j *Journal) path(name string) string { return filepath.Join(j.dir, name) }

// ownDir makes dir, or makes sure that nobody else can look into it.
func ownDir(fsys durable.FS, dir string) error {
	if err := fsys.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if fsys != durable.OS || runtime.GOOS == "windows" {
		return nil // modes say nothing there
	}
	info, err := fsys.Stat(dir)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Name() != lockName && !strings.HasPrefix(e.Name(), segPrefix) {
			return fmt.Errorf("%s has mode %04o and holds other files: a journal needs a directory of its own with mode 0700",
				dir, info.Mode().Perm())
		}
	}
	return os.Chmod(dir, info.Mode().Perm()&^0o077)
}

// locked runs fn under the directory's lock.
func (j *Journal) locked(fn func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), j.cfg.LockWait)
	err := j.lock.Lock(ctx)
	cancel()
	if err != nil {
		if errors.Is(err, durable.ErrLocked) {
			return fmt.Errorf("%w: %w", ErrLocked, err)
		}
		return fmt.Errorf("deadletter: %w", err)
	}
	defer func() { _ = j.lock.Unlock() }()
	return fn()
}

// Close ends the use of the journal. Changes that are on their way are
// finished; iterations that go on keep their files.
func (j *Journal) Close() error {
	j.q.Lock()
	for j.leading {
		j.wake.Wait()
	}
	j.mu.Lock()
	was := j.closed
	j.closed = true
	fs := j.files
	j.files = nil
	j.mu.Unlock()
	j.q.Unlock()
	if was {
		return nil
	}
	var errs []error
	if fs != nil {
		errs = append(errs, j.unpin(fs))
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Close())
	}
	if j.peek != nil {
		errs = append(errs, j.peek.Close())
	}
	return errors.Join(errs...)
}

// Put is [Writer]: it returns when the letter is on the disk.
func (j *Journal) Put(ctx context.Context, r Record) error {
	if err := j.cfg.fits(r); err != nil {
		return err
	}
	now := j.cfg.Clock.Now()
	r = prepared(r, now)
	payload := appendPayload(nil, r.Payload)
	r.Payload = nil
	// Encoding here, not in the commit, keeps 32 writers busy while one syncs.
	line, err := encodeHead(&entry{V: 1, Op: opPut, At: norm(now), ID: r.ID, Rec: &r})
	if err != nil {
		return err
	}
	return j.change(ctx, len(line)+len(payload), func(t *tx) error { return t.put(r, line, payload) })
}

// Claim is [Claimer].
func (j *Journal) Claim(ctx context.Context, req ClaimReq) ([]Claim, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	var got []*letter
	var fs *files
	err := j.change(ctx, 0, func(t *tx) (err error) {
		got, err = t.claim(req.filled())
		fs = j.files
		fs.pins++
		return err
	})
	if fs != nil {
		defer func() { _ = j.unpin(fs) }()
	}
	if err != nil {
		return nil, err
	}
	out := make([]Claim, 0, len(got))
	var errs []error
	for _, l := range got {
		tok := Token{ID: l.id, Seq: l.seq}
		r, err := j.whole(l, time.Time{})
		if err != nil {
			// It cannot be replayed: out of the way with it, but not away.
			err = errors.Join(err, j.Resolve(ctx, tok, Outcome{Verb: Quarantine, Reason: "cannot be read: " + err.Error()}))
			j.cfg.Logger.Error("deadletter: letter cannot be read", "id", l.id, "error", err)
			errs = append(errs, err)
			continue
		}
		out = append(out, Claim{Record: r, Token: tok})
	}
	if len(out) == 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// Extend is [Claimer].
func (j *Journal) Extend(ctx context.Context, tok Token, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("deadletter: a lease of %v", d)
	}
	return j.change(ctx, 0, func(t *tx) error { return t.extend(tok, d) })
}

// Resolve is [Claimer].
func (j *Journal) Resolve(ctx context.Context, tok Token, o Outcome) error {
	if err := o.check(); err != nil {
		return err
	}
	return j.change(ctx, 0, func(t *tx) error { return t.resolve(tok, o) })
}

// Purge is [Claimer]. What was purged is gone from the disk as well: a
// compaction follows.
func (j *Journal) Purge(ctx context.Context, f Filter) (n int, err error) {
	err = j.change(ctx, 0, func(t *tx) (err error) {
		n, err = t.purge(f)
		return err
	})
	if err != nil {
		return 0, err
	}
	if n > 0 {
		err = j.Compact(ctx)
	}
	return n, err
}
