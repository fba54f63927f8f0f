package modelapi

import "time"

// Class is what an answer means.
type Class int

// The classes.
const (
	Unjudged    Class = iota // the body has not been seen far enough, or cannot be read (compressed, binary)
	OK                       // an answer that can be used, and 1xx and 3xx
	RateLimited              // slow down: 429 and its like
	Quota                    // quota, credit or billing used up: waiting seconds is no cure
	QuotaPerDay              // a daily quota that arrives with a short hint (Gemini): once more, then final
	Overloaded               // 503, 529, overloaded_error
	Auth                     // 401, 403: the key, not the request
	BadRequest               // about the request: 400, 404, 413, 422 and other 4xx
	Timeout                  // 408, 504, 524: the upstream did not answer in time, and may have generated
	ServerError              // other 5xx
	Empty                    // 2xx without text, tool call or refusal
	Truncated                // 2xx cut off at a token limit, or the body ended too early
	Refused                  // 2xx in which the model or a filter declines
)

var classNames = [...]string{
	Unjudged: "unjudged", OK: "ok", RateLimited: "rate-limited", Quota: "quota", QuotaPerDay: "quota-per-day",
	Overloaded: "overloaded", Auth: "auth", BadRequest: "bad-request", Timeout: "timeout", ServerError: "server-error",
	Empty: "empty", Truncated: "truncated", Refused: "refused",
}

// String returns the class as one lower-case word, for logs and reports.
func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return "unknown"
	}
	return classNames[c]
}

// Verdict is what is known of an answer.
type Verdict struct {
	Class  Class
	Status int    // the HTTP status of the response
	Inner  int    // the HTTP status that an error under a 2xx stands for; 0 = none
	Code   string // the provider's code, or its type where there is no code; the finish reason where the answer was cut off or refused
	Text   string // the provider's message: at most 512 bytes, valid UTF-8, scrubbed of the request's credentials, too

	Wait   time.Duration // how long the server asks to wait, from headers or body
	Waits  bool          // whether it asks at all
	Should bool          // an x-should-retry header is present
	Retry  bool          // what it says

	// Usage is complete only with HasUsage: a stream that broke off has told
	// no more than a part, and absent usage is not zero.
	Usage    Usage
	HasUsage bool

	InBody bool  // the failure stands in a body under a 2xx status
	Ended  bool  // the answer was seen to its end: EOF, a terminal event, or a whole JSON document
	Err    error // the error that ended the body too early; io.ErrUnexpectedEOF also where a clean EOF came too early
}

// Effective returns the HTTP status the verdict stands for: the inner one for
// an error under 200, else the response's own.
func (v Verdict) Effective() int {
	if v.Inner != 0 {
		return v.Inner
	}
	return v.Status
}
