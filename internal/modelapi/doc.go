// Package modelapi is the one place that knows what the answers of metered
// model APIs mean: which failure a body names, how long the server asks to
// wait, what a call has used. It recognises shapes, not hosts: OpenAI chat
// completions and Responses and what is compatible with them, Anthropic
// messages, Gemini, Bedrock Converse and InvokeModel, Cohere, Ollama.
//
// [Watch] makes the one [View] of a response that all guards of a call share.
// The body passes through it as it comes; a scanner that keeps nothing but the
// values it needs follows the bytes, so a stream is neither held back nor
// copied. Guards hang their settling on [View.OnEnd], which runs before the
// Read or Close that ends the body returns. A guard that must judge before it
// hands the answer on calls [View.Hold].
//
// How a verdict comes about:
//
//	status >= 400       by status and headers at once, refined by the body's own words as they are read
//	1xx, 3xx            OK
//	2xx, error object   what the error stands for, InBody: by its numeric code, else by its type
//	2xx, web page       ServerError standing for 502, InBody, code "html": to a POST only, or where the request is unknown and the Content-Type says so
//	2xx, finish reason  Truncated (a limit), Refused (a filter or the model), ServerError (it came to grief)
//	2xx, model's answer OK with text or a tool call, Refused with a refusal only, else Empty; what shows nothing and reasoning are no text
//	2xx, broken off     Truncated with Err: a read error, JSON that is still open, a stream without its end
//	2xx, unknown shape  OK: embeddings, lists of models, anything that is no answer of a model
//	2xx, unreadable     Unjudged: compressed by the caller's own wish, or a binary event stream
//	2xx, closed early   what was seen so far, OK when that was nothing bad
//
// Of several choices the best one counts. Quota and billing codes count
// whatever the status. Counts of tokens that come in several events are
// cumulative: the last one stands.
//
// [OfError] says the same of an error that a client or SDK has made of an answer,
// as far as it keeps code, headers and body, and [Verdict.AsError] makes the one
// error of an answer that all guards report.
//
// It does not retry, wait or count, does not undo compression, does not read
// Bedrock's binary event streams, and does not know placeholders: text that
// says nothing is still text.
package modelapi
