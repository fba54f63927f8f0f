// Package retry compares retry with its peers, in one run:
//
//	cd internal/bench/retry && go test -bench . -count 5
//
// It is a module of its own, so that nobody who imports nightfuse gets the
// peers with it.
package retry
