package fakemodel

import (
	"math"
	"time"
)

// Fate is what became of a call, the key of Stats.Fates.
type Fate string

// The fates. Those up to FateLimit are met before the item is looked at.
const (
	FateBadRequest Fate = "bad-request"  // not a chat-completions request: 400, 404, 405, 413
	FateKey        Fate = "key"          // 401
	FateAlways     Fate = "always"       // Faults.Always
	FateOutage     Fate = "outage"       // Faults.Outages
	FateNth        Fate = "nth"          // Faults.Every
	FateQuota      Fate = "quota"        // Limits.DailyTokens
	FateLimit      Fate = "limit"        // the other limits
	FatePoison     Fate = "poison"       // 400
	FateHang       Fate = "hang"         // no answer
	FateFlaky      Fate = "flaky"        // 500
	FateErrorIn200 Fate = "error-in-200" // an error object under 200
	FateEmpty      Fate = "empty"        // empty content under 200
	FateCut        Fate = "cut"          // a stream with a broken connection
	FateStall      Fate = "stall"        // a stream that never ends
	FateOK         Fate = "ok"           // an answer
)

// The dice. Each has its own number, so that what one fault draws is the same
// with and without the others.
const (
	diePoison = iota
	dieHang
	dieFlaky
	dieErrorIn200
	dieEmpty
	dieEmptyOnce
	dieCut
	dieStall
	dieSlow
	dieNormal1
	dieNormal2
)

// mix is the finishing step of splitmix64: every bit of x moves every bit of
// the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// roll returns the number in [0, 1) that die shows for an attempt of an item;
// attempt 0 stands for the item itself.
func roll(seed uint64, die int, item uint64, attempt int) float64 {
	x := mix(mix(mix(mix(seed)^uint64(die))^item) ^ uint64(attempt))
	return float64(x>>11) / (1 << 53)
}

// fateOf decides what a call that passed the limits meets.
func (f *Faults) fateOf(seed uint64, r *request) Fate {
	byItem := func(p Pick, die int) bool {
		return roll(seed, die, r.item, 0) < p.Share || p.If != nil && p.If(r.Call)
	}
	byAttempt := func(p Pick, die int) bool {
		return roll(seed, die, r.item, r.Attempt) < p.Share || p.If != nil && p.If(r.Call)
	}
	switch {
	case byItem(f.Poison, diePoison):
		return FatePoison
	case byAttempt(f.Hang, dieHang):
		return FateHang
	case byAttempt(f.Flaky, dieFlaky):
		return FateFlaky
	case byAttempt(f.ErrorIn200, dieErrorIn200):
		return FateErrorIn200
	case byItem(f.Empty, dieEmpty):
		return FateEmpty
	case r.Attempt == 1 && byItem(f.EmptyOnce, dieEmptyOnce):
		return FateEmpty
	case r.Stream && byAttempt(f.Cut, dieCut):
		return FateCut
	case r.Stream && byAttempt(f.Stall, dieStall):
		return FateStall
	}
	return FateOK
}

// answer returns the time to an answer under 200.
func (l *Latency) answer(seed uint64, r *request) time.Duration {
	if l.Median == 0 {
		return 0
	}
	d := float64(l.Median)
	if l.Sigma > 0 {
		// Box and Muller; 1-x is in (0, 1], which has a logarithm.
		u := 1 - roll(seed, dieNormal1, r.item, r.Attempt)
		v := roll(seed, dieNormal2, r.item, r.Attempt)
		d *= math.Exp(l.Sigma * math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v))
	}
	if roll(seed, dieSlow, r.item, r.Attempt) < l.SlowShare {
		d *= l.SlowFactor
	}
	return l.scaled(d)
}

func (l *Latency) reject() time.Duration { return l.scaled(float64(l.Reject)) }
func (l *Latency) chunk() time.Duration  { return l.scaled(float64(l.Chunk)) }

func (l *Latency) scaled(d float64) time.Duration {
	return time.Duration(min(d*l.Scale, math.MaxInt64/2))
}
