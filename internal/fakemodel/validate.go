package fakemodel

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// maxRate keeps the arithmetic of a bucket within int64.
const maxRate = 100_000_000

// faultsFound collects what is wrong with a Config.
type faultsFound []error

func (f *faultsFound) check(ok bool, field, want string, got any) {
	if !ok {
		*f = append(*f, fmt.Errorf("fakemodel: %s: want %s, got %v", field, want, got))
	}
}

func (f *faultsFound) rate(field string, v int) {
	f.check(v >= 0 && v <= maxRate, field, "0 to 100 million", v)
}

func (f *faultsFound) share(field string, v float64) {
	f.check(v >= 0 && v <= 1, field, "0 to 1", v) // NaN is neither
}

func (f *faultsFound) atLeast(field string, v, least float64) {
	f.check(v >= least && !math.IsInf(v, 1), field, fmt.Sprintf("a number from %v", least), v)
}

func (f *faultsFound) duration(field string, v time.Duration) {
	f.check(v >= 0, field, "0 or more", v)
}

func (f *faultsFound) status(field string, v int) {
	f.check(v == 0 || v >= 400 && v <= 599, field, "0 or 400 to 599", v)
}

// validate reports every bad field of c at once.
func (c Config) validate() error {
	var f faultsFound
	c.Limits.validate(&f)
	c.Latency.validate(&f)
	f.check(!(c.Hints.Seconds && c.Hints.Date), "Hints.Date", "not together with Seconds", c.Hints.Date)
	f.duration("Hints.Wait", c.Hints.Wait)
	c.Faults.validate(&f)
	return errors.Join(f...)
}

func (l Limits) validate(f *faultsFound) {
	f.rate("Limits.RPM", l.RPM)
	f.rate("Limits.Burst", l.Burst)
	f.rate("Limits.TPM", l.TPM)
	f.rate("Limits.TokenBurst", l.TokenBurst)
	f.check(l.Burst == 0 || l.RPM != 0, "Limits.Burst", "RPM with it", l.Burst)
	f.check(l.TokenBurst == 0 || l.TPM != 0, "Limits.TokenBurst", "TPM with it", l.TokenBurst)
	f.check(l.WindowCalls >= 0, "Limits.WindowCalls", "0 or more", l.WindowCalls)
	f.duration("Limits.Window", l.Window)
	f.check(l.Window == 0 || l.WindowCalls != 0, "Limits.Window", "WindowCalls with it", l.Window)
	f.check(l.DailyTokens >= 0, "Limits.DailyTokens", "0 or more", l.DailyTokens)
	for i, s := range l.Steps {
		name := fmt.Sprintf("Limits.Steps[%d]", i)
		f.duration(name+".At", s.At)
		f.check(i == 0 || s.At >= l.Steps[i-1].At, name+".At", "ascending", s.At)
		f.rate(name+".RPM", s.RPM)
		f.rate(name+".TPM", s.TPM)
		f.check(s.RPM == 0 || l.RPM != 0, name+".RPM", "a limit to change", s.RPM)
		f.check(s.TPM == 0 || l.TPM != 0, name+".TPM", "a limit to change", s.TPM)
	}
}

func (l Latency) validate(f *faultsFound) {
	f.duration("Latency.Median", l.Median)
	f.atLeast("Latency.Sigma", l.Sigma, 0)
	f.check(l.Sigma == 0 || l.Median != 0, "Latency.Sigma", "Median with it", l.Sigma)
	f.share("Latency.SlowShare", l.SlowShare)
	f.check(l.SlowShare == 0 || l.Median != 0, "Latency.SlowShare", "Median with it", l.SlowShare)
	if l.SlowFactor != 0 {
		f.atLeast("Latency.SlowFactor", l.SlowFactor, 1)
	}
	f.duration("Latency.Reject", l.Reject)
	f.duration("Latency.Chunk", l.Chunk)
	f.atLeast("Latency.Scale", l.Scale, 0)
}

func (f Faults) validate(found *faultsFound) {
	found.status("Faults.Always.Status", f.Always.Status)
	found.check(f.Always.Code == "" || f.Always.Status != 0, "Faults.Always.Code", "Status with it", f.Always.Code)
	for i, o := range f.Outages {
		name := fmt.Sprintf("Faults.Outages[%d]", i)
		found.duration(name+".From", o.From)
		found.check(o.To > o.From, name+".To", "after From", o.To)
		found.status(name+".Status", o.Status)
	}
	found.check(f.Every >= 0, "Faults.Every", "0 or more", f.Every)
	found.status("Faults.Nth.Status", f.Nth.Status)
	found.check(f.Nth == Failure{} || f.Every != 0, "Faults.Nth", "Every with it", f.Nth)
	found.share("Faults.Poison.Share", f.Poison.Share)
	found.share("Faults.Empty.Share", f.Empty.Share)
	found.share("Faults.EmptyOnce.Share", f.EmptyOnce.Share)
	found.share("Faults.Hang.Share", f.Hang.Share)
	found.share("Faults.Flaky.Share", f.Flaky.Share)
	found.share("Faults.ErrorIn200.Share", f.ErrorIn200.Share)
	found.share("Faults.Cut.Share", f.Cut.Share)
	found.share("Faults.Stall.Share", f.Stall.Share)
}

// filled returns a copy of c that shares nothing with the caller's and has its
// zero fields set to what they mean.
func (c Config) filled() Config {
	if c.Limits.Burst == 0 {
		c.Limits.Burst = max(1, c.Limits.RPM/60)
	}
	if c.Limits.TokenBurst == 0 {
		c.Limits.TokenBurst = c.Limits.TPM
	}
	if c.Limits.Window == 0 {
		c.Limits.Window = time.Minute
	}
	if c.Latency.SlowFactor == 0 {
		c.Latency.SlowFactor = 5
	}
	if c.Latency.Scale == 0 {
		c.Latency.Scale = 1
	}
	if c.Faults.Nth.Status == 0 {
		c.Faults.Nth.Status = 429
	}
	c.Limits.Steps = slices.Clone(c.Limits.Steps)
	c.Faults.Outages = slices.Clone(c.Faults.Outages)
	for i := range c.Faults.Outages {
		if c.Faults.Outages[i].Status == 0 {
			c.Faults.Outages[i].Status = 503
		}
	}
	if c.Answer == nil {
		c.Answer = summary
	}
	if c.Clock == nil {
		c.Clock = realClock{}
	}
	return c
}
