// Package deadletter keeps the items of a batch that failed, with their payload
// and the reason, and replays them one by one. What failed is then neither gone
// nor written down as an empty success.
//
// # When to use it
//
// Around a client or a function that processes many items unattended: what
// fails for good goes into a [Queue] over a [Store], usually a [Journal] in a
// directory beside the run's log. In the morning the letters are looked at by
// signature, with the command cmd/deadletter or in a browser (package inspect),
// the cause is mended, and [Replay], or the command, sends them again through
// the same chain of guards.
//
//	store, err := deadletter.OpenJournal("state/letters")
//	letters, err := deadletter.New(deadletter.Config{Name: "nightly", Store: store})
//	client := &http.Client{Transport: deadletter.NewTransport(rt, letters)} // rt: retry, breaker, budget
//	...
//	ctx = deadletter.WithItem(ctx, "doc-17", "file", "doc-17.json")
//	resp, err := client.Do(req.WithContext(ctx)) // a failure is a letter before this returns
//
// Name every item by [WithItem]: a letter is kept per queue and item, so an
// item that fails three times is one letter with Failures = 3.
//
// # What becomes a dead letter
//
//	what came out of the chain                             letter?
//	an answer with status 400 or more                      yes
//	an empty, cut off or refused answer, an error in a 200 yes, when the answer has been read
//	a connection error, a timeout                          yes
//	the caller's deadline ran out                          yes
//	a wait hint longer than the retry allows               yes, with RetryAfter
//	an estimate no budget can ever allow                   yes: it is the item's fault
//	a panic                                                yes, and the panic goes on
//	a guard refused (breaker, budget, pacer)               no: the item is pending
//	attempt 1 failed, attempt 2 was refused                no: pending
//	the caller cancelled                                   no
//	a body closed early by the caller                      no
//	Classify says Pass                                     no
//	a body that could not be read from the caller          no: nothing was sent
//	under a replay or a runner that keeps letters itself   no: it decides
//
// So when an upstream is down and its breaker opens, the store holds the few
// items that failed before it opened, not the thousands that were never sent.
// With a refused key (401, 402, 403, 407, a quota that is used up) these few are
// letters, too, unless Classify says Pass: the items are not at fault.
//
// A program that is started again leaves out what is a letter by asking Get: else
// each start sends, and pays, every item that fails for good once more.
//
// A letter is stored although the request's context has ended. When it cannot
// be stored (disk full, payload above MaxPayload) the failure comes back joined
// with a [*LostError]: the item is neither done nor dead, and still in the
// caller's hands.
//
// Tools that retry above the transport, as SDKs do, should be told not to; if
// they cannot be, ResolveOnSuccess acks the letter of an item that succeeds
// later.
//
// # What is kept, and what is not
//
// The payload is kept as it was sent, up to MaxPayload, and a larger one is
// refused, since half a request cannot be replayed. Of the headers only those on
// an allowlist are kept, of the URL no user information and no secret query
// values; error texts are scrubbed, of keys in the known shapes and, where the
// request is at hand, in a [Transport] and an [HTTPSender], of whatever credential
// it was sent with, since upstreams echo them; the function form has Redact for
// that. A replay brings its own credentials. The
// payload itself may be confidential: the directory has mode 0700 and its files
// 0600 (on Windows modes mean nothing, protect the directory by its ACL), and
// Purge removes payloads from the disk, save for what was set aside after damage
// (NAME.torn-OFFSET and NAME.damaged), which is yours to look at and remove.
//
// # The journal
//
// A directory of JSON-lines files, deadletter-000001.jsonl and so on; each line
// is one change and ends in a CRC-32C:
//
//	{"v":1,"op":"put","at":"...","id":"...","rec":{...},"payload":"aGVsbG8=","crc":"1a2b3c4d"}
//
// Every change is synced before it is answered, and those that come together
// share a sync. Each commit takes the lock of the directory for its moment only,
// so a replay in another process works while the batch writes.
//
//	what happens                 what the journal does
//	killed while writing         the unfinished tail goes to NAME.torn-OFFSET; all before it counts
//	damage in the middle         costs one line, is reported by Stats and Verify; later lines count
//	disk full, short write       cut off again, the Put fails, the journal goes on
//	sync fails                   the batch is written into a new segment; if that fails: ErrStoreFailed, until reopened
//	lock held for too long       ErrLocked, naming host and process
//	a later format version       refused, never rewritten
//	more than half is waste      compacted into one new segment
//
// Opening reads every line once: about a second for 40,000 letters of 2 KB.
// Of each letter some 700 bytes stay in memory, payloads do not.
//
// # Other stores
//
// A journal is for one host. Letters of several hosts go into a SQL database
// (package sqlstore), those of a test into [NewMemory]. The command is for
// journals and needs no database. A store of your own keeps to [Prepare], [Merge]
// and [Resolve], and is checked by package deadlettertest.
//
// # Replay
//
// [Replay] claims letters under a lease, the cheapest first and alone until one
// succeeds, and sends each at most once. It stops when a guard refuses, and
// gives back what it had claimed without counting it. It is at-least-once: a
// crash between the success and the ack sends that letter again, so every send
// carries the record id as its idempotency key. A letter replayed in vain
// MaxReplays times is quarantined; so is one that kills the process, since the
// claim counts, not its end. Without a Filter, no letters are no error; a Filter
// that nothing matches is [ErrNoMatch].
//
// # Departures
//
// A late ack still counts after its lease has run out, as long as nobody else
// has claimed the letter: the answer is there. A Put with another payload takes
// the letter away from whoever is replaying the old one.
//
// # What it does not do
//
// It does not spill large payloads into files, encrypt, or migrate. It keeps no
// goroutine and no timer between calls. A journal does not lock across hosts: keep
// it on a local disk. It does not repair damaged lines; it keeps their
// bytes. It does not decide what a good answer is beyond the shapes of model
// APIs that it knows: validate results before you call an item done.
package deadletter
