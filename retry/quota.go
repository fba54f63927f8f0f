package retry

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
)

// Quota bounds retries over all callers that share it: at most ratio retries
// per call, plus floor. When an upstream is down for everybody, retries stop
// adding to its load, while single failures among many good calls keep theirs.
//
// Every item's first call pays in ratio, good or bad, and every retry takes 1
// when it is decided, before its wait, so sleepers are counted. What is saved
// up is bounded by 1,000 calls' worth and floor. The zero value and a nil
// Quota in [Config] are not the same: the zero value grants no retry. It is
// safe for concurrent use.
type Quota struct {
	left    atomic.Int64 // in units, so that no rounding favours retries
	deposit int64
	most    int64
}

// unit is one retry.
const unit = 1_000_000_000

// NewQuota returns a quota of ratio retries per call plus floor. The ratio must
// lie in [0, 100], floor in [0, 1e6].
func NewQuota(ratio float64, floor int) (*Quota, error) {
	var errs []error
	if !(ratio >= 0 && ratio <= 100) {
		errs = append(errs, fmt.Errorf("retry: the quota's ratio is %v, must be from 0 to 100", ratio))
	}
	if floor < 0 || floor > 1_000_000 {
		errs = append(errs, fmt.Errorf("retry: the quota's floor is %d, must be from 0 to 1000000", floor))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	q := &Quota{deposit: int64(math.Floor(ratio * unit))}
	q.most = int64(floor)*unit + 1000*q.deposit
	q.left.Store(int64(floor) * unit)
	return q, nil
}

// pay pays in for an item's first call.
func (q *Quota) pay() {
	if q != nil {
		q.add(q.deposit)
	}
}

// give gives back a retry that was not made.
func (q *Quota) give() {
	if q != nil {
		q.add(unit)
	}
}

func (q *Quota) add(n int64) {
	for {
		old := q.left.Load()
		sum := min(old+n, max(q.most, old))
		if sum == old || q.left.CompareAndSwap(old, sum) {
			return
		}
	}
}

// take takes one retry, and reports false when there is none.
func (q *Quota) take() bool {
	if q == nil {
		return true
	}
	for {
		old := q.left.Load()
		if old < unit {
			return false
		}
		if q.left.CompareAndSwap(old, old-unit) {
			return true
		}
	}
}
