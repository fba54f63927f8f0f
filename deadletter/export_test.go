package deadletter

import (
	"fmt"
	"time"

	"github.com/nightfuse/nightfuse/internal/durable"
)

// OpenJournalFS opens a journal on another file system.
func OpenJournalFS(fsys durable.FS, c StoreConfig, dir string) (*Journal, error) {
	return openJournal(fsys, c, dir)
}

// DecodeLine reads one line and its payload, as opening and a replay do.
func DecodeLine(line []byte) (id, op string, payload []byte, err error) {
	e, err := decodeLine(line)
	if err != nil {
		return "", "", nil, err
	}
	payload, err = decodePayload(line)
	return e.ID, e.Op, payload, err
}

// HoldLock keeps the directory's lock.
func HoldLock(j *Journal) error {
	return j.locked(func() error {
		fmt.Println("held")
		<-time.After(time.Minute)
		return nil
	})
}

// AppendCRC makes a line of what stands before its checksum.
func AppendCRC(head []byte) []byte { return appendLine(nil, head, nil) }
