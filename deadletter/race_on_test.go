//go:build race

package deadletter_test

// bitStep makes the race detector's runs bearable: the flipped bits are about
// bytes, not about goroutines. It is odd, so every bit of a byte has its turn.
const bitStep = 13
