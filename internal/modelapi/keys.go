package modelapi

// keyTable says where the keys of one node lead, as a map would, but without
// hashing every byte: keys are most of what is looked at in an answer.
type keyTable struct {
	slots []keySlot // a power of two, at most half of them taken
}

type keySlot struct {
	key string // "" = free
	to  node
}

var keys = func() (t [256]keyTable) {
	for n, m := range next {
		if len(m) == 0 {
			continue
		}
		size := 4
		for size < 2*len(m) {
			size *= 2
		}
		t[n].slots = make([]keySlot, size)
		for k, to := range m {
			i := place([]byte(k)) & (size - 1)
			for t[n].slots[i].key != "" {
				i = (i + 1) & (size - 1)
			}
			t[n].slots[i] = keySlot{k, to}
		}
	}
	return t
}()

// place is the first slot to look for a key in. Keys are told apart well by
// their length, first, middle and last byte.
func place(k []byte) int {
	n := len(k)
	return n + 3*int(k[0]) + 7*int(k[n/2]) + 11*int(k[n-1])
}

// lead returns the node that k leads to.
func (t *keyTable) lead(k []byte) node {
	if len(t.slots) == 0 || len(k) == 0 {
		return nSkip
	}
	mask := len(t.slots) - 1
	for i := place(k) & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.key == "" {
			return nSkip
		}
		if s.key == string(k) {
			return s.to
		}
	}
}
