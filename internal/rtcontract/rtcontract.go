// Package rtcontract is what every http.RoundTripper of the module must do,
// as tests: the contract of net/http's RoundTripper and this module's own
// rules. It runs against each transport by itself and against whole chains,
// with real servers on HTTP/1.1 and HTTP/2 and with bases that misbehave.
//
//	func TestContract(t *testing.T) {
//		rtcontract.Run(t, rtcontract.Subject{
//			New: func(t *testing.T, base http.RoundTripper) http.RoundTripper {
//				return thing.NewTransport(base, newThing(t))
//			},
//		})
//	}
//
// It does not test what a transport is for.
package rtcontract

import (
	"net/http"
	"sync/atomic"
	"testing"
)

// Subject is the transport under test.
type Subject struct {
	// New returns a fresh transport around base, with no state from another.
	// It must wait no real time, also where it repeats; inside a synctest
	// bubble it may wait as long as it likes. It must let pass one failure
	// after another, Attempts at least, without refusing.
	New func(t *testing.T, base http.RoundTripper) http.RoundTripper

	// Refusing returns a transport that refuses the next request unsent; nil
	// where there is none.
	Refusing func(t *testing.T, base http.RoundTripper) http.RoundTripper

	// Attempts is the number of calls made for a request that always gets a
	// 503; 0 = 1.
	Attempts int

	// Calls returns the calls that rt, made by New, has counted; nil where it
	// does not count. At the end of every test they must be as many as the
	// server, or the base, was hit.
	Calls func(rt http.RoundTripper) int
}

// Run runs every test of the contract.
func Run(t *testing.T, s Subject) {
	if s.Attempts == 0 {
		s.Attempts = 1
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, Subject)
	}{
		{"RequestIsNotModified", requestIsNotModified},
		{"BodyIsClosedOnce", bodyIsClosedOnce},
		{"BodyIsClosedOnRefusal", bodyIsClosedOnRefusal},
		{"EqualBytesOnEveryAttempt", equalBytes},
		{"AnswerIsPassedOn", answerIsPassedOn},
		{"StreamsPassFlushByFlush", streamsPass},
		{"UpgradesPass", upgradesPass},
		{"RedirectsAreTheClients", redirects},
		{"AnswersWithoutBody", answersWithoutBody},
		{"NeitherResponseNorError", neither},
		{"ResponseAndError", both},
		{"PanicInTheBase", panics},
		{"GoexitInTheBase", goexits},
		{"CancelInFlight", cancelInFlight},
		{"CancelWhileReading", cancelWhileReading},
		{"CloseBesideRead", closeBesideRead},
		{"UnwrapAndCloseIdle", unwraps},
		{"ManyAtOnce", manyAtOnce},
		{"SilentFailure", silentFailure},
		{"NoGoroutineIsLeft", noGoroutineIsLeft},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, s.counting())
		})
	}
}

// counting returns s with a New that compares, at the end of the test, the
// calls that are reported with the hits.
func (s Subject) counting() Subject {
	if s.Calls == nil {
		return s
	}
	fresh := s.New
	s.New = func(t *testing.T, base http.RoundTripper) http.RoundTripper {
		var hits *atomic.Int64
		switch b := base.(type) {
		case *wired:
			hits = &b.hits
		case roundTrip:
			hits = new(atomic.Int64)
			base = roundTrip(func(req *http.Request) (*http.Response, error) {
				hits.Add(1)
				return b(req)
			})
		default:
			return fresh(t, base) // no test sends through it
		}
		before := hits.Load()
		rt := fresh(t, base)
		t.Cleanup(func() {
			if calls := s.Calls(rt); calls != int(hits.Load()-before) {
				t.Errorf("%d calls are reported, there were %d hits", calls, hits.Load()-before)
			}
		})
		return rt
	}
	return s
}
