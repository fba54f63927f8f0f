package durable_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// The crash tests run this test binary again as another process: childEnv
// names what it does, its arguments follow behind "--".
const childEnv = "NIGHTFUSE_DURABLE_CHILD"

var children = map[string]func(args []string) error{
	"count":   childCount,
	"replace": childReplace,
	"hold":    childHold,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		args := os.Args
		for i, a := range args {
			if a == "--" {
				args = args[i+1:]
				break
			}
		}
		if err := children[role](args); err != nil {
			fmt.Fprintln(os.Stderr, role, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child starts role in another process; lines is what it prints.
func child(t *testing.T, role string, args ...string) (cmd *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.CommandContext(t.Context(), exe, append([]string{"--"}, args...)...)
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// childCount adds 1 to a counter in slots, args[1] times, and prints each
// number that is safely stored.
func childCount(args []string) error {
	times, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	s, err := durable.OpenSlots(context.Background(), nil, args[0])
	if err != nil {
		return err
	}
	for range times {
		n, err := increment(context.Background(), s, 0)
		if err != nil {
			return err
		}
		fmt.Println(n)
	}
	return s.Close()
}

// childReplace replaces a file by one whose every line is the same number, and
// prints each number that is safely stored.
func childReplace(args []string) error {
	for n := 1; ; n++ {
		line := strconv.Itoa(n) + "\n"
		if err := durable.WriteFile(nil, filepath.Join(args[0], "state"), []byte(strings.Repeat(line, 2000)), 0o600); err != nil {
			return err
		}
		fmt.Print(line)
	}
}

// childHold takes a lock for its life and says so; only a kill ends it.
func childHold(args []string) error {
	if _, err := durable.TryLock(nil, args[0]); err != nil {
		return err
	}
	fmt.Println("held")
	// A listener nobody knows: a wait that no dead-lock detector ends.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	_, err = l.Accept()
	return err
}

// increment adds 1 to the counter in s and returns the new number. The value is
// the number repeated, with pad bytes more, so that a torn one shows.
func increment(ctx context.Context, s *durable.Slots, pad int) (n uint64, err error) {
	err = s.Update(ctx, func(old []byte) ([]byte, error) {
		if n, err = number(old); err != nil {
			return nil, err
		}
		n++
		return numberValue(n, pad), nil
	})
	return n, err
}

func numberValue(n uint64, pad int) []byte {
	var data []byte
	for len(data) < 8+pad {
		data = binary.BigEndian.AppendUint64(data, n)
	}
	return data
}

// number is the inverse of numberValue; nil is 0.
func number(data []byte) (uint64, error) {
	if data == nil {
		return 0, nil
	}
	if len(data) == 0 || len(data)%8 != 0 {
		return 0, fmt.Errorf("a value of %d bytes", len(data))
	}
	n := binary.BigEndian.Uint64(data)
	for at := 0; at < len(data); at += 8 {
		if m := binary.BigEndian.Uint64(data[at:]); m != n {
			return 0, fmt.Errorf("torn value: %d at 0, %d at %d", n, m, at)
		}
	}
	return n, nil
}
