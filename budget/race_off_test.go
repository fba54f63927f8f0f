//go:build !race

package budget_test

const (
	cutNights = 10_000
	raced     = false
)
