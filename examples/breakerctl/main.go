// Breakerctl looks at the breakers in a folder of state files, and opens or
// closes one by hand, also while the programs that use them are running: they
// see it at their next call.
//
//	breakerctl DIR state [NAME...]       exit code 2 when one is not closed
//	breakerctl DIR trip NAME REASON      stop the calls now; a second time: for longer
//	breakerctl DIR reset NAME REASON     let them go on
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nightfuse/nightfuse/breaker"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `usage: breakerctl DIR state [NAME...]
       breakerctl DIR trip NAME REASON
       breakerctl DIR reset NAME REASON
DIR is the folder given to breaker.File`

// The exit codes.
const (
	exitOK = iota
	exitFailed
	exitOpen // state: a breaker is not closed
)

var errUsage = errors.New(usage)

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	code, err := command(ctx, args, out)
	if err != nil {
		fmt.Fprintln(errs, err)
		return exitFailed
	}
	return code
}

func command(ctx context.Context, args []string, out io.Writer) (int, error) {
	if len(args) < 2 {
		return 0, errUsage
	}
	dir, verb, args := args[0], args[1], args[2:]
	names, err := list(dir)
	if err != nil {
		return 0, err
	}
	switch {
	case verb == "state":
		if len(args) > 0 {
			names, err = known(names, dir, args)
			if err != nil {
				return 0, err
			}
		}
		return state(dir, names, out)
	case (verb == "trip" || verb == "reset") && len(args) == 2:
		if verb == "reset" {
			// A new one may be opened before its program has ever failed.
			if _, err := known(names, dir, args[:1]); err != nil {
				return 0, err
			}
		}
		b, err := open(dir, args[0])
		if err != nil {
			return 0, err
		}
		act := b.Trip
		if verb == "reset" {
			act = b.Reset
		}
		if err := act(ctx, args[1]); err != nil {
			return 0, err
		}
		_, err = state(dir, args[:1], out)
		return exitOK, err
	}
	return 0, errUsage
}

// list returns the names of the breakers in dir, sorted. Each file says its
// own; what cannot be read is told, and not touched.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.Contains(e.Name(), "%2edamaged-") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var file struct{ Name string }
		if err := json.Unmarshal(text, &file); err != nil || file.Name == "" {
			return nil, fmt.Errorf("%s is no breaker's state; the program that uses it will set it aside", path)
		}
		names = append(names, file.Name)
	}
	slices.Sort(names)
	return names, nil
}

// known returns want if names has all of them: a mistyped name must not look
// like a closed breaker.
func known(names []string, dir string, want []string) ([]string, error) {
	for _, name := range want {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no breaker %q in %s; there are %q", name, dir, names)
		}
	}
	return want, nil
}

func open(dir, name string) (*breaker.Breaker, error) {
	store, err := breaker.File(dir)
	if err != nil {
		return nil, err
	}
	return breaker.New(breaker.Config{Name: name, Store: store, StoreTimeout: 10 * time.Second})
}

func state(dir string, names []string, out io.Writer) (int, error) {
	code := exitOK
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tSTATE\tUNTIL\tFAILURES\tTRIPS\tLAST TRIP\tREASON")
	for _, name := range names {
		b, err := open(dir, name)
		if err != nil {
			return 0, err
		}
		s := b.Stats()
		if s.StoreErrors > 0 || s.Damaged > 0 {
			return 0, fmt.Errorf("the state of %q in %s could not be read", name, dir)
		}
		if s.State != breaker.Closed {
			code = exitOpen
		}
		fmt.Fprintf(table, "%s\t%v\t%s\t%d\t%d\t%s\t%s\n", name, s.State, when(s.Until), s.Streak, s.TripsTotal, when(s.LastTrip.At), s.LastTrip.Reason)
	}
	return code, table.Flush()
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}
