// Package budget measures reservations beside what else would keep them, all
// in one run, since only ratios within a run mean anything:
//
//	go test -bench . -count 5
//
// It does not judge: a test that insists on nanoseconds fails on a busy machine.
package budget
