//go:build race

package deadletter_test

// What the race detector makes slow and has no interest in: every offset of a
// file, thousands of letters. The steps are odd, so every bit of a byte has its
// turn.
const (
	bitStep     = 61
	cutStep     = 7
	manyLetters = 500
)
