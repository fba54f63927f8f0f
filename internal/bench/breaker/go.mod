module github.com/nightfuse/nightfuse/internal/bench/breaker

go 1.26.0

require (
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/nightfuse/nightfuse v0.0.0
	github.com/sony/gobreaker/v2 v2.4.0
)

require github.com/bits-and-blooms/bitset v1.24.4 // indirect

replace github.com/nightfuse/nightfuse => ../../..
