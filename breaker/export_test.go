package breaker

import "github.com/nightfuse/nightfuse/internal/durable"

// FileOn is File on a file system that fails on demand.
func FileOn(fsys durable.FS, dir string) (Store, error) { return openFiles(fsys, dir) }
