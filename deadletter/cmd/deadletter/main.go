// Command deadletter looks at the dead letters in a journal and replays them:
//
//	deadletter groups   DIR                    the letters by signature: what went wrong, how often
//	deadletter ls       DIR [ID...]            one line a letter
//	deadletter show     DIR ID                 all of one letter but its payload
//	deadletter payload  DIR ID                 its payload, as it was sent
//	deadletter replay   DIR [ID...] -yes       send them again, each at most once
//	deadletter discard  DIR [ID...] -reason TEXT -yes
//	deadletter verify   DIR                    read every byte, tell what is damaged
//	deadletter export   DIR [ID...]            whole records with payloads, one JSON object a line
//
// DIR is the directory given to OpenJournal; the program that writes into it may
// be running. An ID is a record id, the beginning of one, or an item id; flags
// may stand anywhere. Without an ID the filters choose, and without a filter all
// letters that are not resolved:
//
//	-queue NAME  -signature ID  -owner NAME  -run ID  -label KEY=VALUE
//	-status 429,503     0 is no answer
//	-state quarantined  dead, claimed, quarantined, acked, discarded; all
//	-older 24h          failed last at least so long ago, or before a time (RFC 3339)
//	-newer 24h          failed last at most so long ago, or after a time
//
// With -json the output is JSON: an object, or one a line for ls and export.
// Bytes that a terminal would act on are escaped, in JSON as \u.
//
// # Replay
//
// Without -yes a replay and a discard only tell what they would do. A replay
// goes through the guards that the flags name, which the program that failed
// may be using as well:
//
//	-breaker DIR        the folder of breaker.File; -breaker-name when it holds several
//	-budget FILE        the file of budget.OpenFile, with -limit UNITS, -window, -zone and
//	                    -headroom as in its Config: with another window or zone it is another
//	                    count, in which nothing is spent yet; -budget-name when it has the
//	                    counts of several. Owners have no ceilings here; -charge OWNER pays
//	                    for all
//	-auth-env NAME      the variable that holds the credential, sent as
//	                    "Authorization: Bearer"; -auth-header x-api-key sends it bare
//	-auth-host HOST     who gets it, when the letters go to several
//	-out DIR            where answers are written before their letter is acked,
//	                    as ITEM-ID.json, the id cut to eight digits
//	-rate N -max N -concurrency N -attempts N -timeout D -max-replays N -early
//
// An answer is written as it came. Where results have another form or another
// place, let the program that makes them call deadletter.Replay.
//
// Only letters that hold an HTTP request, those of a deadletter.Transport, are
// replayed here. The letters of a batch hold an item's input: they are replayed by
// the batch's program, which calls batch.Replay, and those of Queue.Do by one that
// calls deadletter.Replay. A replay that meets one of them ends.
//
// A letter that a guard refuses is as before, and the replay ends.
//
// # Exit codes
//
//	0        all done
//	1        a wrong command line, nothing matches, or the journal cannot be used
//	2        the breaker refused
//	3        the budget refused
//	4        letters remain: failed again, quarantined, or not tried
//	5        damage, or a result that could not be noted
//	130 143  ended by a signal; claims were given back
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/nightfuse/nightfuse/deadletter"
	"github.com/nightfuse/nightfuse/deadletter/internal/show"
	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// The exit codes.
const (
	exitOK = iota
	exitUsage
	exitBreaker
	exitBudget
	exitRemain
	exitLost
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// verbs are the commands.
var verbs = map[string]struct {
	args string
	run  func(context.Context, *options, io.Writer, io.Writer) (int, error)
}{
	"ls":      {"DIR [ID...]", ls},
	"groups":  {"DIR", groups},
	"show":    {"DIR ID", showOne},
	"payload": {"DIR ID", payload},
	"replay":  {"DIR [ID...]", replay},
	"discard": {"DIR [ID...]", discard},
	"verify":  {"DIR", verify},
	"export":  {"DIR [ID...]", export},
}

const usage = `usage: deadletter VERB DIR [ID...] [flags]

  groups    the letters by signature: what went wrong, how often
  ls        one line a letter
  show      all of one letter but its payload
  payload   its payload, as it was sent
  replay    send letters again; tells what it would send, until -yes
  discard   give letters up; tells which, until -yes
  verify    read every byte, tell what is damaged
  export    whole records with payloads, one JSON object a line

DIR is the folder of the journal, ID a record id, its beginning or an item id.
deadletter VERB -help tells the flags
`

// killed is a signal that ended the command.
type killed struct{ sig os.Signal }

func (k killed) Error() string { return k.sig.String() }

func run(args []string, out, errs io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(errs, usage)
		return exitUsage
	}
	verb, known := verbs[args[0]]
	if !known {
		if args[0] == "help" || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
			fmt.Fprint(out, usage)
			return exitOK
		}
		fmt.Fprintf(errs, "deadletter: no such verb: %s\n%s", show.Printable(args[0]), usage)
		return exitUsage
	}
	o, err := parse(args[0], verb.args, args[1:], errs)
	if err != nil {
		if errors.Is(err, errHelp) {
			return exitOK
		}
		fmt.Fprintln(errs, "deadletter:", show.Printable(err.Error()))
		return exitUsage
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, os.Interrupt, syscall.SIGTERM)
	go func() {
		if sig, ok := <-sigs; ok {
			signal.Stop(sigs) // the second one kills
			cancel(killed{sig})
		}
	}()
	defer func() {
		signal.Stop(sigs)
		close(sigs)
	}()

	code, err := verb.run(ctx, o, out, errs)
	if err != nil {
		complain(errs, err)
		code = max(code, codeOf(err))
	}
	return code
}

// complain prints an error. The package's errors begin with its name, which is
// the command's as well.
func complain(errs io.Writer, err error) {
	fmt.Fprintln(errs, "deadletter:", show.Printable(strings.TrimPrefix(redact.Err(err, 4<<10), "deadletter: ")))
}

// codeOf is the exit code that an error asks for.
func codeOf(err error) int {
	var k killed
	switch {
	case errors.As(err, &k):
		if k.sig == syscall.SIGTERM {
			return 128 + 15
		}
		return 128 + 2
	case errors.Is(err, deadletter.ErrCorrupt), errors.Is(err, deadletter.ErrStoreFailed):
		return exitLost
	}
	switch call.RefusedBy(err) {
	case "":
	case "budget":
		return exitBudget
	case "breaker", "pacer":
		return exitBreaker
	default:
		return exitRemain
	}
	if errors.Is(err, deadletter.ErrPartial) {
		return exitRemain
	}
	return exitUsage
}
