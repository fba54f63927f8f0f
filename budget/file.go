package budget

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// File is a [Store] that survives the process and that many processes of one
// host share. Every change is on stable storage before it is granted. It needs
// a local disk: locks on a network file system may not exclude other hosts, so
// several hosts need another store.
//
// Three files belong to it: path.0 and path.1, rewritten in turn and in place,
// so that a kill or a power cut during one leaves the other, and path.lock.
// None is ever renamed or removed while in use, and a lock ends with its
// process. A file that cannot be read is an error and is kept; only one that
// does not exist is a fresh start.
type File struct {
	path  string
	slots *durable.Slots

	closing sync.Once
	closed  error
}

// openTimeout bounds the wait for another process at opening, in real time.
const openTimeout = 10 * time.Second

// OpenFile opens the counters at path, or begins them when there are none. The
// folder they stand in must exist: a disk that is not mounted must not look like
// a day on which nothing was spent. path names files, so a folder there is an
// error, too. The counters are text, one a line (key, value, expiry in
// Unix seconds), of at most 1 MiB: that is some ten thousand owners a day;
// with more use an SQL store. Counters that have expired are dropped when
// something is written.
func OpenFile(path string) (*File, error) { return openFile(nil, path) }

func openFile(fsys durable.FS, path string) (*File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	if path == "" {
		return nil, errors.New("budget: opening the store: no path")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("budget: opening the store: %s is a folder; name a file in it", path)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("budget: opening the store %s: its folder must exist: %w", path, err)
	}
	slots, err := durable.OpenSlots(ctx, fsys, path)
	if err != nil {
		return nil, fmt.Errorf("budget: opening the store: %w", err)
	}
	f := &File{path: path, slots: slots}
	if _, err := f.Load(ctx, nil); err != nil { // unreadable is told now, not at the first call
		return nil, errors.Join(err, slots.Close())
	}
	return f, nil
}

// Close closes the files. A budget on a closed File behaves as its
// OnStoreError says. Closing again does nothing.
func (f *File) Close() error {
	f.closing.Do(func() { f.closed = f.slots.Close() })
	return f.closed
}

// Apply implements [Store]: one locked, synced write for all changes, none
// when all are refused. Waiting for other processes ends with ctx.
func (f *File) Apply(ctx context.Context, changes []*Change) error {
	err := f.slots.Update(ctx, func(old []byte) ([]byte, error) {
		t, err := parseTable(old)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		granted := false
		for _, c := range changes {
			c.Decide(t.counters)
			granted = granted || c.OK
		}
		if !granted {
			return nil, nil
		}
		now := realClock{}.Now()
		for _, c := range changes {
			for i := range c.Ops {
				t.created(&c.Ops[i], now)
			}
		}
		return t.text(now), nil
	})
	if err != nil {
		return fmt.Errorf("budget: %w", err)
	}
	return nil
}

// Load implements [Store]. It takes no lock.
func (f *File) Load(ctx context.Context, keys []string) ([]int64, error) {
	data, _, err := f.slots.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("budget: %w", err)
	}
	t, err := parseTable(data)
	if err != nil {
		return nil, fmt.Errorf("budget: %s: %w", f.path, err)
	}
	values := make([]int64, len(keys))
	for i, k := range keys {
		values[i] = t.counters[k]
	}
	return values, nil
}

// Names returns the names of the budgets that have a counter in the file, sorted:
// a mistyped Config.Name would begin a count of its own. It takes no lock.
func (f *File) Names(ctx context.Context) ([]string, error) {
	data, _, err := f.slots.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("budget: %w", err)
	}
	t, err := parseTable(data)
	if err != nil {
		return nil, fmt.Errorf("budget: %s: %w", f.path, err)
	}
	var names []string
	for key := range t.counters {
		name, _ := cutKey(key)
		names = append(names, unescape(name))
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// table is the file's content.
type table struct {
	counters map[string]int64
	expires  map[string]int64 // Unix seconds
}

var errTable = errors.New("not a budget's counters; the files are kept: move them away to start anew")

func parseTable(data []byte) (*table, error) {
	t := &table{counters: make(map[string]int64), expires: make(map[string]int64)}
	for line := range bytes.Lines(data) {
		text, ended := strings.CutSuffix(string(line), "\n")
		f := strings.Split(text, "\t")
		if !ended || len(f) != 3 || f[0] == "" {
			return nil, fmt.Errorf("%q: %w", text, errTable)
		}
		value, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil || value < 0 || value > MaxAmount {
			return nil, fmt.Errorf("%q: %w", text, errTable)
		}
		expire, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, errTable)
		}
		t.counters[f[0]], t.expires[f[0]] = value, expire
	}
	return t, nil
}

// created notes the expiry of a counter that op has created.
func (t *table) created(op *Op, now time.Time) {
	_, exists := t.counters[op.Key]
	if _, known := t.expires[op.Key]; exists && !known {
		t.expires[op.Key] = now.Add(op.Expire).Unix() + 1
	}
}

// text returns the table without what has expired, in the order of keys.
func (t *table) text(now time.Time) []byte {
	keys := make([]string, 0, len(t.counters))
	for k := range t.counters {
		if t.expires[k] > now.Unix() {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	out := []byte{}
	for _, k := range keys {
		out = append(out, k...)
		out = append(out, '\t')
		out = strconv.AppendInt(out, t.counters[k], 10)
		out = append(out, '\t')
		out = strconv.AppendInt(out, t.expires[k], 10)
		out = append(out, '\n')
	}
	return out
}
