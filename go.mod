module github.com/nightfuse/nightfuse

go 1.26.0

require (
	github.com/benbjohnson/clock v1.3.5
	github.com/google/go-cmp v0.7.0
	golang.org/x/time v0.16.0
)
