package deadletter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// note is the content of the lock file: who committed last, and two numbers by
// which processes see what the others did. It is written under the lock and
// never synced, since after a power cut nobody remembers an older one.
type note struct {
	durable.Holder
	By  string `json:"by"`  // one use of the journal, also within one process
	Gen uint64 `json:"gen"` // raised before bytes that may have been read are cut off or replaced
	Seg uint64 `json:"seg"` // the segment in use
}

const noteSize = 256 // always written whole, so that a shorter one leaves no rest

func (n note) text() []byte {
	text, err := json.Marshal(n)
	if err != nil || len(text) >= noteSize {
		// Only a host's name can be that long.
		n.Host = ""
		text, _ = json.Marshal(n)
	}
	return append(text, []byte(strings.Repeat(" ", noteSize-1-len(text))+"\n")...)
}

func newNote(by string, now time.Time) note {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return note{Holder: durable.Holder{Host: host, PID: os.Getpid(), Start: now.UTC().Truncate(time.Second)}, By: by}
}

// readNote returns what the lock file says, and its raw text. A missing or
// unreadable one is zero.
func (j *Journal) readNote() (n note, raw []byte) {
	f := j.lockFile()
	if f == nil {
		return note{}, nil
	}
	buf := make([]byte, noteSize)
	k, _ := f.ReadAt(buf, 0)
	raw = buf[:k]
	if bytes.Equal(raw, j.raw) {
		return j.note, raw
	}
	if json.Unmarshal(raw, &n) != nil {
		return note{}, raw
	}
	return n, raw
}

// lockFile returns the lock file, nil when a reader finds none.
func (j *Journal) lockFile() durable.File {
	if j.lock != nil {
		return j.lock.File()
	}
	if j.peek == nil {
		if f, err := j.fsys.OpenFile(j.path(lockName), os.O_RDONLY, 0); err == nil {
			j.peek = f
		}
	}
	return j.peek
}

// writeNote tells the other processes gen and seg. Only under the lock.
func (j *Journal) writeNote(gen, seg uint64) error {
	n := j.self
	n.Gen, n.Seg = gen, seg
	raw := n.text()
	if _, err := j.lock.File().WriteAt(raw, 0); err != nil {
		return fmt.Errorf("deadletter: %w", err)
	}
	j.note, j.raw = n, raw
	return nil
}
