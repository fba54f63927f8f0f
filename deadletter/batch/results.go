package batch

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// Result is the stored result of an item.
type Result struct {
	Item      string
	InputHash string    // hex SHA-256 of the input it was made from
	Version   string    // Config.Version of the run that made it
	At        time.Time // when it was stored: a letter of another input that failed before is done with
	Data      []byte
}

// Results is where results are kept. Its methods are safe for concurrent use.
type Results interface {
	// Load returns the result of an item, and false when there is none that
	// can be read: then the item is done again. An error ends the run.
	Load(ctx context.Context, item string) (Result, bool, error)
	// Store keeps a result so that a crash at any moment leaves all of it or
	// what was there before. After an error nobody relies on it.
	Store(ctx context.Context, r Result) error
	// Sync returns when all that was stored survives a power cut.
	Sync(ctx context.Context) error
}

// Folder is [Results] in a folder, a file an item:
//
//	{"item": "...", "input_sha256": "...", "version": "...", "at": "...", "result": {...}}
//
// The result stands in it as it is when it is JSON, and as the string "text"
// else; it must be UTF-8. Files have mode 0600.
type Folder struct {
	dir string
	fs  durable.FS // nil = the real one

	mu       sync.Mutex
	unsynced int
}

// syncEvery is how many files may share one sync of the folder. A power cut
// loses at most so many names, and their items are done again.
const syncEvery = 64

const suffix = ".result.json"

var errNotText = errors.New("batch: results: a result in a Folder must be UTF-8")

// OpenFolder opens the folder, makes it (mode 0700) when it is missing, removes
// what killed writers have left, and proves that it can be written.
func OpenFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("batch: results: %w", err)
	}
	if _, err := durable.Sweep(nil, dir); err != nil {
		return nil, fmt.Errorf("batch: results: %w", err)
	}
	if err := writable(durable.OS, dir); err != nil {
		return nil, err
	}
	return &Folder{dir: dir}, nil
}

// writable does with a file what Store does. It has content: a full disk still
// has room for names.
func writable(fsys durable.FS, dir string) error {
	name := filepath.Join(dir, durable.TempPrefix+rand.Text())
	err := durable.Replace(fsys, name, make([]byte, 64<<10), 0o600)
	if err == nil {
		err = fsys.Remove(name)
	}
	if err != nil {
		return fmt.Errorf("batch: results: the folder cannot be written: %w", err)
	}
	return nil
}

// resultFile is the form of a file.
type resultFile struct {
	Item    string          `json:"item"`
	Hash    string          `json:"input_sha256"`
	Version string          `json:"version,omitempty"`
	At      time.Time       `json:"at"`
	Text    *string         `json:"text,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"` // last: Store writes its bytes as they are
}

// Path returns the name of the file of an item, whether it exists or not. An id
// that is a plain lower-case file name of five characters or more, and no device
// on Windows (nul.txt), is the beginning of it; of another one what is plain, and
// a hash that tells it from all others also where the file system folds case.
func (f *Folder) Path(item string) string {
	var b strings.Builder
	plain := item != ""
	for i := range len(item) {
		c := item[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		case 'A' <= c && c <= 'Z':
			b.WriteByte(c)
			plain = false
		default:
			b.WriteByte('_')
			plain = false
		}
	}
	name := b.String()
	if len(name) > 120 {
		name, plain = name[:120], false
	}
	// A name with the form of a hashed one is hashed, or it could meet that one;
	// so are those of devices on Windows, whatever follows a dot, and all as short.
	if !plain || len(name) < 5 || device(name) || hashed(name) {
		sum := sha256.Sum256([]byte(item))
		name += "-" + hex.EncodeToString(sum[:8])
	}
	return filepath.Join(f.dir, name+suffix)
}

// device reports whether Windows takes name for a device's.
func device(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && '0' <= stem[3] && stem[3] <= '9'
}

// hashed reports whether name ends in what Path puts behind a name.
func hashed(name string) bool {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || len(name)-i-1 != 16 {
		return false
	}
	_, err := hex.DecodeString(name[i+1:])
	return err == nil
}

// Load is [Results]. A file that is damaged, or of another item, is none.
func (f *Folder) Load(_ context.Context, item string) (Result, bool, error) {
	b, err := durable.ReadFile(f.fs, f.Path(item))
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, false, nil
	}
	if err != nil {
		return Result{}, false, fmt.Errorf("batch: results: %w", err)
	}
	r, ok := parseResult(b)
	return r, ok && r.Item == item, nil
}

func parseResult(b []byte) (Result, bool) {
	var file resultFile
	if json.Unmarshal(b, &file) != nil {
		return Result{}, false
	}
	r := Result{Item: file.Item, InputHash: file.Hash, Version: file.Version, At: file.At, Data: file.Result}
	if file.Text != nil {
		r.Data = []byte(*file.Text)
	}
	return r, true
}

// Store is [Results]. The file is synced; the folder is with every 64th.
func (f *Folder) Store(ctx context.Context, r Result) error {
	if !utf8.Valid(r.Data) {
		return errNotText
	}
	file := resultFile{Item: r.Item, Hash: r.InputHash, Version: r.Version, At: r.At}
	asJSON := json.Valid(r.Data) && len(bytes.TrimSpace(r.Data)) == len(r.Data)
	if !asJSON {
		text := string(r.Data)
		file.Text = &text
	}
	b, err := json.Marshal(file)
	if asJSON && err == nil {
		// Marshal would write the same value in other bytes.
		b = slices.Concat(b[:len(b)-1], []byte(`,"result":`), r.Data, []byte("}"))
	}
	if err == nil {
		err = durable.Replace(f.fs, f.Path(r.Item), append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("batch: results: %w", err)
	}
	f.mu.Lock()
	f.unsynced++
	due := f.unsynced >= syncEvery
	if due {
		f.unsynced = 0
	}
	f.mu.Unlock()
	if due {
		return f.Sync(ctx)
	}
	return nil
}

// Sync is [Results].
func (f *Folder) Sync(context.Context) error {
	if err := durable.SyncDir(f.fs, f.dir); err != nil {
		return fmt.Errorf("batch: results: %w", err)
	}
	return nil
}

// All yields the data of every result that can be read, by item, in the order of
// the files' names, until an error of the folder, which it hands to fail.
func (f *Folder) All(fail func(error)) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		files, err := os.ReadDir(f.dir)
		if err != nil {
			fail(err)
			return
		}
		for _, e := range files {
			if !strings.HasSuffix(e.Name(), suffix) {
				continue
			}
			b, err := os.ReadFile(filepath.Join(f.dir, e.Name()))
			if err != nil {
				fail(err)
				return
			}
			if r, ok := parseResult(b); ok && !yield(r.Item, r.Data) {
				return
			}
		}
	}
}
