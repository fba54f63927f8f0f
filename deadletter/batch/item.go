package batch

import (
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	"github.com/nightfuse/nightfuse/internal/nils"
)

// Item is one piece of work.
type Item struct {
	ID       string            // names the item and its result; required, unique in a run, UTF-8
	Input    []byte            // all that the item is made from; the payload of its dead letter. A handle must not change it
	Estimate int64             // what it is expected to cost, in the budget's unit; 0 = not said. Guards reserve it
	Labels   map[string]string // go into its dead letter

	// Bad says why the input is no item (a file that cannot be read or
	// parsed). The item becomes a dead letter, nothing is sent.
	Bad error
}

// Handle does one item and returns its result. ctx carries the item for the
// guards; pass it on to every call. It is called by Config.Workers goroutines at
// once. It may be called a second time for an item whose first result Validate
// refused or was empty.
//
// An error with RefusedBy() string, such as the guards return, means that the
// item was not done because of a guard: it stays pending. Give the error that you
// make of an answer a method StatusCode() int: the letter names the status then,
// and 401, 402, 403 and 407 leave the item pending, as does an answer that names
// a quota or a bill. Where a retry of this module is in the client, it has noted
// its last failure and that counts, as does a refusal of a guard in the client
// when the handle drops the error and returns what Validate refuses.
type Handle func(ctx context.Context, it Item) ([]byte, error)

// The labels of a letter by which a later run knows that the item is the same, and
// a replay that its input is none.
const (
	inputLabel   = "input_sha256"
	versionLabel = "version"
	badLabel     = "bad_input"
)

// entry is an item that has no fate yet.
type entry struct {
	it    Item
	hash  string // of the input
	old   bool   // there is a letter of the item as it was before
	turn  int    // to be the probe again, after lower ones; 0 = has not failed as one
	era   int    // in which it failed as the probe and was put back; 0 = was not
	keyed bool   // has met a refused key before
	seq   int64

	called bool // a call was made for it in this run
}

func newEntry(it Item, seq int64) *entry {
	it.Bad = nils.Error(it.Bad)
	sum := sha256.Sum256(it.Input)
	return &entry{it: it, hash: hex.EncodeToString(sum[:]), seq: seq}
}

// labels are those of the item's letter.
func (e *entry) labels(version string) map[string]string {
	m := maps.Clone(e.it.Labels)
	if m == nil {
		m = make(map[string]string, 2)
	}
	m[inputLabel] = e.hash
	if version != "" {
		m[versionLabel] = version
	}
	delete(m, badLabel)
	if e.it.Bad != nil {
		m[badLabel] = "true"
	}
	return m
}

// letter is what a run remembers of a letter: what the item was made from.
type letter struct {
	hash, version string
	bad           bool
}

// letterOf reads the labels of a letter, or those that an item's would have:
// without a Version the label is the caller's own, if there is one.
func letterOf(labels map[string]string) letter {
	return letter{labels[inputLabel], asText(labels[versionLabel]), labels[badLabel] != ""}
}

// asText is s as a letter keeps it.
func asText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// cost orders probes: what was estimated, else the size.
func (e *entry) cost() int64 {
	if e.it.Estimate > 0 {
		return e.it.Estimate
	}
	return int64(len(e.it.Input))
}

// backlog holds entries that were read and have no fate. The next one is the
// cheapest of those that have not failed as a probe, else the first that has.
type backlog []*entry

func (b backlog) Len() int { return len(b) }

func (b backlog) Less(i, j int) bool {
	switch x, y := b[i], b[j]; {
	case x.turn != y.turn:
		return x.turn < y.turn
	case x.cost() != y.cost():
		return x.cost() < y.cost()
	default:
		return x.seq < y.seq
	}
}

func (b backlog) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

// Push is heap.Interface; use push.
func (b *backlog) Push(x any) { *b = append(*b, x.(*entry)) }

// Pop is heap.Interface; use pop.
func (b *backlog) Pop() any {
	old := *b
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*b = old[:len(old)-1]
	return e
}

// fresh is how many have not failed as a probe.
func (b backlog) fresh() int {
	n := 0
	for _, e := range b {
		if e.turn == 0 {
			n++
		}
	}
	return n
}

// putBack is how many were put back after a call.
func (b backlog) putBack() int {
	n := 0
	for _, e := range b {
		if e.called {
			n++
		}
	}
	return n
}

func (b *backlog) push(e *entry) { heap.Push(b, e) }
func (b *backlog) pop() *entry   { return heap.Pop(b).(*entry) }
