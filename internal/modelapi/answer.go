package modelapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/nightfuse/nightfuse/internal/redact"
)

// AnswerError is an answer that failed, as an error. All guards make theirs
// here, so that what trips a breaker, what ends a retry and what lies in a
// dead letter have one text and one signature.
type AnswerError struct{ v Verdict }

// AsError returns the answer as an error.
func (v Verdict) AsError() *AnswerError { return &AnswerError{v} }

// Error says the status, what is wrong under a good one, and the provider's
// code and message.
func (e *AnswerError) Error() string {
	return AnswerText(e.v.Effective(), e.v.What(), e.v.Code, e.v.Text, e.v.Err)
}

// Unwrap is what ended the body too early.
func (e *AnswerError) Unwrap() error { return e.v.Err }

// StatusCode is the status the answer stands for.
func (e *AnswerError) StatusCode() int { return e.v.Effective() }

// Verdict is what is known of the answer.
func (e *AnswerError) Verdict() Verdict { return e.v }

// What says what is wrong with an answer whose status is a good one, and
// nothing for others.
func (v Verdict) What() string {
	switch {
	case v.Status >= 400:
		return ""
	case v.InBody:
		return strconv.Itoa(v.Status) + " with an error inside"
	case v.Class == Empty:
		return "an empty answer"
	case v.Class == Refused:
		return "the model or a filter declined"
	case v.Err != nil:
		return "the body ended too early"
	case v.Class == Truncated:
		return "a truncated answer"
	case v.Status >= 300:
		return "a redirect that was not followed"
	}
	return RefusedByClassify
}

// RefusedByClassify is what is wrong with an answer that only its caller takes
// for a failure.
const RefusedByClassify = "refused by Classify"

// AnswerText is the text of a failed answer. Parts that are empty are left out.
func AnswerText(status int, what, code, text string, err error) string {
	parts := make([]string, 0, 5)
	if status != 0 {
		parts = append(parts, strings.TrimSpace(strconv.Itoa(status)+" "+http.StatusText(status)))
	}
	for _, s := range []string{what, code, text} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if err != nil {
		parts = append(parts, redact.Err(err, textLimit))
	}
	return strings.Join(parts, ": ")
}
