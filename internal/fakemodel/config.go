package fakemodel

import "time"

// Config says what a Model is like. The zero value is a model that answers
// everything at once and never fails. New copies it.
type Config struct {
	// Seed decides who is poisoned, who is slow and so on. Every value is
	// good, also 0.
	Seed uint64
	// Key, when not empty, is what requests must bear: "Authorization: Bearer
	// Key". Anything else is answered 401.
	Key string

	Limits  Limits
	Latency Latency
	Hints   Hints
	Faults  Faults

	// SinceFirstCall counts Outages, Steps and fixed windows from the arrival
	// of the first call. Otherwise they are counted from New.
	SinceFirstCall bool
	// NoUsage leaves usage out of every answer, as some compatible servers
	// do, also when stream_options asks for it.
	NoUsage bool
	// Answer makes the text for a prompt (the last user message); nil = the
	// prompt's first words. It may be called concurrently.
	Answer func(prompt string) string
	// Clock is the time; nil = the runtime's, virtual inside a bubble.
	Clock Clock
}

// Limits are what the key may use. They are combinable: a call must pass them
// all, and is charged to all or to none. Zero fields are no limit.
type Limits struct {
	// RPM refills the request bucket, in calls a minute; at most 100 million.
	RPM int
	// Burst is the request bucket's size; 0 = a second's worth, at least 1.
	Burst int
	// TPM refills the token bucket, in tokens a minute; at most 100 million.
	// A call costs its prompt and the answer it would get, on arrival.
	TPM int
	// TokenBurst is the token bucket's size; 0 = TPM. A call above it can
	// never pass, and its 429 says so.
	TokenBurst int
	// WindowCalls is how many calls pass in each fixed Window.
	WindowCalls int
	// Window is the length of the fixed window; 0 = a minute.
	Window time.Duration
	// DailyTokens is the quota of a UTC day in billed tokens. Once it is
	// reached, every call is answered 429 insufficient_quota until midnight.
	DailyTokens int64
	// ChargeRejected makes a refused call cost what an admitted one costs,
	// down to an empty bucket: calling again and again keeps it empty.
	ChargeRejected bool
	// Steps change the rates on the way; ascending in At.
	Steps []Step
}

// Step is a change of rates. Bucket sizes and levels stay.
type Step struct {
	At       time.Duration
	RPM, TPM int // 0 = as before
}

// Latency is how long answers take. The zero value answers at once.
type Latency struct {
	// Median and Sigma are those of the lognormal time to an answer under
	// 200; Median 0 = none.
	Median time.Duration
	Sigma  float64
	// SlowShare of these answers takes SlowFactor times as long; SlowFactor
	// 0 = 5.
	SlowShare, SlowFactor float64
	// Reject is the time to any other answer.
	Reject time.Duration
	// Chunk is the pause before each event of a stream but the first.
	Chunk time.Duration
	// Scale multiplies all of these; 0 = 1.
	Scale float64
}

// Hints are the headers that tell a client how to behave. Those about waiting
// go with 429 (other than insufficient_quota) and 503.
type Hints struct {
	// Seconds sends Retry-After in whole seconds, rounded up.
	Seconds bool
	// Date sends Retry-After as an HTTP date, rounded up. Not with Seconds.
	Date bool
	// Millis sends Retry-After-Ms, rounded up.
	Millis bool
	// Wait is what they say; 0 = the truth, where there is one: the time
	// until this call would fit, or the end of the outage.
	Wait time.Duration
	// RateLimit sends the X-Ratelimit-* headers of the two buckets (or of the
	// window, if there is no request bucket) with every answer that asked
	// them.
	RateLimit bool
}

// Faults are what goes wrong. They are combinable; the package guide has the
// order. The zero value is nothing.
type Faults struct {
	// Always is the answer to everything.
	Always Failure
	// Outages are the times at which nothing is answered but their status.
	Outages []Outage
	// Every makes each Every-th call that gets this far fail with Nth; 0 =
	// none. Nth's zero value is a 429.
	Every int
	Nth   Failure

	// Poison items are refused with 400 whenever they come. Drawn by item.
	Poison Pick
	// Empty items get an empty content under 200 whenever they come;
	// EmptyOnce items only at their first attempt. Drawn by item.
	Empty, EmptyOnce Pick
	// Hang calls are never answered. Drawn by attempt, as the following.
	Hang Pick
	// Flaky calls are answered 500.
	Flaky Pick
	// ErrorIn200 calls get an error object (overloaded) under 200, as body or
	// as an event half through the stream.
	ErrorIn200 Pick
	// Cut streams end half through with a broken connection; Stall streams
	// stop half through and never end. Other calls are spared.
	Cut, Stall Pick
}

// Failure is an answer that is none.
type Failure struct {
	// Status is 400 to 599; 0 = no failure.
	Status int
	// Code is the error's code; "" = the usual one for Status.
	Code string
}

// Outage is a time of failure, From inclusive, To exclusive.
type Outage struct {
	From, To time.Duration
	Status   int // 0 = 503
}

// Pick says whom a fault befalls: a share of all, drawn by the seed, and those
// that If names. The zero value is nobody.
type Pick struct {
	Share float64
	If    func(Call) bool // nil = none; may be called concurrently
}
