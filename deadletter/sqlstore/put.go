package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/nightfuse/nightfuse/deadletter"
)

// Limits of this store, beside those of every store.
const (
	maxQueue = 256     // bytes of a queue's name, which is part of an index
	maxBy    = 1 << 10 // bytes of a claimer's name
)

// putTime bounds a Put whose context has no deadline.
const putTime = 30 * time.Second

// Put is [deadletter.Writer]. Once begun it goes on when ctx is cancelled, but
// ends with its deadline, or after 30 s when there is none; what the error says
// may then be done all the same.
func (s *Store) Put(ctx context.Context, r deadletter.Record) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	in, err := deadletter.Prepare(r, s.max, now)
	if err != nil {
		return err
	}
	if len(in.Queue) > maxQueue {
		return fmt.Errorf("%w: queue name of %d bytes, limit %d", deadletter.ErrTooLarge, len(in.Queue), maxQueue)
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	return s.change(ctx, "put", in.ID, now, func(old *row) (next, error) {
		if old == nil {
			return next{rec: in, body: bodyOf(in)}, nil
		}
		was, err := old.record(time.Time{})
		if err != nil {
			s.log.Error("deadletter/sqlstore: a damaged letter is replaced", "id", in.ID, "error", err)
			was = old.remains()
		}
		to := next{rec: deadletter.Merge(was, in), base: old.base}
		if was.PayloadHash == in.PayloadHash {
			to.payload = old.payload
		} else {
			to.body = bodyOf(in)
		}
		return to, nil
	})
}

// bodyOf returns the payload of r, nil when there is none to store.
func bodyOf(r deadletter.Record) []byte {
	if len(r.Payload) == 0 {
		return nil
	}
	return r.Payload
}

// detached returns a context that ends with ctx's deadline only.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := putTime
	deadline, ok := ctx.Deadline()
	if ok {
		limit = maxPut
	}
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	if !ok {
		return out, cancel
	}
	out, inner := context.WithDeadline(out, deadline)
	return out, func() { inner(); cancel() }
}
