//go:build !race

package deadletter_test

const (
	bitStep     = 1
	cutStep     = 1
	manyLetters = 0 // the suite's own
)
