// Package batch runs the items of an unattended batch: it skips what is done,
// keeps what failed, stops when a guard says so, and never reports a failure as
// a success.
//
// # When to use it
//
// In a program that has no loop of its own. Give it an iterator of items and a
// function that does one; the guards (retry, breaker, budget, pacer) are in that
// function's client, and batch knows them by their errors only.
//
//	rep, err := batch.Run(ctx, batch.Config{
//		Dir:     "state/nightly",
//		Letters: letters,                       // *deadletter.Queue, best with ResolveOnSuccess
//		Workers: 32,
//		Hold:    time.Hour,
//		Validate: batch.Fields("summary"),
//		Gauges: func() batch.Gauges {
//			up, day := breaker.Stats(), budget.Stats()
//			return batch.Gauges{Trips: int64(up.TripsTotal), Estimated: day.SettledEstimates, Actual: day.SettledUnits}
//		},
//	}, items, summarise)
//	fmt.Println(rep) // the last line: state, calls, done
//	if err != nil {
//		log.Print(err)
//	}
//	os.Exit(rep.Exit)
//
// A later run on the same Dir does what is missing. [Replay] does the items of
// the dead letters.
//
// # What becomes of an item
//
//	what happened                                     it is
//	a valid result from this input and Version        done before, not called
//	a letter of this input and Version, unresolved    dead before, not called; see Replay and Again
//	the handle's result passes Validate               stored, then done
//	it was empty, or Validate refused it, twice       dead
//	the handle failed or panicked, or its error did   dead, with the error or the stack
//	Bad is set                                        dead, unsent
//	a guard refused (RefusedBy), told or not          pending
//	the key or the account was refused (see Handle)   pending; three in a row end the run
//	cancelled, or not started any more                pending
//	Validate refused it once, and the run stopped     pending
//	result or letter could not be kept                lost, and the run ends
//	the letter would be too large (ErrTooLarge)       lost, and the run goes on
//
// total = done + dead + pending + lost. A dead item is called again when its
// letter is discarded, replayed or its input or Version changed. The labels
// input_sha256, version (with a Version) and bad_input of a letter are the run's.
//
// # Replaying
//
// [Replay] takes the letters in place of items:
//
//	what it finds                                         the letter is
//	a valid result from this input and Version            acked unsent: done before
//	a result from another input, younger than the letter  acked unsent, with a warning: the input was mended and done since;
//	                                                      left, pending, when it is not valid or of another Version
//	bad_input: Bad was set                                left, dead: there is nothing to send
//	the handle's result passes Validate                   acked once the result is stored and synced
//	Validate refused it twice, or the handle failed       dead again, quarantined after Options.MaxReplays
//	the key or the account was refused (see Handle)       left, pending; three in a row end the replay
//	a guard refused, cancelled, the result was not kept   as it was, pending; the replay holds or ends
//	it is claimed, by a replay in another folder          left, pending, with a warning until when
//	it is quarantined                                     left, dead, unless the Filter names that state
//
// What is left or as it was does not count as a replay of the letter.
//
// # Holding and stopping
//
//	Hold = 0   the first refusal ends the run with exit 2 or 3, the rest stays for the next
//	Hold > 0   nothing is started until the refusal may have lifted (its Await, else its RetryAt), then the run goes on
//
// Use 0 where something starts the run again anyway (cron every hour), where the
// machine is wanted by others, or where a person should look. Use an hour or two
// where the night is one long run and outages end by themselves. A budget's
// window rarely ends within a Hold, so such a run stops at once: what the
// refusal says to be longer than Hold is not waited for. A retry inside with a
// Hold of its own waits in the item first.
//
// The first item of a run, and the first after a hold, goes alone: a breaker
// lets one call pass to see whether the upstream is back, and the refusals of
// the others would say nothing. It is the cheapest of those at hand (up to 256),
// by Estimate, else by size; those that were read to find it go in this order as
// well, all others as they come. If it fails with what may be the upstream's fault
// it is put back and not counted dead, and another item is the next probe, alone
// as well, until one succeeds or fails by its own fault. It is not chosen again
// while others are pending (unless 768 wait in memory, or the iterator has given
// none for 10 minutes), nor by the next run or replay in Dir; of several that have
// failed the first is the next. Its second failure makes a letter unless a guard
// has refused in between; so does the first one when 256 others are put back
// already.
//
// A hold has a known cause and Hold bounds it, so it is no time without a result
// for Patience. What ends a run while it holds for the budget exits with 3.
//
//	also ends a run            exit
//	Until has come             2
//	no item done for Patience  2; calls in flight have Grace
//	first SIGINT or SIGTERM    130 or 143; nothing is started, items begun have Grace
//	second signal              the same; calls in flight are cancelled
//	third signal               the process ends as one that does not listen; the report says "running"
//	ctx ends                   130
//	an item has no ID          1
//	the items are cut short    5; their iterator, Validate or Results has panicked or called Goexit (t.FailNow)
//
// Items begun may still call after the first signal: they wait in a pacer's queue,
// or in a retry's backoff. The rest is only counted after any stop, for Grace at
// most; if there is more the report says "uncounted".
//
// # What it leaves behind
//
// In Dir: lock, results/ (see [Folder]), report.json, of a replay replay.json, and
// in probes.json, written at the end, the last 256 that failed as the probe, or whose
// key was refused, and have no result since. The
// report is written first with state "running" and at the end with what was done,
// atomically, so that a killed run does not leave an older one's success behind;
// "complete" is true only with exit code 0. A run that cannot be started does not
// leave it standing either, unless another one works in Dir. Its form is [Report].
// The exit codes are the constants; if several apply: signal, 5, 1, 3, 2, 4. A
// signature in it, or in an alert, is that of the letters.
//
// A result is in its file, synced, before its item counts as done; the folder is
// synced every 64 results and at the end, and before a letter is acked. A kill at
// any moment loses only the calls in flight, a power cut at most 64 results, whose
// items are done again.
//
//	alert            is raised when
//	calls_per_done   over 15 minutes more than 1.2 calls were made per item done; at the end of a shorter run from 20 calls on,
//	                 or from the first on when no item was done
//	trip             Gauges.Trips grew
//	signature        RepeatTrip-1 items ended with one signature since an item was done (a breaker may open before they have ended)
//	stuck            in 15 minutes p95 is twice that of the first 15 and p50 at most 1.25 times it, of 100 items each
//
// # Memory
//
// Items are read as workers become free, and copied: an iterator may use the memory
// of Input and Labels again. Up to 768 wait while the run holds or probes. Of
// each item some 40 bytes stay, by which an id that comes twice is known: a
// million items need about 70 MB. The names in a report end at ten thousand of each kind.
//
// # Departures
//
// An item whose probe failed while no breaker was open is done once more, so the
// first items of a run may cost a second try. The run counts the calls that a
// retry of this module has made; without one each answer is a call. The letter
// of an item that is done after all (its input was mended) is acked when the
// queue's Config says ResolveOnSuccess.
//
// # What it does not do
//
// It does not retry (but a placeholder, once), pace or reserve: that is what the
// client is for. It does not know what a good answer is: give it a Validate. It
// does not spread a batch over machines; Dir is locked. It does not delete
// results, letters or reports. An iterator that blocks for ever is left behind
// when the run is cancelled, or Grace after it has stopped, and a Progress that
// blocks when it ends; a handle that heeds no context is waited for.
package batch
