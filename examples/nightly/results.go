package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// result is the form of a result file.
type result struct {
	Item    string    `json:"item"`
	SHA256  string    `json:"input_sha256"`
	Model   string    `json:"model"`
	Summary string    `json:"summary"`
	Tokens  int64     `json:"tokens"`
	At      time.Time `json:"at"`
}

// results is the folder of result files, one an item.
type results struct {
	dir string

	mu       sync.Mutex
	unsynced int
}

// syncEvery is how many files may share one sync of the folder. A power cut
// loses at most these names, and their items are done again.
const syncEvery = 64

// openResults makes the folder and proves that it can be written.
func openResults(dir string) (*results, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	if _, err := durable.Sweep(nil, dir); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	return &results{dir: dir}, checkWritable("results", dir)
}

// checkWritable proves that files with content can be written into dir.
func checkWritable(what, dir string) error {
	probe, err := os.CreateTemp(dir, durable.TempPrefix)
	if err != nil {
		return fmt.Errorf("%s: the folder cannot be written: %w", what, err)
	}
	defer os.Remove(probe.Name())
	_, err = probe.Write(make([]byte, 64<<10)) // as much as all workers at once
	if err = errors.Join(err, probe.Sync(), probe.Close()); err != nil {
		return fmt.Errorf("%s: the folder cannot be written: %w", what, err)
	}
	return nil
}

// path is where an item's result stands.
func (r *results) path(it item) string {
	return filepath.Join(r.dir, strings.TrimSuffix(it.File, ".json")+".result.json")
}

// done reports whether the item has a result that was made from these very
// bytes and is none in name only. Anything else is done again.
func (r *results) done(it item) (bool, error) {
	if it.Bad != nil {
		return false, nil
	}
	b, err := os.ReadFile(r.path(it))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("results: %w", err)
	}
	var res result
	return json.Unmarshal(b, &res) == nil && res.SHA256 == it.SHA256 && checkSummary(res.Summary) == nil, nil
}

// write stores a result so that a crash at any moment leaves all of it or
// nothing. It refuses an empty one.
func (r *results) write(it item, res result) error {
	if err := checkSummary(res.Summary); err != nil {
		return err
	}
	b, err := json.MarshalIndent(res, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(nil, r.path(it), append(b, '\n'), 0o644); err != nil {
		return &storeError{err}
	}
	r.mu.Lock()
	r.unsynced++
	due := r.unsynced >= syncEvery
	if due {
		r.unsynced = 0
	}
	r.mu.Unlock()
	if due {
		return r.sync()
	}
	return nil
}

// sync makes the names of all written results durable.
func (r *results) sync() error {
	if err := durable.SyncDir(nil, r.dir); err != nil {
		return &storeError{err}
	}
	return nil
}

// storeError says that a good answer could not be kept, which ends the run: the
// next one would be paid for and lost in the same way.
type storeError struct{ err error }

func (e *storeError) Error() string { return "results: " + e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }
