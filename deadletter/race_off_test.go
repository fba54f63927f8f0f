//go:build !race

package deadletter_test

const bitStep = 1
