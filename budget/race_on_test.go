//go:build race

package budget_test

// What the race detector makes slow and has no interest in: single-threaded
// nights by the thousand.
const (
	cutNights = 2000
	raced     = true
)
