//go:build race

package chain_test

// Half the night under the race detector, which makes it slow.
const (
	items       = 2000
	outageItems = 6000
)
