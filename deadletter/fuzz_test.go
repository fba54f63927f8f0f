package deadletter_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/nightfuse/nightfuse/deadletter"
)

// A line is what was written or an error, never a panic.
func FuzzDecodeLine(f *testing.F) {
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		id, op, _, err := deadletter.DecodeLine(line)
		if !bytes.Equal(line, before) {
			t.Error("decoding has changed the line")
		}
		if err == nil && (op == "" || (id == "" && op != "base")) {
			t.Errorf("%q was taken without an operation or an id", line)
		}
	})
}

// Whatever is in the file, opening it gives an error or a journal that goes on
// (etcd-io/bbolt#446).
func FuzzOpen(f *testing.F) {
	f.Fuzz(func(t *testing.T, file []byte) {
		disk := diskWith(t, file)
		j, err := deadletter.OpenJournalFS(disk, deadletter.StoreConfig{}, diskDir)
		if err != nil {
			// The only whole lines that are refused are those of a later version.
			if errors.Is(err, deadletter.ErrCorrupt) {
				t.Errorf("damage is no reason to refuse: %v", err)
			}
			return
		}
		had := contents(t, j)
		put(t, j, "new", "payload")
		had["new"] = "payload"
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		got := contents(t, openOn(t, disk))
		for item, p := range had {
			if got[item] != p {
				t.Errorf("%q came back as %q, was %q", item, got[item], p)
			}
		}
		if _, err := openOn(t, disk).Verify(t.Context()); err != nil {
			t.Errorf("verify: %v", err)
		}
	})
}
