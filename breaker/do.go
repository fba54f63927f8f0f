package breaker

import (
	"context"
	"errors"
	"fmt"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/nils"
)

// Do calls fn if the breaker lets it, and judges its error as Done does with
// Auto. A refusal is an *OpenError and fn is not called; else the error is fn's
// own. A panic of fn is a failure and goes on; a Goexit is ignored. Inside
// another Do of the same breaker, and around a client with its transport, the
// call is asked for once.
func (b *Breaker) Do(ctx context.Context, fn func(context.Context) error) error {
	if call.From(ctx).Inside(b) {
		return fn(ctx)
	}
	if ctx.Err() != nil {
		return call.Stopped(ctx, "breaker: not asked")
	}
	box := call.With(ctx)
	p, err := b.Allow(ctx)
	if err != nil {
		if call.RefusedBy(err) != "" {
			box.Item.Refuse(err)
		}
		return err
	}
	box.Enter(b)
	box.Probe = box.Probe || p.Probe()
	box.Item.Pass()
	returned := false
	defer p.settleUnwound(&returned)
	err = nils.Error(fn(box))
	r := b.classified(ctx, err)
	returned = true
	p.Done(r)
	return err
}

func (b *Breaker) classified(ctx context.Context, err error) Result {
	r := Result{Err: err}
	if b.cfg.Classify != nil {
		r.Outcome = b.cfg.Classify(nil, err)
	}
	return r
}

// settleUnwound settles a permit whose call, or its Classify, has not returned. It must be
// deferred itself, or recover would see nothing.
func (p *Permit) settleUnwound(returned *bool) {
	if *returned {
		return
	}
	v := recover()
	if v == nil { // runtime.Goexit
		p.Ignore()
		return
	}
	p.Done(Result{Outcome: Failure, Err: panicked(v)})
	panic(v)
}

func panicked(v any) error {
	if err, ok := v.(error); ok {
		return fmt.Errorf("panic: %w", err)
	}
	return errors.New("panic: " + fmt.Sprint(v))
}
