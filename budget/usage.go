package budget

import (
	"context"
	"net/http"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
	"github.com/nightfuse/nightfuse/internal/neterr"
	"github.com/nightfuse/nightfuse/internal/nils"
)

// Usage counts the tokens of one call. Input is everything read, cached tokens
// included; Output everything generated, reasoning included. Cached and
// Reasoning are the parts of these, for a Charge that prices them apart.
type Usage struct{ Input, Output, Cached, Reasoning int64 }

// Total returns Input + Output, or -1 when a count is negative or the sum is
// above MaxAmount: then the counts are not to be believed.
func (u Usage) Total() int64 {
	if u.Input < 0 || u.Output < 0 || u.Cached < 0 || u.Reasoning < 0 || u.Input > MaxAmount || u.Output > MaxAmount-u.Input {
		return -1
	}
	return u.Input + u.Output
}

// ParseUsage reads the usage out of an answer's headers (Bedrock) and whole
// body: the shapes of OpenAI and its compatibles, Anthropic, Gemini, Bedrock,
// Cohere, Mistral. It reports false when there is none. Streams are read as
// they pass, by the transport.
func ParseUsage(h http.Header, body []byte) (Usage, bool) {
	u, ok := modelapi.ParseUsage(h, body)
	return Usage(u), ok
}

// Call is an ended call, as a Charge function sees it.
type Call struct {
	Request  *http.Request // nil for Budget.Do; to be read, not kept
	Estimate int64         // what was reserved
	Sent     bool          // it may have reached the upstream
	Status   int           // the HTTP status; 0 when there was no answer
	Usage    Usage         // as far as it was seen
	HasUsage bool          // the answer names its usage
	Complete bool          // the answer was seen to its end, and it was not an error
	Err      error         // what ended the call, or its body, too early
}

// Charge says what a call has cost in tokens, and errs on the dear side:
//
//	never sent                         0
//	answered, with usage               the usage
//	answered, without usage            the estimate
//	cut off, or an error in the body   the estimate, or the usage if that is more
//	timeout or reset after sending     the estimate
//	408, 499, 504, 524                 the estimate: it may have generated
//	a redirect                         0: the call that follows it pays
//	other 4xx and 5xx                  0: a storm of 529 must not spend the day
//
// Usage that is zero, negative or impossible counts as none.
func Charge(c Call) int64 {
	switch {
	case !c.Sent:
		return 0
	case c.Status == 0:
		return c.Estimate
	case c.Status == http.StatusRequestTimeout, c.Status == 499, c.Status == http.StatusGatewayTimeout, c.Status == 524:
		return c.Estimate
	case c.Status >= 300:
		return 0
	}
	used := int64(0)
	if c.HasUsage {
		used = c.Usage.Total()
	}
	switch {
	case used <= 0:
		return c.Estimate
	case !c.Complete:
		return max(c.Estimate, used)
	}
	return used
}

// WithOwner returns a context whose calls are paid by owner. It may hold for
// one item or for a whole job.
func WithOwner(ctx context.Context, owner string) context.Context {
	b := call.Setting(ctx)
	b.Owner = owner
	return b
}

// WithEstimate returns a context whose calls are reserved at estimate units
// each, whatever Config.Estimate would say. [Budget.Do] needs it.
func WithEstimate(ctx context.Context, estimate int64) context.Context {
	b := call.Setting(ctx)
	b.Estimate = estimate
	return b
}

// Used tells the [Budget.Do] around ctx what the call has really cost; several
// reports add up. Outside of one it does nothing. Safe for concurrent use.
func Used(ctx context.Context, units int64) {
	if b := call.From(ctx); b != nil && b.Used != nil {
		b.Used.Add(units)
	}
}

// Do reserves, calls fn and settles. Owner and estimate come from
// [WithOwner] and [WithEstimate]; fn says what it has cost by [Used], else the
// error it returns decides as in [Charge] (through Config.Charge), and after a
// success the estimate stays. Without an answer's status the estimate stays after
// an error, too, unless a guard inside refused before anything was sent: fn may
// fail at its database after an answer was paid. A client inside with this
// budget's transport reports in fn's place. A refusal is a [*RefusedError], and fn is not
// called. A failed settlement is an event, not Do's error. If fn panics, the
// estimate stays spent.
//
// Within a call that has passed this budget already, Do only calls fn.
func (b *Budget) Do(ctx context.Context, fn func(context.Context) error) error {
	outer := call.From(ctx)
	if outer.Inside(b) {
		return fn(ctx)
	}
	box := call.With(ctx)
	box.Enter(b)
	box.Used = new(call.Used)
	r, err := b.Reserve(box, box.Owner, box.Estimate)
	if err != nil {
		return refused(box, err)
	}
	box.Item.Pass()
	passed := box.Item.Passed()
	defer r.keep() // a panic or Goexit in fn
	err = nils.Error(fn(box))
	actual := r.units
	used, told := box.Used.Sum()
	switch {
	case told:
		actual = used
		if outer != nil && outer.Used != nil {
			outer.Used.Add(used) // another budget or pacer around this one
		}
	case err != nil:
		// fn may have paid for an answer and failed to reach its database
		// afterwards: only a guard's refusal, with nothing let through before
		// it, says that nothing was sent.
		unsent := call.RefusedBy(err) != "" && box.Item.Passed() == passed
		status := modelapi.StatusOf(err)
		if v, ok := modelapi.OfError(err, b.clock.Now()); ok {
			status = v.Status // an error under 200 has been paid, whatever it stands for
		}
		actual = b.charge(Call{Estimate: r.units, Sent: !unsent, Status: status, Err: err})
	default:
		b.noUsage(r)
	}
	r.settle(actual)
	return err
}

// refused notes a refusal for those who look in the box.
func refused(box *call.Box, err error) error {
	if call.RefusedBy(err) != "" {
		box.Item.Refuse(err)
	}
	return err
}

// sent reports whether a call that ended with err may have left the process.
// An error with a status was answered.
func sent(ctx context.Context, err error) bool {
	return err == nil || !call.NotSent(err) && (modelapi.StatusOf(err) != 0 || neterr.Of(ctx, err).Sent())
}

// settle is Reconcile and Cancel for our own use: its errors are events.
func (r *Reservation) settle(actual int64) {
	if actual == 0 {
		_, _ = r.end(context.Background(), 0, true)
		return
	}
	_ = r.Reconcile(context.Background(), actual)
}

// keep ends a reservation that was not ended otherwise: its estimate stays
// spent.
func (r *Reservation) keep() {
	if !r.ended.Load() {
		_, _ = r.end(context.Background(), r.units, false)
	}
}

func (b *Budget) noUsage(r *Reservation) {
	b.mu.Lock()
	b.stats.NoUsage++
	b.mu.Unlock()
	b.emit(r.event(EventNoUsage, r.units, nil))
}
