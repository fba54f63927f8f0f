package deadletter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/hook"
	"github.com/nightfuse/nightfuse/internal/modelapi"
	"github.com/nightfuse/nightfuse/internal/neterr"
	"github.com/nightfuse/nightfuse/internal/nils"
	"github.com/nightfuse/nightfuse/internal/redact"
	"github.com/nightfuse/nightfuse/signature"
)

// FailureOf returns what a letter keeps of err: signature, status, attempts and
// the not-before time as far as err says so, and its text without secrets. At is
// left zero, which a store takes as now. It is for those who call
// [Claimer.Resolve] themselves.
func FailureOf(err error) Failure {
	now := orReal(nil).Now()
	if m, ok := err.(*call.Met); ok {
		return failureIn(m.Box, causeOf(m.Box, sound(m.Err)), now)
	}
	return failureOf(sound(err), now)
}

// sound returns err, which somebody else has made, as one that can be asked: a
// letter must not be lost because its error panics. A nil pointer and an error
// that panics become a text that says so.
func sound(err error) (out error) {
	if err = nils.Error(err); err == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			out = fmt.Errorf("%v, a %T that panics when it is asked: %s", err, err, hook.Text(p))
		}
	}()
	failureOf(err, time.Time{})
	call.RefusedBy(err)
	call.NotSent(err)
	errors.Is(err, context.Canceled)
	return err
}

// failureOf is FailureOf for a failure that was met at now.
func failureOf(err error, now time.Time) Failure {
	if err == nil {
		return Failure{}
	}
	rep := signature.Explain(named(err))
	f := Failure{
		Attempts:      call.Attempts(err),
		Status:        modelapi.StatusOf(err),
		Signature:     string(rep.ID),
		SignatureText: clip(redact.Text(rep.Template), maxTemplate),
		Err:           textOf(err),
	}
	if f.Status == 0 {
		f.Status = rep.Status
	}
	if n := len(rep.Causes); n > 0 {
		f.ErrType = rep.Causes[n-1]
	}
	if at, ok := call.RetryAt(err); ok {
		f.RetryAfter = at
	} else if v, ok := modelapi.OfError(err, now); ok && v.Waits {
		f.RetryAfter = now.Add(v.Wait)
	}
	return f
}

// textOf returns err's text, with what names the failure before what the wrappers
// of it say: who reads a list sees its beginning.
func textOf(err error) string {
	text := redact.Err(err, maxErr)
	var s interface{ Signs() error }
	if !errors.As(err, &s) || s.Signs() == nil {
		return text
	}
	own := redact.Err(named(s.Signs()), maxErr)
	i := strings.LastIndex(text, ": "+own)
	if i < 0 || own == "" {
		return text
	}
	return text[i+len(": "):] + " (" + text[:i] + ")"
}

// named returns the error that names the failure, without what http.Client adds:
// a breaker's transport below the client counts it without.
func named(err error) error {
	for range 16 {
		err = neterr.Bare(err)
		s, ok := err.(interface{ Signs() error })
		if !ok {
			break
		}
		in := s.Signs()
		if in == nil {
			break
		}
		err = in
	}
	return err
}

// answerError is a failure that came as an answer.
type answerError struct {
	*modelapi.AnswerError
	until time.Time // when the server's wait hint ends
}

func newAnswerError(v modelapi.Verdict, now time.Time) *answerError {
	e := &answerError{AnswerError: v.AsError()}
	if v.Waits {
		e.until = now.Add(v.Wait)
	}
	return e
}

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

// told is a failure and the text that came in its place or after it.
type told struct {
	signs error  // names the failure: signature, status, attempts
	text  string // of both
}

func (e *told) Error() string { return e.text }
func (e *told) Unwrap() error { return e.signs }
func (e *told) Signs() error  { return e.signs }

// causeOf returns the error that the letter of a function's item tells. err is
// what came out of the function, and may be about another failure than the one
// noted last: the function may have recovered from that. It is the noted one,
// and has the signature that the breaker inside counted, when err wraps it, or
// is a text that lost it: an SDK's for the answer that a retry gave in its place,
// one that repeats it, one with the same status, or the end of a context, which is
// what http.Client and SDKs put in its place. Both texts are kept unless one says
// it all. Where err names no status the letter has the noted one's; see failureIn.
func causeOf(box *call.Box, err error) error {
	noted := box.Item.Failure()
	if noted == nil || err == nil || err == noted {
		return err
	}
	text, before := redact.Err(err, maxErr), redact.Err(noted, maxErr)
	standIn := modelapi.StandIn(err) // whose text may repeat it in JSON
	if errors.Is(err, noted) || !standIn && strings.Contains(text, before) {
		return &told{noted, text}
	}
	if standIn || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || sameStatus(err, noted) {
		return &told{noted, text + ": " + before}
	}
	return &told{err, text + " (the last call failed: " + before + ")"}
}

// discreet returns err without what req was sent with in its text. Its signature
// stays the one that the guards inside have counted.
func discreet(err error, req *http.Request) error {
	text := err.Error()
	if clean := redact.Sent(text, req); clean != text {
		return &told{signs: err, text: clean}
	}
	return err
}

func sameStatus(a, b error) bool {
	s := FailureOf(a).Status
	return s != 0 && s == FailureOf(b).Status
}

// transportCause is causeOf for what came out of a transport: whatever it says,
// it is about the failure noted last.
func transportCause(box *call.Box, err error) error {
	noted := box.Item.Failure()
	if noted == nil || call.Attempts(err) > 0 || errors.Is(err, noted) {
		return err
	}
	return noted
}

// failureIn is failureOf for box's item. What cause does not tell, the failure of
// the item's last call does: the status, and with it until when to wait.
func failureIn(box *call.Box, cause error, now time.Time) Failure {
	f := failureOf(cause, now)
	if noted := box.Item.Failure(); noted != nil && f.Status == 0 {
		last := failureOf(noted, now)
		f.Status = last.Status
		if f.RetryAfter.IsZero() {
			f.RetryAfter = last.RetryAfter
		}
	}
	if f.Attempts == 0 {
		f.Attempts = box.Item.Calls()
	}
	if f.Attempts == 0 && !call.NotSent(cause) && !call.NotSent(box.Item.Failure()) {
		f.Attempts = 1
	}
	return f
}

// letterAbout returns the record of box's item after it failed with cause.
func (q *Queue) letterAbout(box *call.Box, cause error, now time.Time) Record {
	f := failureIn(box, cause, now)
	return Record{
		Queue: q.cfg.Name, ItemID: box.ID, RunID: q.cfg.RunID,
		LastFailedAt: now, Attempts: f.Attempts, Status: f.Status,
		Signature: f.Signature, SignatureText: f.SignatureText, ErrType: f.ErrType, Err: f.Err,
		RetryAfter: f.RetryAfter,
		Owner:      box.Owner, EstTokens: box.Estimate, Labels: box.Labels,
	}
}
