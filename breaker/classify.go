package breaker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
	"github.com/nightfuse/nightfuse/internal/neterr"
	"github.com/nightfuse/nightfuse/internal/redact"
	"github.com/nightfuse/nightfuse/signature"
)

// Outcome is what a call says about the upstream.
type Outcome uint8

// The outcomes.
const (
	Auto    Outcome = iota // as the package guide's table says
	Success                // it works
	Failure                // it does not; counted
	Fatal                  // it will not: bad key, no credit. Opens at once
	Ignored                // nothing: about the request, or never sent
)

var outcomeNames = [...]string{Auto: "auto", Success: "success", Failure: "failure", Fatal: "fatal", Ignored: "ignored"}

// String returns the outcome's name in lower case.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// unjudged reports whether err, of a call made under ctx, says nothing about
// the upstream: it was never sent, or the caller gave it up.
func unjudged(ctx context.Context, err error) bool {
	if call.RefusedBy(err) != "" || call.NotSent(err) {
		return true
	}
	kind := neterr.Of(ctx, err)
	if kind == neterr.Canceled {
		return !timeLimit(ctx)
	}
	if modelapi.StatusOf(err) != 0 {
		return false // answered, whatever its text looks like
	}
	switch kind {
	case neterr.Bad:
		return true
	case neterr.Unknown, neterr.Broken:
		// Drivers tell a cancel in words of their own, or as a connection that
		// was closed under them.
		return call.CallerGaveUp(ctx) && !timeLimit(ctx)
	}
	return false
}

// timeLimit reports whether ctx was cancelled by a time limit of the layers
// above, which is an upstream that did not answer in time.
func timeLimit(ctx context.Context) bool {
	cause := context.Cause(ctx)
	var limit interface{ Timeout() bool }
	return errors.Is(cause, context.DeadlineExceeded) || errors.As(cause, &limit) && limit.Timeout()
}

// judge is the verdict on an error. What an SDK's error keeps of an answer
// counts like the answer.
func judge(ctx context.Context, err error, now time.Time) Result {
	r := Result{Err: err}
	switch {
	case err == nil:
		r.Outcome = Success
	case unjudged(ctx, err):
		r.Outcome = Ignored
	default:
		v, answered := modelapi.OfError(err, now)
		if !answered {
			r.Outcome = Failure
			break
		}
		r = judgeAnswer(ctx, v)
		r.Err = err
		if _, told := call.RetryAt(err); told {
			r.Wait = 0 // its own word goes first
		}
	}
	return r
}

// judgeStatus is the verdict on an HTTP status of which no more is known.
func judgeStatus(status int) Outcome {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired:
		return Fatal
	case http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return Failure
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return Ignored
	}
	switch {
	case status >= 500:
		return Failure
	case status >= 400:
		return Ignored
	}
	return Success
}

// judgeAnswer is the verdict on an answer that has ended.
func judgeAnswer(ctx context.Context, v modelapi.Verdict) Result {
	r := Result{Err: v.Err, Wait: v.Wait}
	if v.Err != nil && v.Status < 400 {
		// A stream that died. The caller's cancel is no verdict.
		r.Outcome, r.Err = Failure, v.AsError()
		if unjudged(ctx, v.Err) {
			r.Outcome = Ignored
		}
		return r
	}
	if v.Status >= 400 || v.Inner != 0 || v.Class == modelapi.Empty {
		r.Err = v.AsError()
	}
	switch v.Class {
	case modelapi.OK:
		r.Outcome = Success
	case modelapi.RateLimited, modelapi.Overloaded, modelapi.Timeout, modelapi.Empty:
		r.Outcome = Failure
	case modelapi.Quota:
		r.Outcome = Fatal
	case modelapi.QuotaPerDay:
		r.Outcome, r.daily = Failure, true
	case modelapi.Auth:
		switch v.Effective() {
		case http.StatusForbidden, http.StatusProxyAuthRequired:
			r.Outcome = judgeStatus(v.Effective())
		default: // also a 400 that is about the key
			r.Outcome = Fatal
		}
	case modelapi.Truncated, modelapi.Refused:
		r.Outcome = Ignored
	case modelapi.BadRequest, modelapi.ServerError:
		r.Outcome = judgeStatus(v.Effective())
		if r.Outcome == Success { // a verdict that stands in a body without a number
			r.Outcome = Ignored
			if v.Class == modelapi.ServerError {
				r.Outcome = Failure
			}
		}
	default: // closed before it could be judged
		r.Outcome = judgeStatus(v.Effective())
	}
	if r.Err == nil && (r.Outcome == Failure || r.Outcome == Fatal) {
		r.Err = v.AsError()
	}
	return r
}

// sign is the signature a failure is counted under.
func sign(r Result) signature.ID {
	if r.Signature != "" || r.Err == nil {
		return r.Signature
	}
	return signature.Of(neterr.Bare(r.Err))
}

// maxReason bounds the text of a failure in the stored state.
const maxReason = 200

// reason is a failure as people read it, without secrets.
func reason(r Result) string {
	if r.Err == nil {
		return "no reason given"
	}
	return redact.Err(r.Err, maxReason)
}

// hint is how long a failure asks to wait.
func hint(r Result, now time.Time) time.Duration {
	if r.Wait > 0 || r.Err == nil {
		return r.Wait
	}
	if at, ok := call.RetryAt(r.Err); ok {
		return at.Sub(now)
	}
	v, _ := modelapi.OfError(r.Err, now)
	return v.Wait
}
