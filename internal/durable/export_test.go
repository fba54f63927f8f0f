package durable

var RetryRename = retryRename

const RenameTries = renameTries

// BelieveSynced makes s take the newest slot for one that it synced itself:
// the naive alternation without the rule of Slots.
func (s *Slots) BelieveSynced() {
	if cur, err := s.load(); err == nil {
		s.synced, s.syncedSum = cur.slot, cur.header
	}
}

// EncodeSlot is a slot as it is on the disk.
func EncodeSlot(seq uint64, data []byte) []byte { return encodeSlot(seq, data) }
