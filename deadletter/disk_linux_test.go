package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
)

// What a real kernel says of a full disk, a file that may not grow and a folder
// that may not be written, where a process of its own can be shown one.

func init() {
	children["full disk"] = childFullDisk
	children["read-only disk"] = childReadOnlyDisk
	children["read-only folder"] = childReadOnlyFolder
	children["file limit"] = childFileLimit
}

// skipCode is how a child says that this machine does not let it.
const skipCode = 77

// notHere ends a child that cannot do what it is for.
func notHere(what string, err error) {
	fmt.Fprintln(os.Stderr, what+":", err)
	os.Exit(skipCode)
}

// TestRealDisks runs each child in a mount namespace of its own, which only root
// and, where they are allowed, user namespaces may have.
func TestRealDisks(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"full disk", "read-only disk", "read-only folder", "file limit"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), exe, t.TempDir())
			cmd.Env = append(os.Environ(), childEnv+"="+role)
			cmd.SysProcAttr = &syscall.SysProcAttr{}
			if strings.HasSuffix(role, " disk") {
				cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS // with all mounts private
				if os.Getuid() != 0 {
					cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
					cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
					cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
				}
			}
			out, err := cmd.CombinedOutput()
			var ended *exec.ExitError
			switch {
			case err == nil:
			case errors.As(err, &ended) && ended.ExitCode() == skipCode:
				t.Skipf("not permitted here: %s", out)
			case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EINVAL):
				t.Skipf("no namespaces here: %v", err) // ENOSPC: the user may have no more of them
			default:
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// outcome is what a child has put, and which of it was acknowledged.
type outcome map[string]bool

// fillUp puts letters of size bytes until one is refused, and returns why.
func (o outcome) fillUp(j *deadletter.Journal, prefix string, size int) error {
	for i := range 10_000 {
		item := fmt.Sprint(prefix, "-", i)
		err := j.Put(context.Background(), deadletter.Record{Queue: "q", ItemID: item, Payload: payloadOf(item, size)})
		o[item] = err == nil
		if err != nil {
			return err
		}
	}
	return errors.New("there is always room")
}

// check reports letters that were acknowledged and are not there in full, and
// damage.
func (o outcome) check(j *deadletter.Journal, size int) error {
	for item, acked := range o {
		r, err := j.Get(context.Background(), deadletter.ID("q", item))
		switch {
		case !acked && errors.Is(err, deadletter.ErrNotFound):
		case err != nil:
			return fmt.Errorf("%s (acknowledged: %v): %w", item, acked, err)
		case !bytes.Equal(r.Payload, payloadOf(item, size)):
			return fmt.Errorf("%s came back with another payload", item)
		}
	}
	sum, err := j.Stats(context.Background(), deadletter.Filter{})
	if err == nil && sum.Corrupt > 0 {
		err = fmt.Errorf("%d damaged lines", sum.Corrupt)
	}
	return err
}

// lostBy puts an item through a queue, whose store must refuse it.
func lostBy(s deadletter.Store, size int, want error) error {
	q, err := deadletter.New(deadletter.Config{Name: "q", Store: s})
	if err != nil {
		return err
	}
	boom := errors.New("boom")
	err = q.Do(deadletter.WithItem(context.Background(), "lost"), payloadOf("lost", size), func(context.Context) error { return boom })
	var lost *deadletter.LostError
	if !errors.As(err, &lost) || !errors.Is(err, boom) || !errors.Is(err, want) || q.Stats().Lost != 1 || q.Stats().Dead != 0 {
		return fmt.Errorf("%w with %+v, want the failure, the loss and %w", err, q.Stats(), want)
	}
	return nil
}

// mounted mounts a small disk on dir.
func mounted(dir string) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=0700"); err != nil {
		notHere("mount a tmpfs", err)
	}
}

