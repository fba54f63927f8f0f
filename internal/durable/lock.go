package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"
)

// The waits between two looks at a lock that somebody else holds.
const (
	lockFirstWait = 20 * time.Microsecond
	lockLastWait  = 5 * time.Millisecond
)

// ErrLocked is the sentinel of [LockedError].
var ErrLocked = errors.New("durable: locked")

// Holder is who holds a lock, as far as the lock file says so.
type Holder struct {
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Start time.Time `json:"start"` // when the lock was taken
}

// LockedError says that a lock was not to be had. It is [ErrLocked], and
// unwraps to the cause of the context that ended the wait, if one did.
type LockedError struct {
	Path   string
	Holder Holder // zero when the lock file does not say
	Cause  error  // nil from TryLock
}

func (e *LockedError) Error() string {
	text := "durable: " + e.Path + " is held by another process or caller"
	if e.Holder.PID != 0 {
		text = fmt.Sprintf("durable: %s is held by host %s, pid %d, since %s",
			e.Path, e.Holder.Host, e.Holder.PID, e.Holder.Start.UTC().Format(time.RFC3339))
	}
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Is reports whether target is [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// Unwrap returns the cause of the ended context, or nil.
func (e *LockedError) Unwrap() error { return e.Cause }

// Lock is an exclusive lock on a lock file: between processes by the system's
// lock, which ends with the process, and between the users of this Lock. Two
// Locks on one path exclude each other as well, in one process too. Safe for
// concurrent use.
//
// The lock file is created and then stays: deleting or renaming it would give
// two holders. Its content belongs to the caller.
type Lock struct {
	file   File
	turn   chan struct{} // holds one element while this Lock is held
	signed bool          // the file says who holds it; guarded by turn
}

// OpenLock opens the lock file at path, creating it with mode 0600 if it is
// missing, without taking the lock. nil fsys is [OS].
func OpenLock(fsys FS, path string) (*Lock, error) {
	f, err := orOS(fsys).OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("durable: open lock file: %w", err)
	}
	return &Lock{file: f, turn: make(chan struct{}, 1)}, nil
}

// TryLock takes the lock at path for the life of the program or until
// [Lock.Close], without waiting, and writes host, pid and time into the file
// for whoever is refused. When somebody else has it the error is a
// [*LockedError] naming the holder. nil fsys is [OS].
func TryLock(fsys FS, path string) (*Lock, error) {
	l, err := OpenLock(fsys, path)
	if err != nil {
		return nil, err
	}
	ok, err := l.file.TryLock()
	if err == nil && !ok {
		err = &LockedError{Path: path, Holder: l.holder()}
	}
	if err == nil {
		l.turn <- struct{}{}
		err = l.sign()
	}
	if err != nil {
		_ = l.file.Close()
		return nil, err
	}
	return l, nil
}

// Lock waits for the lock, in real time, until ctx ends; then the error is a
// [*LockedError]. It looks again after 20 microseconds to 5 milliseconds, so
// there is no queue between processes; the users of one Lock are served in the
// order they came.
func (l *Lock) Lock(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("durable: lock %s: %w", l.file.Name(), context.Cause(ctx))
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return l.refused(ctx)
	}
	for wait := lockFirstWait; ; wait = min(2*wait, lockLastWait) {
		ok, err := l.file.TryLock()
		if ok {
			return nil
		}
		if err != nil {
			<-l.turn
			return fmt.Errorf("durable: %w", err)
		}
		// Half of the wait is random, so that processes do not stay in step.
		t := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			<-l.turn
			return l.refused(ctx)
		}
	}
}

// Unlock gives the lock back. Only its holder may call it.
func (l *Lock) Unlock() error {
	var err error
	if l.signed {
		l.signed = false
		err = l.file.Truncate(0)
	}
	err = errors.Join(err, l.file.Unlock())
	<-l.turn
	return err
}

// File is the lock file itself, for content that the lock guards. Reading and
// writing it is up to the lock's holder; closing it is up to Close.
func (l *Lock) File() File { return l.file }

// Close ends the lock, if it is held, and closes the file. Nobody may be waiting
// in Lock; afterwards Lock and Unlock fail.
func (l *Lock) Close() error {
	var err error
	if l.signed {
		l.signed = false
		// Closing the file would end the system's lock too, but not while a
		// process that is being started holds a copy of the descriptor: until
		// its exec the lock would look held, by nobody.
		err = errors.Join(l.file.Truncate(0), l.file.Unlock())
	}
	return errors.Join(err, l.file.Close())
}

func (l *Lock) refused(ctx context.Context) error {
	return &LockedError{Path: l.file.Name(), Holder: l.holder(), Cause: context.Cause(ctx)}
}

// sign writes who holds the lock. No sync: after a power cut nobody holds it.
func (l *Lock) sign() error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	text, err := json.Marshal(Holder{Host: host, PID: os.Getpid(), Start: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = l.file.Truncate(0)
	}
	if err == nil {
		_, err = l.file.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		return fmt.Errorf("durable: write the holder into %s: %w", l.file.Name(), err)
	}
	l.signed = true
	return nil
}

// holder reads what another process wrote; an unreadable text is no holder.
func (l *Lock) holder() Holder {
	var buf [1024]byte
	n, err := l.file.ReadAt(buf[:], 0)
	var h Holder
	if (err != nil && !errors.Is(err, io.EOF)) || json.Unmarshal(buf[:n], &h) != nil {
		return Holder{}
	}
	return h
}
