// Package fakemodel is a metered model API that is not there: it answers
// chat-completions requests in OpenAI's shape, counts what it is asked, and
// fails exactly as often, as long and in the way it is told to.
//
// One [Model] has two forms. As an [http.RoundTripper] it needs no socket and
// spends its latency on timers, so that a night of hours passes in
// milliseconds inside a testing/synctest bubble. As an [http.Handler] it is
// served by [Model.Start] on loopback, or by [Model.StartPipe] over in-memory
// connections, which brings net/http's own client and server into a bubble.
//
//	model, err := fakemodel.New(fakemodel.Config{
//		Seed:    1,
//		Limits:  fakemodel.Limits{RPM: 600, Burst: 10},
//		Latency: fakemodel.Latency{Median: 2 * time.Second, Sigma: 0.5, Reject: 50 * time.Millisecond},
//		Faults:  fakemodel.Faults{Poison: fakemodel.Pick{Share: 0.02}},
//	})
//	client := &http.Client{Transport: model}
//
// # What decides an answer
//
// The steps are taken in this order; the first that objects answers.
//
//	step                            answer                          depends on
//	path, method, body              404, 405, 413, 400              the request
//	Key                             401 invalid_api_key             the request
//	Faults.Always                   its status                      nothing
//	Faults.Outages                  503 or its status               time
//	Faults.Every                    429 or its status               order of arrival
//	Limits                          429, one of three codes         time, earlier calls
//	Faults.Poison                   400 invalid_request_error       seed, item
//	Faults.Hang                     none until the context ends     seed, item, attempt
//	Faults.Flaky                    500 server_error                seed, item, attempt
//	Faults.ErrorIn200               200 with an error object        seed, item, attempt
//	Faults.Empty, Faults.EmptyOnce  200 without content             seed, item
//	Faults.Cut, Faults.Stall        200, a stream that breaks off   seed, item, attempt
//	none of these                   200 with a summary              the prompt
//
// An item is a hash of the request's messages. Its attempts are counted from 1
// and only when a call reaches the steps below Limits: what a refused call
// would have met is met by the next one. So the fates and latencies that an
// item goes through are the same in whatever order the calls arrive, however
// many workers send them and however often they are refused in between.
//
// # Time
//
// With no Clock all time is the runtime's, which is virtual inside a bubble.
// Buckets count in whole nanoseconds and whole tokens without rounding: a bucket of 600 a
// minute has its next token after exactly 100 ms.
//
// # Who asks
//
// A request may name its user in the header [UserHeader] or in the body's
// "user" field. Users share every limit and are counted apart, so that a test
// can see what a batch does to a person on the same key.
//
// # What it does not do
//
// No tools, images, logprobs or several choices (n > 1 is a 400), no other
// endpoint, no TLS, no real tokenizer: a token is four bytes. It does not
// judge the caller: no assertion lives here, tests read [Model.Stats].
package fakemodel
