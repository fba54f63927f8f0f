package budget

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// CalibratorConfig is what a [Calibrator] is made of.
type CalibratorConfig struct {
	// Key says what a call is like: calls with one key share what is learnt.
	// nil = model and owner. Kinds of documents mixed under one key make a
	// poor estimate.
	Key func(req *http.Request, owner, model string) string

	// Quantile is the share of calls that the estimate shall cover. 0 = 0.95;
	// below 1.
	Quantile float64

	// Output learns what part of the output cap is used, too. It makes
	// estimates much smaller, and an estimate that an answer can exceed.
	Output bool
}

// A Calibrator learns from finished calls what requests cost, and estimates
// the next ones: set its methods Estimate and Charge in a [Config]. It begins
// as [EstimateBody] and trusts what it has seen after 20 calls of a key. It
// keeps the last 200 calls of the last 256 keys, in this process. It is safe
// for concurrent use, and for several budgets.
type Calibrator struct {
	key      func(*http.Request, string, string) string
	quantile float64
	output   bool

	mu   sync.Mutex
	keys map[string]*ratios
	tick uint64
}

const (
	defaultQuantile = 0.95
	calibrateFrom   = 20
	calibrateKeep   = 200
	calibrateKeys   = 256

	// A ratio is of tokens to a quarter of the bytes.
	bytesPerRatio = 4
	minRatio      = 0.25
	maxRatio      = 4
)

// ratios is what is known of one key: rings of the last calls.
type ratios struct {
	in, out ring
	used    uint64
}

type ring struct {
	last   []float32
	next   int
	sorted []float32 // nil when out of date
}

func (r *ring) add(v float32) {
	r.sorted = nil
	if len(r.last) < calibrateKeep {
		r.last = append(r.last, v)
		return
	}
	r.last[r.next] = v
	r.next = (r.next + 1) % calibrateKeep
}

// at returns the quantile q, and false when too little is known.
func (r *ring) at(q float64) (float64, bool) {
	if len(r.last) < calibrateFrom {
		return 0, false
	}
	if r.sorted == nil {
		r.sorted = slices.Clone(r.last)
		slices.Sort(r.sorted)
	}
	return float64(r.sorted[min(int(q*float64(len(r.sorted))), len(r.sorted)-1)]), true
}

// NewCalibrator returns a calibrator that knows nothing yet.
func NewCalibrator(c CalibratorConfig) (*Calibrator, error) {
	if c.Quantile == 0 {
		c.Quantile = defaultQuantile
	}
	if !(c.Quantile > 0 && c.Quantile < 1) {
		return nil, fmt.Errorf("budget: calibrator: Quantile %v: must be above 0 and below 1", c.Quantile)
	}
	if c.Key == nil {
		c.Key = func(_ *http.Request, owner, model string) string { return owner + "\x00" + model }
	}
	return &Calibrator{key: c.Key, quantile: c.Quantile, output: c.Output, keys: make(map[string]*ratios)}, nil
}

// Estimate is a Config.Estimate.
func (c *Calibrator) Estimate(req *http.Request, body []byte) int64 {
	if len(body) == 0 {
		return EstimateBody(req, body)
	}
	r := modelapi.ParseRequest(path(req), body)
	size := int64(len(body))
	if req != nil {
		size = max(size, req.ContentLength)
	}
	in, out := float64(size)/bytesPerToken, float64(r.MaxOutput)
	if r.MaxOutput <= 0 {
		out = unsaidOutput
	}
	name := c.keyOf(req, r.Model)
	c.mu.Lock()
	if k := c.keys[name]; k != nil {
		if q, ok := k.in.at(c.quantile); ok {
			in = float64(size) / bytesPerRatio * min(max(q, minRatio), maxRatio)
		}
		if q, ok := k.out.at(c.quantile); ok && c.output {
			out *= min(q, 1)
		}
	}
	c.mu.Unlock()
	return max(int64(math.Ceil(min(in, MaxAmount/2))+math.Ceil(min(out, MaxAmount/2))), 1)
}

// Charge is a Config.Charge: the function [Charge], which also learns. A Charge
// of your own can call it and leave its result.
func (c *Calibrator) Charge(call Call) int64 {
	if req := call.Request; req != nil && call.HasUsage && call.Complete && call.Usage.Total() > 0 {
		c.learn(req, call.Usage)
	}
	return Charge(call)
}

func (c *Calibrator) learn(req *http.Request, u Usage) {
	size := req.ContentLength
	var r modelapi.Request
	if req.GetBody != nil {
		if rd, err := req.GetBody(); err == nil {
			body, err := io.ReadAll(io.LimitReader(rd, maxEstimateBody))
			_ = rd.Close()
			if err != nil {
				return
			}
			r, size = modelapi.ParseRequest(path(req), body), max(size, int64(len(body)))
		}
	} else {
		r = modelapi.ParseRequest(path(req), nil)
	}
	if size <= 0 {
		return
	}
	name := c.keyOf(req, r.Model)
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[name]
	if k == nil {
		c.forget()
		k = new(ratios)
		c.keys[name] = k
	}
	c.tick++
	k.used = c.tick
	k.in.add(float32(float64(u.Input) * bytesPerRatio / float64(size)))
	if r.MaxOutput > 0 {
		k.out.add(float32(float64(u.Output) / float64(r.MaxOutput)))
	}
}

func (c *Calibrator) keyOf(req *http.Request, model string) string {
	owner := ""
	if req != nil {
		if b := call.From(req.Context()); b != nil {
			owner = b.Owner
		}
	}
	return c.key(req, owner, model)
}

// forget makes room for a key; c.mu is held.
func (c *Calibrator) forget() {
	if len(c.keys) < calibrateKeys {
		return
	}
	oldest, at := "", uint64(math.MaxUint64)
	for name, k := range c.keys {
		if k.used < at {
			oldest, at = name, k.used
		}
	}
	delete(c.keys, oldest)
}
