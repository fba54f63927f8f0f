package signature

import (
	"hash/maphash"
	"sync/atomic"
)

// rounds is how often a template is read again until it stays as it is. Next
// to all do at once, and nearly all others in the second round.
const rounds = 6

// settle makes the template d[base:] one that is its own template, so that a
// stored template signs like the messages it stands for.
//
// One pass gives that for what people write, but no set of rules is proof
// against every sequence of bytes: a rule may look at what a later one folds.
// So each template is read again, once: those that proved stable are
// remembered, and a storm of one failure is checked with its first message.
func (s *Signer) settle(d []byte, base int) []byte {
	if s.settled.has(hash(d[base:])) {
		return d
	}
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	t := string(d[base:])
	stable := func() bool {
		*buf = s.pass((*buf)[:0], t, nil)
		if string(*buf) != t {
			return false
		}
		s.settled.add(hash(*buf))
		return true
	}
	for range rounds {
		if stable() {
			return append(d[:base], t...)
		}
		t = string(*buf)
	}
	if t = coarse(t); !stable() {
		t = string(mark)
	}
	return append(d[:base], t...)
}

// coarse keeps the words of letters alone and folds all others.
func coarse(t string) string {
	b := make([]byte, 0, len(t))
	for i := 0; i < len(t); {
		e := i
		for e < len(t) && t[e] != ' ' {
			e++
		}
		if n := len(b); !lettersOnly(t[i:e]) {
			if n == 0 || b[n-1] != mark {
				b = append(appendBlank(b), mark)
			}
		} else if e > i {
			b = append(appendBlank(b), t[i:e]...)
		}
		i = e + 1
	}
	return string(b)
}

func appendBlank(b []byte) []byte {
	if len(b) > 0 {
		b = append(b, ' ')
	}
	return b
}

// seed differs from process to process, so that nobody can make templates that
// look alike to the memory.
var seed = maphash.MakeSeed()

// hash is never 0, which marks a free place.
func hash(t []byte) uint64 { return maphash.Bytes(seed, t) | 1<<63 }

// memory holds the hashes of templates that are known to be stable, 2048 of
// them in rows of one cache line each. It saves time alone: no result depends
// on what is in it.
type memory [256][8]atomic.Uint64

// has reports whether h was added and not replaced since.
func (m *memory) has(h uint64) bool {
	row := &m[h%uint64(len(m))]
	for k := range row {
		if row[k].Load() == h {
			return true
		}
	}
	return false
}

// add puts h into a free place of its row or, when none is left, into one that
// h itself chooses.
func (m *memory) add(h uint64) {
	row := &m[h%uint64(len(m))]
	for k := range row {
		if row[k].CompareAndSwap(0, h) {
			return
		}
	}
	row[h>>32%uint64(len(row))].Store(h)
}
