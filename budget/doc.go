// Package budget keeps a batch within what it may spend. A [Budget] reserves
// units before a call is made and settles them when its cost is known; a
// [Pacer] lets all workers of one credential go at the rate the upstream takes.
//
// # When
//
// For work that nobody watches and that many workers do at once. A check of
// what is left, then the call, then the booking lets all of them pass: the
// check must already take. And a limit per minute that each worker meets for
// itself is met by all of them together, again and again.
//
// # How
//
//	store, err := budget.OpenFile("state/spend")             // or leave Store out: memory
//	day, err := budget.New(budget.Config{
//		Name: "day", Limit: 5_000_000, Store: store,         // the plan's tokens a day
//		Owners: []budget.Owner{{Name: "nightly"}, {Name: "human", UseHeadroom: true}},
//	})
//	pace, err := budget.NewPacer(budget.PacerConfig{Adapt: true})
//
//	rt = budget.NewTransport(rt, day)                        // innermost
//	rt = budget.NewPacedTransport(rt, pace)                  // around the breaker's, inside retry's
//	ctx = budget.WithOwner(ctx, "nightly")                   // once for the job
//
//	err = day.Do(ctx, func(ctx context.Context) error {      // around a function
//		...
//		budget.Used(ctx, tokens)
//	})
//	r, err := day.Reserve(ctx, "nightly", 4000)              // by hand: r.Reconcile, r.Cancel
//
// A refused call gets a [*RefusedError]: how much of what is spent, until when,
// and why. It was not sent and says so by its methods. With [ErrExhausted] and
// [ErrStore] the item is pending and can be tried in time; [ErrTooLarge],
// [ErrEstimate] is the item's fault; [ErrUnknownOwner] is the program's, and leaves the item pending.
//
// # Rules of a reservation
//
//	Reserve                      pool limit and owner's ceiling in one step, all or nothing
//	  the pool's limit           the soft cap; Limit for owners with UseHeadroom
//	  a later attempt, a probe   may use the headroom: it finishes what was begun
//	  estimate above the cap     ErrTooLarge, before the store is asked
//	  the store fails            refused (Closed), or as OnStoreError says
//	Reconcile                    the difference goes to the window of the reservation, also when that is over
//	  above the cap              booked; the next Reserve is refused; an event
//	  the counter is gone        nothing is booked; an event
//	  no possible amount         the estimate stays; an error and an event
//	Cancel                       everything is given back: for calls that surely were not sent
//	the second of the two        does nothing
//	neither (crash, panic)       stays spent until the window ends
//
// A refusal while reservations are open in this process says so, and its Await
// ends at the next settlement; otherwise its RetryAt is the window's end.
// Settling does not depend on the call's context, which has often ended by
// then. See [Charge] for what each outcome of a call costs.
//
// # Windows
//
// A window is a date, an hour or a month on the wall of one zone, which is
// always said: midnight does not exist on every day, and the provider's is
// often not yours. A program in a container without a zone database gets an
// error from time.LoadLocation and from [New]; import time/tzdata there. The
// window is fixed when reserving: hosts whose clocks differ may spend, around
// its end, the difference times their rate in the wrong one.
//
// # Stores
//
// [Memory] is for one process, [File] for the processes of one host. Callers
// that wait for a store are combined into one trip of up to 256 changes; a
// caller that leaves meanwhile gets its change given back with the next trip.
// [Leased] saves trips to a store far away. What was granted while the store
// failed (Open, Local) is booked when it works again; whether a booking that
// failed was applied is not known, so it can count twice and not zero times.
// Counters are kept for some time after their window (twice its length, from
// an hour to two days) for late settlements.
//
// # Rules of the pacer
//
//	turn          first come, first served; one timer for the whole queue
//	pace          calls are spaced by their cost; idle time saves nothing up
//	Tokens        estimates, corrected by Settle; a call above the bucket collects in parts
//	429, hint     holds everybody, never shorter than asked, up to 10 minutes; then the pace goes on
//	hint in vain  refused although it waited as told, again: at least as without a hint
//	no hint       holds for 2, 4, 8 ... turns up to 5 s, while nothing passes
//	not sent      the turn and the tokens are given back
//	deadline      a turn after it is refused at once with a [*LateError]
//	Express       goes at once, also during a hold, and counts: the others wait for it
//	Adapt         measures the limit between two refusals, begins below it (0.9, or 1-Headroom), passes
//	              it slowly, and learns from the next refusal whether it has changed
//	  once        refusals of calls from before the last cut do not cut again
//	  closed      when nothing passes the rate stays and the pause grows: that is the breaker's to judge
//	  unrelated   refusals that stay as many at every rate are no longer listened to, until they grow with it
//	  small       a bucket of a call or two is known by refusing far above what passes on the way up
//	  tokens      when large calls are refused more often than small ones, it paces by tokens
//	  idle        its clock stands while nobody waits
//
// Price and limits, from simulations with 32 workers against a bucket of 600
// calls a minute of which nothing was told: 1.005 calls per answer at 1.02
// times the ideal time; with Headroom 0.15 no call of a person refused, at 1.2
// times. A bucket that holds a single call costs 1.2 times, 60 calls a minute
// shared by two or four unaware processes 1.2 or 1.6 calls per answer.
//
// # Departures
//
// From the usual: the headroom is on unless it is switched off; the zone is
// explicit; what is not known to be unspent is spent; a 529 costs nothing,
// since a storm of them would otherwise eat the day, and a 504 the estimate.
// The pacer waits for a call of more than a minute's tokens instead of failing
// it, because an estimate is an upper bound.
//
// # What it does not do
//
// It has no tokenizer (see [EstimateBody], [Calibrator] and Config.Estimate)
// and knows no prices: a Charge in micro-dollars is yours. It does not ask the
// provider what is left, does not see what others spend on the same key except
// through a shared store or refusals, does not queue for a budget, guarantees
// no owner a share, and does not add stream_options to requests: a stream
// without usage is charged its estimate. Pacers of several processes do not
// know each other. It does not retry and does not judge the upstream; see the
// packages retry and breaker.
package budget
