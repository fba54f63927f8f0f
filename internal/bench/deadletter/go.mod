module github.com/nightfuse/nightfuse/internal/bench/deadletter

go 1.26.0

require (
	github.com/nightfuse/nightfuse v0.0.0
	go.etcd.io/bbolt v1.5.0
)

require golang.org/x/sys v0.45.0 // indirect

replace github.com/nightfuse/nightfuse => ../../..
