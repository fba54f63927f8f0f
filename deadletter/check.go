package deadletter

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nightfuse/nightfuse/internal/nils"
)

// The largest payload a store can be told to keep, and the smallest segment.
const (
	maxMaxPayload = 256 << 20
	minSegment    = 4 << 10
)

func (c StoreConfig) check() error {
	var errs []error
	if c.MaxPayload < 0 || c.MaxPayload > maxMaxPayload {
		errs = append(errs, fmt.Errorf("deadletter: MaxPayload %d is not between 0 and %d", c.MaxPayload, maxMaxPayload))
	}
	if c.Segment != 0 && c.Segment < minSegment {
		errs = append(errs, fmt.Errorf("deadletter: Segment %d is below %d", c.Segment, minSegment))
	}
	if c.LockWait < 0 {
		errs = append(errs, fmt.Errorf("deadletter: LockWait %v is negative", c.LockWait))
	}
	errs = append(errs, nils.Field("deadletter: Clock", c.Clock))
	return errors.Join(errs...)
}

// filled returns c with the defaults in place of zeros.
func (c StoreConfig) filled() StoreConfig {
	if c.MaxPayload == 0 {
		c.MaxPayload = DefaultMaxPayload
	}
	if c.Segment == 0 {
		c.Segment = 64 << 20
	}
	if c.LockWait == 0 {
		c.LockWait = 10 * time.Second
	}
	c.Clock = orReal(c.Clock)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// fits says why r cannot be kept.
func (c StoreConfig) fits(r Record) error {
	if n := int64(len(r.Payload)); n > c.MaxPayload {
		return fmt.Errorf("%w: payload of %d bytes, limit %d", ErrTooLarge, n, c.MaxPayload)
	}
	if r.Queue == "" || (r.ItemID == "" && r.ID == "") {
		return errors.New("deadletter: a record needs a queue and an item id")
	}
	if len(r.ID) > maxID {
		return fmt.Errorf("%w: record id of %d bytes, limit %d", ErrTooLarge, len(r.ID), maxID)
	}
	n := len(r.Queue) + len(r.ItemID) + len(r.RunID) + len(r.URL) + len(r.Owner) + len(r.Method)
	for k, vs := range r.Header {
		for _, v := range vs {
			n += len(k) + len(v)
		}
	}
	for k, v := range r.Labels {
		n += len(k) + len(v)
	}
	// A byte may take six in JSON; the texts of the error are cut, not counted.
	if n > maxHead/8 {
		return fmt.Errorf("%w: %d bytes of ids, URL, headers and labels, limit %d", ErrTooLarge, n, maxHead/8)
	}
	return nil
}

func (r ClaimReq) check() error {
	var errs []error
	if r.N < 0 {
		errs = append(errs, fmt.Errorf("deadletter: claim of %d letters", r.N))
	}
	if r.Lease < 0 {
		errs = append(errs, fmt.Errorf("deadletter: a lease of %v", r.Lease))
	}
	if r.Order != Oldest && r.Order != Cheapest {
		errs = append(errs, fmt.Errorf("deadletter: unknown order %d", r.Order))
	}
	return errors.Join(errs...)
}

func (r ClaimReq) filled() ClaimReq {
	if r.Lease == 0 {
		r.Lease = defaultLease
	}
	return r
}

func (o Outcome) check() error {
	if o.Verb < Ack || o.Verb > Revive {
		return fmt.Errorf("deadletter: unknown verb %d", o.Verb)
	}
	return nil
}
