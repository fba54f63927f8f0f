package breaker

import (
	"bytes"
	"context"
	"errors"
	"sync"
)

// Store keeps the state of breakers by name. Implementations are safe for
// concurrent use and, where several processes share them, across processes;
// package breakertest checks one. The rules:
//
//   - Update calls fn with the bytes now stored under name, nil when nothing
//     ever was, and stores what fn returns, as one atomic step. It may call fn
//     several times, each time with the bytes then current.
//   - When fn returns bytes equal to old, or nil for nil, nothing is written;
//     old was then current at some moment during the call.
//   - An error of fn is returned as it is and nothing is written. Any other
//     error means that the outcome is not known.
//   - Names are 1 to 200 bytes of printable ASCII, exact and case-sensitive;
//     values have up to 64 KiB.
//   - Update returns soon after ctx ends. The bytes given to and returned by fn
//     belong to the store while it runs; neither side keeps them.
//
// fn is quick, does not call the store, and sets all its results anew on every
// run.
type Store interface {
	Update(ctx context.Context, name string, fn func(old []byte) (new []byte, err error)) error
}

// Sequencer is a Store that can tell cheaply, in about a microsecond and
// without leaving the host, whether anything was written under a name: the
// number rises with every write. A breaker over one looks at it before every
// call, so that another process's trip is seen at once.
type Sequencer interface {
	Seq(name string) (uint64, error)
}

// Memory returns a Store in memory that several breakers of one process can
// share. A breaker with no Store at all is faster.
func Memory() Store { return &memory{states: map[string]memoryState{}} }

type memory struct {
	mu     sync.Mutex
	states map[string]memoryState
}

type memoryState struct {
	bytes []byte
	seq   uint64
}

func (m *memory) Update(ctx context.Context, name string, fn func([]byte) ([]byte, error)) error {
	if err := checkName(name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.states[name]
	now, err := fn(bytes.Clone(old.bytes))
	if err != nil {
		return err
	}
	if now == nil || (old.bytes != nil && bytes.Equal(now, old.bytes)) {
		return nil
	}
	if err := checkValue(now); err != nil {
		return err
	}
	m.states[name] = memoryState{append([]byte{}, now...), old.seq + 1}
	return nil
}

func (m *memory) Seq(name string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[name].seq, nil
}

// maxValue is the largest value of a Store.
const maxValue = 64 << 10

var (
	errName  = errors.New("breaker: a name in a store is 1 to 200 bytes of printable ASCII")
	errValue = errors.New("breaker: a value in a store has at most 64 KiB")
)

func checkName(name string) error {
	if name == "" || len(name) > 200 || !printable(name) {
		return errName
	}
	return nil
}

func checkValue(b []byte) error {
	if len(b) > maxValue {
		return errValue
	}
	return nil
}
