package sqltest

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/sqlstore"
)

// childMode makes the test binary a client of its own: what it does, with which
// database.
const childMode = "NIGHTFUSE_SQLTEST_CHILD"

// child starts the test binary as a client and returns what it says.
func (b database) child(t *testing.T, mode string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+strings.Join([]string{mode, b.dialect.String(), b.driver, b.dsn, b.table}, "|"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

// child is the client.
func child(spec string) error {
	f := strings.SplitN(spec, "|", 5)
	dialect := map[string]sqlstore.Dialect{"PostgreSQL": sqlstore.PostgreSQL, "MySQL": sqlstore.MySQL, "SQLite": sqlstore.SQLite}[f[1]]
	db, err := sql.Open(f[2], f[3])
	if err != nil {
		return err
	}
	s, err := sqlstore.New(sqlstore.Config{DB: db, Dialect: dialect, Table: f[4]})
	if err != nil {
		return err
	}
	ctx := context.Background()
	if f[0] == "claim" {
		c, err := s.Claim(ctx, deadletter.ClaimReq{By: "child", Lease: time.Hour})
		if err != nil || len(c) != 1 {
			return fmt.Errorf("claimed %d: %w", len(c), err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(c[0].Token); err != nil {
			return err
		}
		select {} // until it is killed
	}
	for i := 0; ; i++ { // works on the same letters as the others, without end
		if err := work(ctx, s, i); err != nil {
			return err
		}
		if i == 3 {
			fmt.Println("works")
		}
	}
}

// work does everything once with one of four letters.
func work(ctx context.Context, s *sqlstore.Store, i int) error {
	err := s.Put(ctx, deadletter.Record{Queue: "q", ItemID: fmt.Sprint(i % 4), Payload: fmt.Append(nil, i)})
	if err != nil {
		return err
	}
	claims, err := s.Claim(ctx, deadletter.ClaimReq{N: 2, Lease: time.Millisecond})
	if err != nil {
		return err
	}
	for _, c := range claims {
		verb := []deadletter.Verb{deadletter.Ack, deadletter.Return, deadletter.Release}[i%3]
		if err := s.Resolve(ctx, c.Token, deadletter.Outcome{Verb: verb}); err != nil && !errors.Is(err, deadletter.ErrClaimLost) {
			return err
		}
	}
	if i%8 == 0 {
		_, err = s.Purge(ctx, deadletter.Filter{})
	}
	return err
}

// Why: the process that replays dies in the night; what it held is replayed by
// another, and nothing that comes from it late may count.
func TestKilledClaimer(t *testing.T) {
	t.Parallel()
	each(t, true, func(t *testing.T, b database) {
		clk := clock.NewMock()
		clk.Set(time.Now()) // the child's time, so that the leases are comparable
		s := b.store(t, clk)
		if err := s.Put(t.Context(), deadletter.Record{Queue: "q", ItemID: "a", Payload: []byte("p")}); err != nil {
			t.Fatal(err)
		}
		cmd, says := b.child(t, "claim")
		if !says.Scan() {
			t.Fatal("the claimer said nothing")
		}
		var old deadletter.Token
		if err := json.Unmarshal(says.Bytes(), &old); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if c, err := s.Claim(t.Context(), deadletter.ClaimReq{}); len(c) != 0 || err != nil {
			t.Errorf("claimed %v, %v within the lease of the dead", c, err)
		}
		clk.Add(2 * time.Hour)
		c, err := s.Claim(t.Context(), deadletter.ClaimReq{})
		if err != nil || len(c) != 1 || c[0].Record.Replays != 2 || string(c[0].Record.Payload) != "p" || c[0].Token.Seq <= old.Seq {
			t.Fatalf("claimed %+v, %v after the lease", c, err)
		}
		if err := s.Resolve(t.Context(), old, deadletter.Outcome{Verb: deadletter.Ack}); !errors.Is(err, deadletter.ErrClaimLost) {
			t.Errorf("the dead one's ack: %v", err)
		}
		if err := s.Resolve(t.Context(), c[0].Token, deadletter.Outcome{Verb: deadletter.Ack}); err != nil {
			t.Error(err)
		}
	})
}

// Why: a client that is frozen, by a debugger or a suspended machine, between
// SELECT FOR UPDATE and COMMIT blocks all others until somebody notices. With
// one statement a transaction there is no such place. SQLite is left out: who is
// stopped within a write holds the only lock there is.
func TestFrozenClient(t *testing.T) {
	t.Parallel()
	for _, d := range []sqlstore.Dialect{sqlstore.PostgreSQL, sqlstore.MySQL} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			b := newDatabase(t, d)
			cmd, says := b.child(t, "work")
			if !says.Scan() {
				t.Fatal("the client did not begin")
			}
			s := b.store(t, nil)
			for freeze := range 30 {
				if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				for i := range 4 {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					err := work(ctx, s, i)
					cancel()
					if err != nil {
						t.Fatalf("beside a frozen client (%d): %v", freeze, err)
					}
				}
				if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				// Let it come to another place.
				<-time.After(time.Duration(1+freeze%7) * time.Millisecond)
			}
			for r, err := range s.List(t.Context(), deadletter.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Get(t.Context(), r.ID); err != nil && !errors.Is(err, deadletter.ErrNotFound) {
					t.Error(err) // its payload is there
				}
			}
		})
	}
}
