package retry

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/chain"
	"github.com/nightfuse/nightfuse/internal/modelapi"
	"github.com/nightfuse/nightfuse/internal/neterr"
)

// Decision is what Config.Classify says about a call. Its zero value means "as
// you would".
type Decision struct {
	// Action is what to do.
	Action Action
	// Wait is the least wait before another attempt; it has the weight of a
	// server's hint. 0 = what the answer says.
	Wait time.Duration
}

// Action is what to do after a call.
type Action int

// The actions.
const (
	Auto   Action = iota // as the package would
	Again                // a failure worth another attempt
	GiveUp               // a failure that no attempt can cure
	Accept               // no failure: a 2xx answer is passed on unjudged. Ignored for errors and other answers
)

// kind is what a failure means for the item.
type kind int

const (
	again   kind = iota // another attempt can help
	once                // another attempt can help, one time
	daily               // Gemini's daily quota with a short hint: again, one time
	final               // another attempt cannot help
	refused             // a guard said no
	ended               // the caller's context is over
)

// failure is what one attempt met.
type failure struct {
	kind   kind
	err    error
	cause  error // what an [Error] has as its Cause when it ends here; nil = ErrFinal
	hint   time.Duration
	hinted bool
	unsent bool // the attempt never left the process
	firm   bool // the caller's own word, not to be asked about

	refusal error // what an item in Hold waits for

	status int
	code   string
	header http.Header
	body   []byte
}

// retriedStatus reports whether an answer of this status is worth another
// attempt by itself, whatever its body says.
func retriedStatus(s int) bool {
	switch s {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported, http.StatusNetworkAuthenticationRequired:
		return false
	}
	return s >= 500 && s <= 599
}

// judgeError says what an attempt's error means. ctx is the caller's context;
// item, which may be nil, knows of refusals that a client in between has
// replaced by a text.
func judgeError(ctx context.Context, item *call.Item, err error, now time.Time) failure {
	f := failure{err: err, unsent: call.NotSent(err), status: modelapi.StatusOf(err)}
	if call.RefusedBy(err) != "" {
		f.kind, f.unsent = refused, true
		return f
	}
	if ctx.Err() != nil {
		f.kind = ended
		return f
	}
	if e := (*Error)(nil); errors.As(err, &e) && e.Cause == errLimit && e.NotSent() {
		// A limit that was set further in. Nothing was sent, so what the call
		// before met stays the last.
		f.kind, f.err, f.unsent = ended, errLimit, true
		return f
	}
	if at, ok := call.RetryAt(err); ok {
		f.hint, f.hinted = max(at.Sub(now), 0), true
	}
	if s := (*stopError)(nil); errors.As(err, &s) {
		f.kind, f.firm = final, true
		return f
	}
	if a := (*afterError)(nil); errors.As(err, &a) {
		f.kind, f.hint, f.hinted = again, a.d, true
		return f
	}
	if ok, said := call.Retryable(err); said {
		if !ok {
			f.kind = final
		}
		return f
	}
	if v, ok := modelapi.OfError(err, now); ok {
		if answer, bad := judgeAnswer(v); bad {
			answer.err = err
			if f.hinted {
				answer.hint, answer.hinted = f.hint, true
			}
			return answer
		}
	}
	k := neterr.Of(ctx, err)
	switch k {
	case neterr.NoHost, neterr.Cert, neterr.Bad:
		f.kind = final
		return f
	case neterr.Canceled, neterr.Deadline:
		f.kind = ended
		return f
	}
	if errors.Is(err, chain.ErrOrder) || errors.Is(err, chain.ErrNilPart) || errors.Is(err, chain.ErrNoResponse) {
		f.kind = final
		return f
	}
	if k == neterr.Unknown || k == neterr.Timeout {
		// Only a text is left of it, perhaps, of what a guard said.
		if r := item.Refusal(); r != nil && call.RefusedBy(r) != "" {
			f.kind, f.err, f.unsent = refused, r, true
		}
	}
	return f
}

// judgeAnswer says what an answer means, and false when it is none of a
// failure. A verdict without a class (nothing known of the body) is judged by
// its status.
func judgeAnswer(v modelapi.Verdict) (failure, bool) {
	status := v.Effective()
	f := failure{status: status, code: v.Code, hint: v.Wait, hinted: v.Waits}
	class := v.Class
	if v.Status < 400 && (class == modelapi.OK || class == modelapi.Unjudged) {
		return failure{}, false
	}
	f.err = &answerError{status: status, code: v.Code, text: v.Text, body: v.What(), err: v.Err, verdict: v}
	if v.Status < 400 {
		f.cause = ErrBody
		switch class {
		case modelapi.Empty:
			f.kind = once
			return f, true
		case modelapi.Truncated:
			f.kind = final
			if v.Err != nil {
				f.kind = again // broken off on the way, not at a token limit
			}
			return f, true
		case modelapi.Refused:
			f.kind = final
			return f, true
		}
	}
	switch class {
	case modelapi.Quota:
		f.kind = final
	case modelapi.QuotaPerDay:
		f.kind = daily
	case modelapi.RateLimited, modelapi.Overloaded, modelapi.Timeout:
		f.kind = again
	case modelapi.Auth, modelapi.BadRequest:
		f.kind = final
	default:
		f.kind = again
	}
	if v.Status >= 400 || v.Inner != 0 {
		// The documented table of statuses is this package's own. What a body
		// says goes before it where it is about quota or overload.
		switch class {
		case modelapi.Quota, modelapi.QuotaPerDay, modelapi.RateLimited, modelapi.Overloaded:
		default:
			f.kind = again
			if !retriedStatus(status) {
				f.kind = final
			}
		}
	}
	if v.Should {
		f.kind = final
		if v.Retry {
			f.kind = again
		}
	}
	return f, true
}

// classify lets the user's Classify change what the package says of a failed
// call.
func (r *Retrier) classify(req *http.Request, resp *http.Response, err error, f failure) (failure, Action) {
	if r.cfg.Classify == nil || f.firm || f.kind == refused || f.kind == ended {
		return f, Auto
	}
	d := r.cfg.Classify(req, resp, err)
	switch d.Action {
	case Again:
		f.kind = again
	case GiveUp:
		f.kind = final
	}
	if d.Wait > 0 {
		f.hint, f.hinted = d.Wait, true
	}
	return f, d.Action
}
