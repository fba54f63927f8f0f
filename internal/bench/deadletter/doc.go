// Package deadletter measures a journal of dead letters beside what else would
// keep them, all in one run and in turns, since only ratios within a run mean
// anything:
//
//	go test -bench . -benchtime 9x
//
// BenchmarkAppend prints the median rates in letters a second, and how much
// faster the journal is than each of the others in the median of the rounds.
// BenchmarkNight opens and shows 40,000 letters. Neither judges: a test that
// insists on milliseconds fails on a busy machine.
package deadletter
