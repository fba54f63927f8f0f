package deadletter_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// Children are processes of this test binary, so that they can be killed.

const (
	childEnv = "NIGHTFUSE_DEADLETTER_CHILD"
	// killsEnv asks for more kills than a normal run has time for.
	killsEnv = "NIGHTFUSE_DEADLETTER_KILLS"
)

var children = map[string]func(args []string) error{
	"write":  childWrite,
	"replay": childReplay,
	"hold":   childHold,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := children[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child starts a process of this binary and returns its standard output.
func child(t *testing.T, role string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
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

func kills(def int) int {
	if n, err := strconv.Atoi(os.Getenv(killsEnv)); err == nil {
		return n
	}
	return def
}

func payloadOf(item string, size int) []byte {
	return bytes.Repeat([]byte(item+"."), size/(len(item)+1)+1)[:size]
}

// childWrite puts letters PREFIX-0, PREFIX-1 ... and says each when it is safe.
func childWrite(args []string) error {
	dir, prefix := args[0], args[1]
	size, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	most, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	j, err := deadletter.OpenJournal(dir)
	if err != nil {
		return err
	}
	for i := range most {
		item := fmt.Sprint(prefix, "-", i)
		r := deadletter.Record{Queue: "q", ItemID: item, Payload: payloadOf(item, size)}
		if err := j.Put(context.Background(), r); err != nil {
			return err
		}
		fmt.Println(item)
	}
	return j.Close()
}

// childReplay sends letters by saying them, until there are none for a while.
func childReplay(args []string) error {
	j, err := deadletter.OpenJournal(args[0])
	if err != nil {
		return err
	}
	idle := 0
	for idle < 50 {
		rep, err := deadletter.Replay(context.Background(), j, func(_ context.Context, r deadletter.Record) error {
			// The upstream gets it, whatever happens to us then.
			_, err := fmt.Println(r.ItemID)
			return err
		}, deadletter.Options{Concurrency: 2, MaxReplays: -1, Lease: time.Hour})
		if err != nil && !errors.Is(err, deadletter.ErrPartial) {
			return err
		}
		if idle++; rep.Sent > 0 {
			idle = 0
		}
		<-time.After(2 * time.Millisecond)
	}
	return j.Close()
}

// childHold puts a letter and then keeps the directory's lock until it is
// killed, as a process does that was stopped within a commit.
func childHold(args []string) error {
	j, err := deadletter.OpenJournal(args[0])
	if err != nil {
		return err
	}
	r := deadletter.Record{Queue: "q", ItemID: "held", Payload: []byte("p")}
	if err := j.Put(context.Background(), r); err != nil {
		return err
	}
	return deadletter.HoldLock(j)
}

// kill -9 at any moment: every letter that was acknowledged is there, whole,
// and the next ones are kept too.
func TestKilledWriterLosesNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ size, kills int }{{1, 5}, {3 << 10, 5}, {64 << 10, 4}, {300 << 10, 3}, {12 << 20, 1}} {
		t.Run(fmt.Sprint(tt.size), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			acked := map[string]bool{}
			n := kills(tt.kills)
			for k := range n {
				cmd, out := child(t, "write", dir, fmt.Sprint("k", k), strconv.Itoa(tt.size), "1000000")
				for range 1 + k%4 {
					if !out.Scan() {
						t.Fatal("the writer ended by itself")
					}
					acked[out.Text()] = true
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				for out.Scan() {
					acked[out.Text()] = true
				}
				_ = cmd.Wait()
				if tt.size > 1<<20 && k%8 == 7 { // each kill leaves some 40 MB
					checkLetters(t, dir, acked, tt.size)
					purgeAll(t, dir)
					clear(acked)
				}
			}
			checkLetters(t, dir, acked, tt.size)
		})
	}
}

func checkLetters(t *testing.T, dir string, acked map[string]bool, size int) {
	t.Helper()
	j := openJournal(t, dir)
	defer j.Close()
	seen := 0
	for r, err := range j.List(t.Context(), deadletter.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		whole, err := j.Get(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(whole.Payload, payloadOf(r.ItemID, size)) {
			t.Errorf("%s came back with another payload", r.ItemID)
		}
		if acked[r.ItemID] {
			seen++
		}
	}
	if seen != len(acked) {
		t.Errorf("%d of %d acknowledged letters are there", seen, len(acked))
	}
	if sum := summary(t, j); sum.Corrupt > 0 {
		t.Errorf("%d damaged lines after kills only", sum.Corrupt)
	}
}

func purgeAll(t *testing.T, dir string) {
	t.Helper()
	j := openJournal(t, dir)
	defer j.Close()
	if _, err := j.Purge(t.Context(), deadletter.Filter{States: []deadletter.State{deadletter.Dead}}); err != nil {
		t.Fatal(err)
	}
}

// Writers come and are killed while others replay: each letter that was
// acknowledged is sent once.
func TestWritersDieWhileOthersReplay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const replayers = 4
	put(t, openJournal(t, dir), "first", "p")
	lines := make(chan string)
	var cmds []*exec.Cmd
	for range replayers {
		cmd, out := child(t, "replay", dir)
		cmds = append(cmds, cmd)
		go func() {
			for out.Scan() {
				lines <- out.Text()
			}
			lines <- ""
		}()
	}
	sent := map[string]int{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for left := replayers; left > 0; {
			if item := <-lines; item == "" {
				left--
			} else {
				sent[item]++
			}
		}
	}()
	acked := map[string]bool{"first": true}
	for k := range kills(4) {
		cmd, out := child(t, "write", dir, fmt.Sprint("w", k), "2000", "1000000")
		for range 20 + 7*(k%5) {
			if !out.Scan() {
				t.Fatal("the writer ended by itself")
			}
			acked[out.Text()] = true
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for out.Scan() {
			acked[out.Text()] = true
		}
		_ = cmd.Wait()
	}
	<-ended
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	// What came after the last replayer had looked is still waiting.
	j := openJournal(t, dir)
	for r, err := range j.List(t.Context(), deadletter.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.State != deadletter.Dead {
			t.Errorf("%s is %s", r.ItemID, r.State)
		}
		sent[r.ItemID]++
	}
	for item := range acked {
		if sent[item] == 0 {
			t.Errorf("%s was acknowledged, and neither sent nor waits", item)
		}
	}
	for item, n := range sent {
		if n != 1 {
			t.Errorf("%s was sent %d times", item, n)
		}
	}
}

// Killed between a success and its ack: sent again, once, and not lost.
func TestKilledReplayerSendsAgain(t *testing.T) {
	t.Parallel()
	const letters = 25
	n := kills(2)
	for k := range n {
		dir := t.TempDir()
		j := openJournal(t, dir)
		fill(t, j, letters)
		cmd, out := child(t, "replay", dir)
		sent := map[string]int{}
		for range 5 + k%10 {
			if !out.Scan() {
				t.Fatal("the replayer ended by itself")
			}
			sent[out.Text()]++
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for out.Scan() {
			sent[out.Text()]++
		}
		_ = cmd.Wait()
		held := summary(t, j).States[deadletter.Claimed]
		if held > 2 {
			t.Errorf("%d letters are held by a replayer of two", held)
		}
		// An hour later the claims of the dead replayer have ended.
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		later := ahead{time.Hour}
		j, err := deadletter.StoreConfig{Clock: later}.Journal(dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = deadletter.Replay(t.Context(), j, func(_ context.Context, r deadletter.Record) error {
			sent[r.ItemID]++
			return nil
		}, deadletter.Options{Clock: later, Concurrency: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		twice := 0
		for item, n := range sent {
			if n > 2 {
				t.Errorf("%s was sent %d times", item, n)
			}
			if n == 2 {
				twice++
			}
		}
		if len(sent) != letters || twice > held {
			t.Errorf("%d letters sent, %d of them twice; %d were in flight", len(sent), twice, held)
		}
	}
}

// ahead is the real time and something.
type ahead struct{ by time.Duration }

func (a ahead) Now() time.Time                         { return time.Now().Add(a.by) }
func (a ahead) After(d time.Duration) <-chan time.Time { return time.After(d) }

// A stuck process is named (cloudfoundry/nfs-volume-release#13).
func TestLockedJournalNamesTheHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, out := child(t, "hold", dir)
	if !out.Scan() {
		t.Fatal("no holder")
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	_, err = deadletter.StoreConfig{LockWait: 20 * time.Millisecond}.Journal(dir)
	if !errors.Is(err, deadletter.ErrLocked) || !strings.Contains(err.Error(), strconv.Itoa(cmd.Process.Pid)) || !strings.Contains(err.Error(), host) {
		t.Errorf("%v, want ErrLocked with host %s and pid %d", err, host, cmd.Process.Pid)
	}
	r, err := deadletter.StoreConfig{ReadOnly: true}.Journal(dir)
	if err != nil {
		t.Fatalf("a reader needs no lock: %v", err)
	}
	defer r.Close()
	if n := len(contents(t, r)); n != 1 {
		t.Errorf("%d letters, want 1", n)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	// The lock ends with its holder.
	j := openJournal(t, dir)
	put(t, j, "b", "p")
}
