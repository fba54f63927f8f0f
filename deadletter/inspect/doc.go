// Package inspect shows the dead letters of a store in a browser: what went
// wrong and how often, each letter with its payload, and counters for a
// monitoring system.
//
//	h, err := inspect.New(inspect.Config{Store: store, Queues: []*deadletter.Queue{letters}})
//	mux.Handle("/letters/", http.StripPrefix("/letters", h))
//
// It never listens by itself, and asks nobody for a password: mount it where
// only those get who may read the payloads. The links are relative, so it can
// be mounted anywhere, under a path that ends in a slash.
//
//	path         what
//	/            letters by signature, the most frequent first
//	/list        letters by last failure, chosen by queue, state, signature, status and owner, page by page
//	/item        one letter: its failures, its request, the head of its payload
//	/payload     the payload as it was sent, as a download
//	/metrics     counters in the Prometheus text format
//	/healthz     200 while the store can be read, else 503
//
// The pages are plain HTML: no JavaScript, one stylesheet, light or dark as the
// browser is, usable by keyboard and on a narrow screen. What letters hold is
// shown and never obeyed: it is escaped, and characters that are invisible or
// turn the direction of text appear as \u202e. A Content-Security-Policy allows
// nothing but the stylesheet, and nothing is cached.
//
// # Actions
//
// Without Config.AllowActions nothing can be changed. With it, those requests
// that it allows may discard a letter, or let one out of quarantine. A form of
// another site is refused (net/http.CrossOriginProtection), and a second press
// changes nothing: it is answered with 409 and what the letter is now.
//
// # Metrics
//
//	deadletter_items{queue,state}            letters in the store
//	deadletter_oldest_age_seconds            since the first failure of the oldest unresolved letter
//	deadletter_quarantined                   letters that wait for a person
//	deadletter_payload_bytes                 of unresolved letters
//	deadletter_journal_bytes                 on the disk
//	deadletter_corrupt_lines                 damaged lines; verify tells which
//	deadletter_torn_tails                    unfinished lines that were set aside
//	deadletter_put_total{queue}              items that failed, of Config.Queues, since the process began
//	deadletter_put_errors_total{queue}       of these, could not be stored
//	deadletter_lost_total{queue}             neither done nor dead
//	deadletter_hook_panics_total{queue}      panics in hooks
//	deadletter_replays_total{outcome}        what Handler.Replayed was told: ack, return, quarantine, release, lost
//
// Config.More adds those of other parts, such as the calls per done item of a
// retry. Worth an alert: items above 0 when the run has ended, any lost_total,
// an oldest_age_seconds above a day, any quarantined or corrupt_lines.
//
// # What it does not do
//
// It does not authenticate, listen or keep sessions. It replays nothing, since
// that spends money and takes hours: see the command deadletter. It does not
// change many letters at once.
package inspect
