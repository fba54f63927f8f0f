package deadletter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
	"github.com/nightfuse/nightfuse/internal/redact"
	"github.com/nightfuse/nightfuse/signature"
)

// FailureOf returns what a letter keeps of err: signature, status, attempts and
// the not-before time as far as err says so, and its text without secrets. At is
// left zero, which a store takes as now. It is for those who call
// [Claimer.Resolve] themselves.
func FailureOf(err error) Failure {
	if err == nil {
		return Failure{}
	}
	rep := signature.Explain(err)
	f := Failure{
		Attempts:      call.Attempts(err),
		Status:        modelapi.StatusOf(err),
		Signature:     string(rep.ID),
		SignatureText: clip(redact.Text(rep.Template), maxTemplate),
		Err:           redact.Err(err, maxErr),
	}
	if f.Status == 0 {
		f.Status = rep.Status
	}
	if n := len(rep.Causes); n > 0 {
		f.ErrType = rep.Causes[n-1]
	}
	if at, ok := call.RetryAt(err); ok {
		f.RetryAfter = at
	}
	return f
}

// answerError is a failure that came as an answer.
type answerError struct {
	v     modelapi.Verdict
	until time.Time // when the server's wait hint ends
}

func newAnswerError(v modelapi.Verdict, now time.Time) *answerError {
	e := &answerError{v: v}
	if v.Waits {
		e.until = now.Add(v.Wait)
	}
	return e
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("deadletter: the upstream answered %d", e.v.Effective())
	switch e.v.Class {
	case modelapi.Empty:
		text = "deadletter: the answer is empty"
	case modelapi.Truncated:
		text = "deadletter: the answer is cut off"
	case modelapi.Refused:
		text = "deadletter: the model or a filter refused to answer"
	}
	if e.v.Code != "" {
		text += " " + e.v.Code
	}
	if e.v.Text != "" {
		text += ": " + e.v.Text
	}
	if e.v.Err != nil {
		text += ": " + e.v.Err.Error()
	}
	return text
}

func (e *answerError) Unwrap() error   { return e.v.Err }
func (e *answerError) StatusCode() int { return e.v.Effective() }

func (e *answerError) RetryAt() (time.Time, bool) { return e.until, !e.until.IsZero() }

// failed reports whether an answer with this verdict is a failure.
func failed(v modelapi.Verdict) bool {
	switch v.Class {
	case modelapi.OK, modelapi.Unjudged:
		return v.Status >= 400 || v.Err != nil
	}
	return true
}

// fate is what becomes of an item.
type fate int

const (
	done fate = iota
	dead
	pending   // a guard refused a call: it comes again
	cancelled // the caller does not want it any more
	passed    // Classify says that it is no dead letter
)

// fateOf decides about a failed item. ctx is the caller's own.
func (q *Queue) fateOf(ctx context.Context, box *call.Box, resp *http.Response, err error) fate {
	switch {
	case box.Item.Refusal() != nil || call.RefusedBy(err) != "":
		// Also when an attempt before it failed: the item is still open.
		return pending
	case err != nil && call.CallerGaveUp(ctx):
		return cancelled
	}
	if resp != nil {
		err = nil // made of the answer by us
	}
	if q.cfg.Classify != nil && q.cfg.Classify(resp, err) == Pass {
		return passed
	}
	return dead
}

// causeOf returns the error to keep: the noted failure when a client above the
// transport has put a text in its place.
func causeOf(box *call.Box, err error) error {
	f := box.Item.Failure()
	if f == nil || (err != nil && (call.Attempts(err) > 0 || errors.Is(err, f))) {
		return err
	}
	return f
}

// letterAbout returns the record of box's item after it failed with cause.
func (q *Queue) letterAbout(box *call.Box, cause error, now time.Time) Record {
	f := FailureOf(cause)
	if f.Attempts == 0 {
		f.Attempts = box.Item.Calls()
	}
	if f.Attempts == 0 && !call.NotSent(cause) {
		f.Attempts = 1
	}
	return Record{
		Queue: q.cfg.Name, ItemID: box.ID, RunID: q.cfg.RunID,
		LastFailedAt: now, Attempts: f.Attempts, Status: f.Status,
		Signature: f.Signature, SignatureText: f.SignatureText, ErrType: f.ErrType, Err: f.Err,
		RetryAfter: f.RetryAfter,
		Owner:      box.Owner, EstTokens: box.Estimate, Labels: box.Labels,
	}
}
