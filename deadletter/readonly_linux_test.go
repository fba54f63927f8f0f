package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nightfuse/nightfuse/deadletter"
)

// childReadOnlyDisk opens a journal on a disk that may be read only.
func childReadOnlyDisk(args []string) error {
	mounted(args[0])
	dir := filepath.Join(args[0], "letters")
	j, err := deadletter.OpenJournal(dir)
	if err != nil {
		return err
	}
	if err := j.Put(context.Background(), deadletter.Record{Queue: "q", ItemID: "a", Payload: payloadOf("a", 3000)}); err != nil {
		return err
	}
	if err := j.Close(); err != nil {
		return err
	}
	// A tail that a crash has left, and that cannot be mended here.
	if err := appendTo(segment(dir, 1), `{"v":1,"op":"put"`); err != nil {
		return err
	}
	if err := syscall.Mount("", args[0], "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		notHere("remount read-only", err)
	}
	if _, err := deadletter.OpenJournal(dir); !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("opened for writing: %w, want EROFS", err)
	}
	if _, err := deadletter.OpenJournal(filepath.Join(args[0], "new")); !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("a new one: %w, want EROFS", err)
	}
	r, err := deadletter.StoreConfig{ReadOnly: true}.Journal(dir)
	if err != nil {
		return fmt.Errorf("opened for reading: %w", err)
	}
	defer r.Close()
	return errors.Join(outcome{"a": true}.check(r, 3000), lostBy(r, 3000, deadletter.ErrReadOnly))
}

// childReadOnlyFolder writes as a user for whom modes count, in a folder that
// takes no new file from some moment on.
func childReadOnlyFolder(args []string) error {
	dir := filepath.Join(args[0], "letters")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if os.Getuid() == 0 {
		const nobody = 65534
		for p := dir; p != filepath.Clean(os.TempDir()) && p != "/"; p = filepath.Dir(p) {
			if err := os.Chown(p, nobody, nobody); err != nil {
				return err
			}
		}
		for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)} {
			if err != nil {
				notHere("become another user", err)
			}
		}
	}
	c := deadletter.StoreConfig{Segment: 8 << 10}
	j, err := c.Journal(dir)
	if err != nil {
		return err
	}
	const size = 3000
	o := outcome{}
	if err := j.Put(context.Background(), deadletter.Record{Queue: "q", ItemID: "first", Payload: payloadOf("first", size)}); err != nil {
		return err
	}
	o["first"] = true
	if err := os.Chmod(dir, 0o500); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "probe"), nil, 0o600); !errors.Is(err, fs.ErrPermission) {
		notHere("take the right to write", fmt.Errorf("%w", err))
	}
	// The file in use may grow, a new one may not be made.
	if err := o.fillUp(j, "fills", size); !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w, want a refusal for want of permission", err)
	}
	if n := len(o); n < 3 {
		return fmt.Errorf("only %d letters before the refusal", n)
	}
	if err := errors.Join(o.check(j, size), lostBy(j, size, fs.ErrPermission)); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	for range 2 {
		if err := j.Put(context.Background(), deadletter.Record{Queue: "q", ItemID: "after", Payload: payloadOf("after", size)}); err != nil {
			return fmt.Errorf("with the right again: %w", err)
		}
		o["after"] = true
		if err := o.check(j, size); err != nil {
			return err
		}
		if err := j.Close(); err != nil {
			return err
		}
		if j, err = c.Journal(dir); err != nil {
			return err
		}
	}
	return j.Close()
}
