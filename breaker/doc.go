// Package breaker stops calls to an upstream that fails, and lets one probe at
// a time find out when it works again. The state outlives the process, and
// several processes can share it.
//
// # When
//
// For work that nobody watches: a batch of thousands of calls to a metered
// API, a cron job, workers on one credential. When the upstream is down, the
// key revoked or the credit used up, the first few calls find out, and the
// rest is not sent. A person at a keyboard is a better breaker than this one.
//
// # How
//
//	store, err := breaker.File("state")                      // or leave Store out: memory
//	up, err := breaker.New(breaker.Config{Name: "model-api", Store: store})
//
//	err = up.Do(ctx, func(ctx context.Context) error { ... }) // around a function
//	rt = breaker.NewTransport(rt, up)                         // around an http.Client
//	p, err := up.Allow(ctx)                                   // by hand: p.Success, p.Failure, p.Done
//
// A refused call gets an [*OpenError], errors.Is [ErrOpen]: until when, why,
// and the signature of the failure that tripped it. It was not sent, says so by
// its methods, and Await waits until it is worth asking again. [NewGroup] keeps
// one breaker per upstream, by host or by host and model.
//
// # The machine
//
// In the order of machine.go. A permit carries the epoch it was given in; every
// transition, grant and reset raises the epoch.
//
//	state                     event             effect
//	closed                    Allow             permit; nothing is written
//	closed                    success           counters to zero (written only if they were not)
//	closed                    failure           counted, also under its signature; at Threshold or RepeatTrip: open
//	closed                    fatal             open
//	half-open                 probe ignored     the slot is free; the third time in a row: open, same cooldown
//	closed                    ignored           nothing
//	any                       older epoch       statistics only: never a transition, never a longer cooldown
//	open, before until        Allow             refused; an opening in the future (clock set back) begins now
//	open, at or after until   Allow             one probe, leased, written before it goes out: half-open
//	half-open, lease live     Allow             refused
//	half-open, lease over     Allow             a new lease; the old probe's result is stale
//	half-open, slot free      Allow             a new lease
//	half-open                 probe succeeds    closed, cooldown back to the base
//	half-open                 probe fails       open at once, cooldown doubled up to MaxCooldown
//	closed                    Trip              open
//	open, half-open           Trip              open, cooldown doubled
//	any                       Reset             closed, nothing to resume
//
// More about single rows:
//
//   - A burst is one trip: the results of calls that were out at the trip are
//     of an older epoch. At most what is in flight still goes out.
//   - Fast refusals do not outvote slow successes. While a call from before the
//     first failure of the streak is out, a trip waits for it, but for no more
//     than RepeatTrip (or Threshold) plus the calls out at that failure.
//   - RepeatTrip counts one item once per streak and process, known by the item
//     in the context; calls without an item each count.
//   - The jitter is drawn once per opening and stored. A server's wait hint
//     lengthens the opening, so that no probe goes out earlier than was asked.
//   - A trip within one MaxCooldown after closing resumes the doubled cooldown:
//     one lucky probe does not bring short outages back at full load. An open
//     record that lies more than MaxCooldown behind its end starts again at the
//     base.
//   - A probe that never ends (a panic elsewhere, a killed process) is covered
//     by its lease: 15 minutes by default, in which a program that is started
//     again is refused, unless somebody calls Reset. Goexit in Do or under the transport is ignored, a panic is a
//     failure and goes on.
//   - Wait and Await wake everybody when the state changes. Whoever comes first
//     is the probe.
//
// # What counts as what
//
//	success   an answer that can be used, read to its end or closed early; 1xx, 3xx
//	failure   403 408 425 429, 5xx but 501 and 505, an empty answer, an error under 200 by its inner
//	          code, a web page in place of an answer to a POST, a body that ends too early, transport errors, time limits, the caller's deadline
//	          during the call, a panic
//	fatal     401 402, codes that say quota, credit or billing. A daily quota that comes with a short
//	          hint is a failure at first, and fatal when a later call meets it again
//	ignored   other 4xx, 501, 505, truncated and declined answers, the caller's cancel (known by its
//	          context, whatever the error says), what another guard refused, requests that cannot be sent
//
// An SDK's error counts like the answer it was made of, as far as it keeps
// status, code, headers and body. Classify overrides it. An answer is judged when it ends: a caller that never
// closes a body never settles its permit.
//
// # Stores
//
// Nothing is written while calls succeed. A failure is one small write, since a
// job that makes one call per process must trip, too; failures that come while
// another one is being written go together, so that a burst of 32 is two or
// three writes. [File] is compared before every call by a sequence number, in
// about a microsecond, and so sees another process's trip at once; a store
// without numbers is read once per Refresh.
//
// A store never turns a good call into an error and holds up at most three
// callers, for StoreTimeout: one that looks or writes, one that asks for a
// probe, one that settles. Then the breaker goes on from memory, reports it
// once, leaves the store alone for 1 s, doubling to 30 s, and brings it up to
// date when it works again. While it does not, each process may have a probe of
// its own. Where a number says that memory is old, other callers wait for the
// look in hand as well, for a tenth of StoreTimeout at most.
//
// A record that cannot be read (cut off, all NUL, null, of a newer version) is
// copied to its name plus ".damaged-" and a hash, reported, and the breaker
// starts open with a probe at once. An I/O or permission error leaves the
// record alone.
//
// Programs that share a record should share the Config as well: each goes by
// its own limits.
//
// Stored are wall times and durations: what is left is never more than the
// duration. Within a process the monotonic clock counts. One probe among
// several hosts holds while their clocks differ by less than ProbeLease minus
// the longest call.
//
// # Departures
//
// From the sketch that this package began as: only a failed probe (and Trip)
// extends the cooldown, else one burst of 32 calls is thirty trips; Threshold
// is 10 and RepeatTrip 5 instead of 3 and 2, because 10 exceeds the 4 attempts
// of a retry, so that one bad item cannot open it, and 2 ends a healthy run at
// two neighbouring errors; MaxCooldown is 1 minute instead of 10, since one
// probe a minute is no load and an outage's end is seen within a minute; the
// wall clock is stored, not the monotonic one; status codes stay in signatures;
// failures that alternate, A, B, A, B, are seen.
//
// # What it does not do
//
// It does not retry, wait by itself, limit rates or concurrency, or hedge. It
// does not lock across hosts: File is for one host. It keeps no goroutine and
// no timer: time decides at the next call. It does not know whether a failed
// call was paid for. It cannot stop calls that are out already.
package breaker
