package deadletter

import (
	"errors"
	"fmt"
)

// The errors of stores.
var (
	// ErrNotFound says that the store has no such letter.
	ErrNotFound = errors.New("deadletter: no such letter")
	// ErrClaimLost says that a claim has ended: its lease ran out and somebody
	// else claimed the letter, it was resolved, or the item failed anew with
	// another payload.
	ErrClaimLost = errors.New("deadletter: claim lost")
	// ErrLocked says that another process held the journal's lock for too
	// long. The error's text names it.
	ErrLocked = errors.New("deadletter: journal is locked")
	// ErrCorrupt says that what is stored cannot be read back as it was
	// written.
	ErrCorrupt = errors.New("deadletter: stored data is damaged")
	// ErrTooLarge says that a payload, or a record without it, is above the
	// limit. Nothing is cut: half a payload cannot be replayed.
	ErrTooLarge = errors.New("deadletter: too large to keep")
	// ErrStoreFailed says that the journal could not make its data durable
	// in the segment in use nor in a new one. It stays: open the journal
	// again once the disk is mended.
	ErrStoreFailed = errors.New("deadletter: store failed")
	// ErrReadOnly says that the store was opened for reading only.
	ErrReadOnly = errors.New("deadletter: store is open for reading only")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("deadletter: store is closed")
)

// LostError says that an item failed and could not be kept. The item is
// neither done nor dead: it is still in the caller's hands. It is joined to the
// failure itself, so both are found by errors.Is and errors.As.
type LostError struct {
	Queue  string
	ItemID string // "" when the item has no name
	Err    error  // why it could not be kept
}

func (e *LostError) Error() string {
	item := "an item"
	if e.ItemID != "" {
		item = fmt.Sprintf("item %q", e.ItemID)
	}
	return fmt.Sprintf("deadletter: %s of queue %q is lost to the store: %v", item, e.Queue, e.Err)
}

// Unwrap returns why the item could not be kept.
func (e *LostError) Unwrap() error { return e.Err }
