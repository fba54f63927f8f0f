package retry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/internal/call"
	"github.com/nightfuse/nightfuse/internal/modelapi"
	"github.com/nightfuse/nightfuse/internal/redact"
)

// Why an item ended. An [Error] has one of these as its Cause, or the refusal
// of a guard, or the context's error.
var (
	// ErrExhausted: all attempts were made, or a limit of WithLimit is used up.
	ErrExhausted = errors.New("attempts used up")
	// ErrElapsed: MaxElapsed would pass before the next attempt.
	ErrElapsed = errors.New("no time left for another attempt")
	// ErrHint: the server asks to wait longer than there is time or MaxHint
	// allows.
	ErrHint = errors.New("the server asks for a longer wait")
	// ErrQuota: the shared Quota grants no retry.
	ErrQuota = errors.New("no retry left in the shared quota")
	// ErrBody: the answer came with a 2xx status and cannot be used.
	ErrBody = errors.New("the answer cannot be used")
	// ErrFinal: another attempt cannot help.
	ErrFinal = errors.New("not worth another attempt")
	// ErrReplay: the request body cannot be sent again: it has no GetBody and
	// is larger than 4 MiB, so there was a single attempt.
	ErrReplay = errors.New("the request body cannot be sent again")
)

// errLimit is the cause when a limit of WithLimit is used up.
var errLimit = fmt.Errorf("%w: the context's limit of calls is reached", ErrExhausted)

// Error is why an item failed: how much was spent on it, why it ended, and what
// the last call met. errors.Is and errors.As find both Cause and Last.
//
// It has the behaviours Attempts, StatusCode, RetryAt, RefusedBy, NotSent,
// Retryable, RetryableError and Signs that the module's other packages ask for. An Error
// is not modified after it was returned.
type Error struct {
	Calls   int           // calls sent; Attempts() returns the same
	Elapsed time.Duration // from the begin of the first call
	Cause   error         // why it ended: see the ErrX, or a refusal, or the context's error
	Last    error         // the last call's failure; nil when none was sent

	// The last answer, when there was one. Header holds only headers that may
	// be kept; Body is the body's head, at most 8 KiB, as it came: it may hold
	// what the upstream echoes of the request.
	Status int
	Code   string // the provider's code
	Header http.Header
	Body   []byte

	NotBefore time.Time // when the upstream asked to be called again; IsZero when it did not
}

const (
	snippet  = 200 // bytes of the body in an error's text
	textSize = 512 // bytes of another error's text in ours
)

// Error says how many calls in what time, why it ended, until when, and the
// last failure with a scrubbed snippet of the answer's body.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("retry: ")
	switch {
	case e.Calls == 0:
		b.WriteString("not sent: ")
	case e.Calls == 1:
		fmt.Fprintf(&b, "1 call in %v: ", round(e.Elapsed))
	default:
		fmt.Fprintf(&b, "%d calls in %v: ", e.Calls, round(e.Elapsed))
	}
	b.WriteString(redact.Err(e.Cause, textSize))
	if !e.NotBefore.IsZero() {
		b.WriteString(" (not before ")
		b.WriteString(e.NotBefore.UTC().Format(time.RFC3339))
		b.WriteString(")")
	}
	if e.Last != nil && e.Last != e.Cause {
		b.WriteString(": ")
		b.WriteString(redact.Err(e.Last, textSize))
	}
	if a, ok := e.Last.(*answerError); ok && a.text == "" && len(e.Body) > 0 {
		b.WriteString(": ")
		b.WriteString(cut(e.Body, snippet))
	}
	return b.String()
}

// round keeps a duration readable.
func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// cut returns at most n bytes of a body as one line of scrubbed text, with a
// mark where something is missing.
func cut(body []byte, n int) string {
	// Scrubbed before it is cut: half a secret would not be recognised.
	s := redact.Text(strings.ToValidUTF8(string(body[:min(len(body), 4*n)]), "?"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= n && len(body) <= 4*n {
		return s
	}
	s = s[:min(len(s), n)]
	for len(s) > 0 && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "..."
}

// Unwrap returns Cause and Last.
func (e *Error) Unwrap() []error {
	if e.Last == nil || e.Last == e.Cause {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Last}
}

// Attempts returns the calls sent for the item.
func (e *Error) Attempts() int { return e.Calls }

// StatusCode returns the HTTP status of the last failure, for an error under
// 200 the status that it stands for; 0 when there was none.
func (e *Error) StatusCode() int { return e.Status }

// RetryAt returns when the upstream or the refusing guard asked to be called
// again, and false when neither did.
func (e *Error) RetryAt() (time.Time, bool) {
	if !e.NotBefore.IsZero() {
		return e.NotBefore, true
	}
	return call.RetryAt(e.Cause)
}

// RefusedBy returns which guard refused the item ("breaker", "budget",
// "pacer") when a refusal ended it, else "".
func (e *Error) RefusedBy() string { return call.RefusedBy(e.Cause) }

// NotSent reports whether no call was made.
func (e *Error) NotSent() bool { return e.Calls == 0 }

// Retryable is false: a retry above must not multiply the attempts.
func (e *Error) Retryable() bool { return false }

// RetryableError is false, which is how the AWS SDK asks.
func (e *Error) RetryableError() bool { return false }

// Signs returns the error that names the failure: the last one, not the way
// the item ended.
func (e *Error) Signs() error {
	if e.Last != nil {
		return e.Last
	}
	return e.Cause
}

// answerError is the failure that an HTTP answer is.
type answerError struct {
	status int
	code   string
	text   string // scrubbed
	body   string // what is wrong with a body under a good status, "" when nothing
	err    error  // what Validate or the body's reader said

	verdict modelapi.Verdict
}

func (e *answerError) Error() string {
	return modelapi.AnswerText(e.status, e.body, e.code, e.text, e.err)
}

// Verdict is what is known of the answer; its zero value where the failure is
// not the answer's own.
func (e *answerError) Verdict() modelapi.Verdict { return e.verdict }

func (e *answerError) Unwrap() error   { return e.err }
func (e *answerError) StatusCode() int { return e.status }

// Is makes ErrBody found also where the attempts ran out on such answers.
func (e *answerError) Is(target error) bool { return target == ErrBody && e.body != "" }

// timeoutError is an own time limit that ran out during an attempt.
type timeoutError struct {
	what string
	d    time.Duration
}

func (e *timeoutError) Error() string   { return fmt.Sprintf("%s within %v", e.what, e.d) }
func (e *timeoutError) Timeout() bool   { return true }
func (e *timeoutError) Temporary() bool { return true }

// contextError returns what ended ctx so that errors.Is finds both the
// context's error and its cause.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
