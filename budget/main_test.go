package budget_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/nightfuse/nightfuse/budget"
)

// The tests with several processes run this test binary again: childEnv says
// as what, its arguments follow behind "--".
const childEnv = "NIGHTFUSE_BUDGET_CHILD"

func TestMain(m *testing.M) {
	role := os.Getenv(childEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	args := os.Args
	for i, a := range args {
		if a == "--" {
			args = args[i+1:]
			break
		}
	}
	err := errors.New("no such role")
	switch role {
	case "spend":
		err = childSpend(args)
	case "wander":
		err = childWander(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// forever is a window that does not end, so that midnight is not part of the
// tests.
type forever struct{}

func (forever) Key(time.Time) string      { return "forever" }
func (forever) End(t time.Time) time.Time { return t.Add(24 * time.Hour) }

// The caps of the tests: a thousand in all, and few enough that wanderers meet
// the cap now and then.
const (
	processCap = 1000
	wanderCap  = 60
)

// owners are those of the processes.
var owners = []budget.Owner{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}

// shared is the budget that all processes of a test have.
func shared(path string, limit int64) (*budget.Budget, *budget.File, error) {
	f, err := budget.OpenFile(path)
	if err != nil {
		return nil, nil, err
	}
	b, err := budget.New(budget.Config{Limit: limit, Headroom: -1, Window: forever{}, Store: f, Owners: owners, StoreTimeout: time.Minute})
	return b, f, err
}

// childSpend reserves 1 until it is refused and prints how often it was not.
func childSpend(args []string) error {
	b, f, err := shared(args[0], processCap)
	if err != nil {
		return err
	}
	most, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	granted := 0
	for granted < most {
		_, err := b.Reserve(context.Background(), owners[0].Name, 1)
		if errors.Is(err, budget.ErrExhausted) {
			break
		}
		if err != nil {
			return err
		}
		granted++
	}
	fmt.Println(granted)
	return f.Close()
}

// childWander reserves, reconciles, cancels and leaves at random for ever. It
// prints every amount before it moves it, and "ok" or "no" afterwards.
func childWander(args []string) error {
	b, _, err := shared(args[0], wanderCap)
	if err != nil {
		return err
	}
	owner := args[1]
	seed, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	ctx := context.Background()
	say := func(line string) {
		// One write, so that a kill leaves whole lines.
		_, _ = os.Stdout.WriteString(line + "\n")
	}
	for {
		n := 1 + rnd.Int64N(6)
		say(fmt.Sprint(n))
		r, err := b.Reserve(ctx, owner, n)
		if errors.Is(err, budget.ErrExhausted) {
			say("no")
			if err := b.Adjust(ctx, owner, 0); err != nil { // a write of nothing
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		say("ok")
		actual, end := int64(0), r.Cancel
		switch rnd.IntN(8) {
		case 0:
			continue // never settled
		case 1, 2, 3, 4:
			actual = rnd.Int64N(n)
			end = func(ctx context.Context) error { return r.Reconcile(ctx, actual) }
		}
		say(fmt.Sprint(actual - n))
		if err := end(ctx); err != nil {
			return err
		}
		say("ok")
	}
}

// child starts role in another process. Reading its lines is the caller's.
func child(t testing.TB, role string, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, append([]string{"--"}, args...)...)
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
