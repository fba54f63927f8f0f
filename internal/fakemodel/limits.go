package fakemodel

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// limits are all limits of a key. They are not safe for concurrent use.
type limits struct {
	requests, tokens bucket
	window           window
	quota            quota
	steps            []Step
	epoch            time.Time
	chargeRejected   bool
}

func newLimits(c Limits, epoch time.Time) limits {
	return limits{
		requests:       newBucket(c.RPM, c.Burst, epoch),
		tokens:         newBucket(c.TPM, c.TokenBurst, epoch),
		window:         window{limit: int64(c.WindowCalls), length: c.Window, start: epoch},
		quota:          quota{limit: c.DailyTokens},
		steps:          c.Steps,
		epoch:          epoch,
		chargeRejected: c.ChargeRejected,
	}
}

// A refusal is a call that does not fit.
type refusal struct {
	fate    Fate
	wait    time.Duration // 0 = unknown or never
	kind    string        // the error's type
	code    string
	message string
}

// take charges a call of cost tokens to every limit, or returns why not.
func (l *limits) take(now time.Time, model string, cost int64) *refusal {
	l.advance(now)
	no := l.refuse(now, model, cost)
	if no == nil {
		l.window.take()
		l.quota.used += cost
	}
	if no == nil || l.chargeRejected {
		l.requests.take(1)
		l.tokens.take(cost)
	}
	return no
}

// correct replaces cost by billed in the quota of the call's day.
func (l *limits) correct(now time.Time, cost, billed int64) {
	if now.UTC().Format(time.DateOnly) == l.quota.day {
		l.quota.used += billed - cost
	}
}

func (l *limits) advance(now time.Time) {
	for len(l.steps) > 0 && !now.Before(l.epoch.Add(l.steps[0].At)) {
		step := l.steps[0]
		l.steps = l.steps[1:]
		// What was earned before the step was earned at the old rate.
		l.requests.advance(l.epoch.Add(step.At))
		l.tokens.advance(l.epoch.Add(step.At))
		if step.RPM != 0 {
			l.requests.rate = int64(step.RPM)
		}
		if step.TPM != 0 {
			l.tokens.rate = int64(step.TPM)
		}
	}
	l.requests.advance(now)
	l.tokens.advance(now)
	l.window.advance(now)
	l.quota.advance(now)
}

// refuse returns nil if the call fits, else the objection that lasts longest.
func (l *limits) refuse(now time.Time, model string, cost int64) *refusal {
	if l.quota.usedUp() {
		return &refusal{
			fate: FateQuota, kind: "insufficient_quota", code: "insufficient_quota",
			message: "You exceeded your current quota, please check your plan and billing details.",
		}
	}
	if !l.tokens.fits(cost) {
		return &refusal{
			fate: FateLimit, kind: "tokens", code: "rate_limit_exceeded",
			message: fmt.Sprintf("Request too large for %s in organization org-fake on tokens per min (TPM): Limit %d, Requested %d. Send less, or ask for less.",
				model, l.tokens.size/unitsPerToken, cost),
		}
	}
	var longest *refusal
	object := func(kind, unit string, limit, left, asked int64, wait time.Duration) {
		if wait <= 0 || longest != nil && wait <= longest.wait {
			return
		}
		longest = &refusal{
			fate: FateLimit, kind: kind, code: "rate_limit_exceeded", wait: wait,
			message: fmt.Sprintf("Rate limit reached for %s in organization org-fake on %s: Limit %d, Used %d, Requested %d. Please try again in %s.",
				model, unit, limit, limit-left, asked, ceil(wait, time.Millisecond)),
		}
	}
	object("requests", "requests per min (RPM)", l.requests.rate, l.requests.left(), 1, l.requests.wait(1))
	object("requests", "requests per window", l.window.limit, l.window.limit-l.window.used, 1, l.window.wait(now))
	// A message with more requested than the limit would say "never".
	atMost := max(l.tokens.rate, l.tokens.size/unitsPerToken)
	object("tokens", "tokens per min (TPM)", atMost, l.tokens.left(), cost, l.tokens.wait(cost))
	return longest
}

// describe sets the X-Ratelimit-* headers.
func (l *limits) describe(h http.Header, now time.Time) {
	set := func(axis string, limit, left int64, reset time.Duration) {
		h.Set("X-Ratelimit-Limit-"+axis, strconv.FormatInt(limit, 10))
		h.Set("X-Ratelimit-Remaining-"+axis, strconv.FormatInt(left, 10))
		h.Set("X-Ratelimit-Reset-"+axis, ceil(reset, time.Millisecond).String())
	}
	switch {
	case l.requests.rate != 0:
		set("Requests", l.requests.rate, l.requests.left(), l.requests.reset())
	case l.window.limit != 0:
		set("Requests", l.window.limit, l.window.limit-l.window.used, l.window.start.Add(l.window.length).Sub(now))
	}
	if l.tokens.rate != 0 {
		set("Tokens", l.tokens.rate, l.tokens.left(), l.tokens.reset())
	}
}

// ceil rounds d up to a multiple of unit.
func ceil(d, unit time.Duration) time.Duration {
	if rest := d % unit; rest > 0 {
		return d - rest + unit
	}
	return d
}
