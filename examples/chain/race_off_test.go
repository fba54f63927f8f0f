//go:build !race

package chain_test

const (
	items       = 4000
	outageItems = 12_000
)
