// Package retry repeats failed model calls within stated bounds, and fails
// loudly.
//
// A [Retrier] is a policy that any number of goroutines share. It has two
// forms: [Do] around a function, and [NewTransport] around an HTTP transport.
//
//	again, err := retry.New(retry.Config{})             // 4 calls, full jitter from 1.5 s
//	client := &http.Client{Transport: retry.NewTransport(nil, again)}
//	text, err := retry.Do(ctx, again, summarise, pace, up, day)
//
// # What it promises
//
// At most Attempts calls for an item, however many layers of this module retry:
// only the outermost does, and a retry inside it does nothing at all, so it
// judges no bodies and sets no time limits either. With Hold an item may make
// more calls in an outage, since a failure that a refusal follows is not
// charged; the limit of [WithLimit] always holds. Waits are drawn from
// [0, min(Max, Base*2^(n-1))].
// What a server asks to wait is a floor with that jitter on top of it, never
// less; a hint of 0 or in the past leaves the plain backoff. Where the hint
// goes beyond MaxHint, MaxElapsed or the caller's deadline, the item ends now,
// with the upstream's own failure and a "not before". The error is nil if and
// only if the last call succeeded. Otherwise it is an [*Error]: calls, time,
// why it ended, what the last call met, status, headers, the head of the body.
// errors.Is finds why it ended as well as what the last call met.
//
// # What is retried
//
//	what an attempt met                             what follows
//	408, 425, 429, 5xx except 501, 505, 511         another attempt
//	other 4xx, 501, 505, 511                        final; the transport returns the answer as it came
//	quota and billing codes, whatever the status    final
//	Gemini's daily quota with a short hint          another attempt, once
//	throttling and overload codes                   another attempt
//	x-should-retry: true, false                     what it says
//	connection refused, reset, EOF, GOAWAY          another attempt
//	certificate, bad URL, NXDOMAIN                  final
//	an own time limit                               another attempt
//	the caller's cancel or deadline                 final
//	an error object under 2xx                       as its inner code says
//	a web page under 2xx, to a POST                 another attempt
//	an empty answer, a placeholder                  another attempt, once
//	a truncated answer, a refusal by the model      final
//	a 2xx body that breaks off before its end       another attempt
//	a guard's refusal (breaker, budget, pacer)      final and unsent, no attempt; with Hold: waited for
//	Stop(err), After(d, err)                        final, another attempt
//	an error with Retryable() bool                  what it says
//	an SDK's error with an HTTP status in it        as its answer would be: status, code, wait hint
//	any other error                                 another attempt
//
// Config.Classify is asked about everything but the caller's cancel, refusals
// and Stop. Config.Validate takes the place of the rules about empty, truncated
// and refused answers and placeholders.
//
// POST is retried, since nearly all model calls are POSTs. A call that was
// refused (429, 503, 529, no connection) costs nothing. After a timeout, a
// reset, a 500 or a 504 the upstream may have generated an answer, and it may
// be paid twice; Classify sees the request and may say GiveUp.
//
// # The transport
//
// The caller's request is not modified. Its body is taken from GetBody, also
// for the first attempt, else copied up to 4 MiB; a larger one is sent once,
// and a failure worth a retry then has [ErrReplay] as its Cause. A rejected
// answer is drained (64 KiB, JSON 4 MiB, 2 s) and closed before the wait. A final
// one that is slower is judged by what has come in this time, and the rest of it
// is handed on. AttemptTimeout ends with the response's headers and stands still
// in a pacer's queue, IdleTimeout bounds each read; the base must end its reads when the request's context ends, as
// net/http does. Redirects, cookies and the pool are left to the client.
//
// A 2xx answer that is JSON is held, up to 4 MiB, and judged before it is
// returned; plain text passes as it comes. A stream of events that answers a POST is returned with
// its first event, and where that is an error the item goes on as with any error
// under 2xx, since nothing was handed on. From there on it passes as it comes:
// its verdict arrives with its end, and a stream that failed ends with an *Error
// in place of io.EOF. A reader that stops at the terminal event, as SDKs do, learns of a bad one from
// [WithOutcome], the stats or the dead letters. An item whose body is never
// closed never ends.
//
// For requests with an Idempotency-Key net/http repeats a POST by itself when a
// kept connection turns out dead. The transport takes that over, so that calls
// reported are calls made. GET without a body it cannot take over. A request
// that the server has not processed (REFUSED_STREAM, a GOAWAY before it, a kept
// connection that is gone before a byte was written) net/http sends again by
// itself as well: it is one call, the one that the server has taken.
//
// # SDKs retry too
//
// An SDK that makes 3 calls of its own above 4 of ours makes 12. Set its
// retries to 0:
//
//	openai-go, anthropic-sdk-go   option.WithMaxRetries(0)
//	aws-sdk-go-v2 (Bedrock)       o.Retryer = aws.NopRetryer{}
//	google genai                  leave HTTPOptions.RetryOptions nil
//	cohere-go                     option.WithMaxAttempts(1)
//	go-openai, langchaingo        nothing to do
//
// Where that is forgotten: requests that carry X-Stainless-Retry-Count get a
// response for every failure, stamped X-Should-Retry: false, which those SDKs
// obey (see [ExhaustedAuto]). Where the failure came with no answer of 400 or
// above that is a 503 with {"error":{"message","type","code"}}: its type is
// nightfuse_refused_by_breaker, nightfuse_refused_by_budget or
// nightfuse_refused_by_pacer for a refusal, else nightfuse_failed, and its code
// is the provider's or the same as the type. *Error answers RetryableError() false, which the
// AWS SDK asks; a repetition by an SDK is counted in Stats.Foreign and logged
// once. [WithLimit] bounds the calls under a context whoever repeats them.
//
// http.Client.Timeout covers all attempts and the waits between them. Leave it
// at 0, or above what the attempts may take in all: AttemptTimeout and
// IdleTimeout bound each of them.
//
// # Numbers
//
// [Stats.CallsPerDone] is the number to watch: calls spent per item that
// succeeded. Recent has it for the last 15 minutes, with quantiles of the time
// that items took.
//
// # Departures
//
// The sketch that this package came from retried 429, 500, 502, 503 and 504;
// the statuses of edges and overload (408, 425, 520-529) are retried as well.
// An Error's count of calls is the field Calls, since Attempts is the method
// that other packages ask for.
//
// # What it does not do
//
// It does not resume a stream that broke off, does not hedge, does not follow
// redirects, does not know which calls are safe to repeat, keeps nothing across
// processes, and does not wait for budget windows: Hold is for minutes. Error
// texts are scrubbed, but http.Client puts the request's URL before them, so
// keys belong in headers.
package retry