// childFullDisk fills a disk of 4 MiB, whatever the file is at that moment:
// every byte of the last page counts, so letters of several sizes do it.
func childFullDisk(args []string) error {
	mounted(args[0])
	for _, size := range []int{1, 700, 3000, 100_000} {
		dir := filepath.Join(args[0], fmt.Sprint("letters-", size))
		j, err := deadletter.OpenJournal(dir)
		if err != nil {
			return err
		}
		o := outcome{}
		for item := range 3 {
			name := fmt.Sprint("first-", item)
			if err := j.Put(context.Background(), deadletter.Record{Queue: "q", ItemID: name, Payload: payloadOf(name, size)}); err != nil {
				return err
			}
			o[name] = true
		}
		// Room for half a dozen letters or so, which is not a multiple of anything.
		ballast := filepath.Join(args[0], "ballast")
		if err := eat(ballast, 6*(size*4/3+1000)+123); err != nil {
			return err
		}
		for round := range 3 {
			if err := o.fillUp(j, fmt.Sprint("fills-", round), size); !errors.Is(err, syscall.ENOSPC) {
				return fmt.Errorf("%d bytes, round %d: %w, want ENOSPC", size, round, err)
			}
			if err := o.check(j, size); err != nil {
				return fmt.Errorf("%d bytes, while full: %w", size, err)
			}
		}
		if err := lostBy(j, max(size, 3000), syscall.ENOSPC); err != nil {
			return err
		}
		if err := j.Compact(context.Background()); err == nil && size > 10_000 {
			return errors.New("a compaction found room for a second copy")
		}
		// Another process ends in the middle of a line, and this one begins: there
		// is no room to set the tail aside, and nothing is lost.
		if err := j.Close(); err != nil {
			return err
		}
		if err := appendTo(segment(dir, 1), `{"v":1,"op":"put"`); err != nil && !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		if j, err = deadletter.OpenJournal(dir); err != nil {
			return fmt.Errorf("%d bytes, opened while full: %w", size, err)
		}
		if err := o.fillUp(j, "reopened", size); !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("%d bytes, opened while full: %w, want ENOSPC", size, err)
		}
		// Room again.
		if err := os.Remove(ballast); err != nil {
			return err
		}
		if err := j.Put(context.Background(), deadletter.Record{Queue: "q", ItemID: "after", Payload: payloadOf("after", size)}); err != nil {
			return fmt.Errorf("%d bytes, with room again: %w", size, err)
		}
		o["after"] = true
		for range 2 {
			if err := o.kept(j, size); err != nil {
				return fmt.Errorf("%d bytes, with room again: %w", size, err)
			}
			if err := j.Close(); err != nil {
				return err
			}
			if j, err = deadletter.OpenJournal(dir); err != nil {
				return err
			}
		}
		if err := j.Close(); err != nil {
			return err
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// kept is check where a tail without room may have become a damaged line.
func (o outcome) kept(j *deadletter.Journal, size int) error {
	for item, acked := range o {
		if !acked {
			continue
		}
		if r, err := j.Get(context.Background(), deadletter.ID("q", item)); err != nil || !bytes.Equal(r.Payload, payloadOf(item, size)) {
			return fmt.Errorf("%s was acknowledged: %w", item, err)
		}
	}
	return nil
}

// eat leaves room bytes of a disk.
func eat(path string, room int) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &s); err != nil {
		return err
	}
	n := int64(s.Bavail)*int64(s.Bsize) - int64(room)
	if n < 0 {
		return fmt.Errorf("only %d bytes are left", int64(s.Bavail)*int64(s.Bsize))
	}
	return os.WriteFile(path, make([]byte, n), 0o600)
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// childFileLimit lets no file grow beyond a size, as a quota does: the write that
// crosses it is cut short by the kernel.
func childFileLimit(args []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	const size = 3000
	for limit := uint64(20_000); limit < 24_000; limit += 397 {
		dir := filepath.Join(args[0], fmt.Sprint(limit))
		j, err := deadletter.OpenJournal(dir)
		if err != nil {
			return err
		}
		var was syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			return err
		}
		o := outcome{}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: was.Max}); err != nil {
			notHere("set a limit", err)
		}
		for range 2 {
			if err := o.fillUp(j, "fills", size); !errors.Is(err, syscall.EFBIG) {
				return fmt.Errorf("%w, want EFBIG", err)
			}
		}
		err = errors.Join(o.check(j, size), lostBy(j, size, syscall.EFBIG))
		if err2 := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil || err2 != nil {
			return errors.Join(err, err2)
		}
		if err := j.Put(context.Background(), deadletter.Record{Queue: "q", ItemID: "after", Payload: payloadOf("after", size)}); err != nil {
			return err
		}
		o["after"] = true
		for range 2 {
			if err := o.check(j, size); err != nil {
				return err
			}
			if err := j.Close(); err != nil {
				return err
			}
			if j, err = deadletter.OpenJournal(dir); err != nil {
				return err
			}
		}
		if err := j.Close(); err != nil {
			return err
		}
	}
	return nil
}
