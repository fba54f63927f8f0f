package deadletter

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"time"
)

// Writer keeps letters.
type Writer interface {
	// Put keeps r, or adds a failure to the letter of the same queue and item:
	// its Failures, TotalCalls and History go on, its FirstFailedAt stays. It
	// returns when the letter is as durable as the store makes it. A Put that
	// has begun is not cancelled by ctx.
	//
	// A letter that is claimed stays claimed when the payload is the same;
	// with another payload the claim is lost and the letter is dead again.
	Put(ctx context.Context, r Record) error
}

// Reader looks at letters. Times are compared with the store's clock.
type Reader interface {
	// Get returns the letter with this record id, with its payload, or
	// ErrNotFound.
	Get(ctx context.Context, id string) (Record, error)
	// List yields the letters that match, without payloads, by last failure
	// and then id. It is a view of one moment. An error ends it, or tells of
	// one letter that cannot be read (ErrCorrupt) before the next.
	List(ctx context.Context, f Filter) iter.Seq2[Record, error]
	// Stats sums the letters that match up. No States in f means all.
	Stats(ctx context.Context, f Filter) (Summary, error)
}

// Claimer hands letters out, each to one claimer at a time.
type Claimer interface {
	// Claim hands out at most req.N letters under a lease. An empty result
	// means that nothing matches at the moment.
	Claim(ctx context.Context, req ClaimReq) ([]Claim, error)
	// Extend makes the lease end d from now, or returns ErrClaimLost.
	Extend(ctx context.Context, t Token, d time.Duration) error
	// Resolve ends a claim, or returns ErrClaimLost and changes nothing.
	Resolve(ctx context.Context, t Token, o Outcome) error
	// Purge removes letters and their payloads for good and returns how many.
	// Unlike elsewhere no States in f means Acked and Discarded. Letters with
	// a live claim stay.
	Purge(ctx context.Context, f Filter) (int, error)
}

// Store is all three. Its methods are safe for concurrent use.
type Store interface {
	Writer
	Reader
	Claimer
}

// Filter chooses letters. The zero value chooses all that are not resolved;
// every field that is set narrows it.
type Filter struct {
	Queue     string
	IDs       []string // record ids
	States    []State  // empty = Dead, Claimed and Quarantined, unless a method says otherwise
	Signature string
	Statuses  []int // HTTP statuses; 0 = no answer
	Owner     string
	RunID     string
	Labels    map[string]string // all must be there with these values

	Since time.Time // failed last at or after
	Until time.Time // failed last at or before
	Due   time.Time // without a RetryAfter later than this

	After Cursor // only letters behind this one in the order of List
	Limit int    // at most so many; 0 = all
}

// Cursor is a place in the order of List.
type Cursor struct {
	FailedAt time.Time
	ID       string
}

// Cursor returns the place of r, for the next page.
func (r Record) Cursor() Cursor { return Cursor{FailedAt: r.LastFailedAt, ID: r.ID} }

// Order is the order in which letters are claimed.
type Order int

// The orders.
const (
	Oldest   Order = iota // by last failure
	Cheapest              // by EstTokens, then by payload size, then oldest first
)

// ClaimReq says what to claim.
type ClaimReq struct {
	N      int           // at most so many; 0 = 1
	By     string        // the claimer's name, for people
	Lease  time.Duration // 0 = 10 min
	Order  Order
	Filter Filter // no States = Dead; a live claim is never handed out. After and Limit are ignored
}

// defaultLease is the lease of a claim that does not say.
const defaultLease = 10 * time.Minute

// Claim is a letter in the claimer's hands until Record.ClaimUntil.
type Claim struct {
	Record Record // with its payload; Replays counts this claim
	Token  Token
}

// Token is the right to resolve one claim. A later claim of the same letter
// makes it stale.
type Token struct {
	ID  string `json:"id"`
	Seq int64  `json:"seq"`
}

// Verb is how a claim ends.
type Verb int

// The verbs.
const (
	Ack        Verb = iota + 1 // done: the letter is Acked
	Return                     // failed again: dead, with the Outcome's Failure
	Release                    // not tried: as before the claim, which does not count as a replay
	Quarantine                 // Quarantined, with the Outcome's Failure if it has one, and its Reason
	Discard                    // Discarded, with the Outcome's Reason
	Revive                     // dead, as if never replayed: a person lets it out of quarantine
)

// String returns the verb's name.
func (v Verb) String() string {
	switch v {
	case Ack:
		return "ack"
	case Return:
		return "return"
	case Release:
		return "release"
	case Quarantine:
		return "quarantine"
	case Discard:
		return "discard"
	case Revive:
		return "revive"
	}
	return "no verb"
}

// Outcome is how a claim ends, and why.
type Outcome struct {
	Verb    Verb
	Failure Failure // of Return and Quarantine; a zero At is the store's clock
	Reason  string  // of Quarantine and Discard, at most 1 KiB
}

// Summary is what Stats finds.
type Summary struct {
	States    map[State]int            `json:"states"`
	Queues    map[string]map[State]int `json:"queues"`   // the same by queue
	Statuses  map[int]int              `json:"statuses"` // of unresolved letters, by HTTP status
	Bytes     int64                    `json:"bytes"`    // payloads of unresolved letters
	EstTokens int64                    `json:"est_tokens"`
	Oldest    time.Time                `json:"oldest,omitzero"` // the earliest first failure among the unresolved
	Groups    []Group                  `json:"groups"`          // unresolved letters by signature, largest first

	Disk    int64 `json:"disk,omitempty"`    // bytes of the journal
	Corrupt int   `json:"corrupt,omitempty"` // damaged lines within the journal; Verify tells which
	Torn    int   `json:"torn,omitempty"`    // unfinished tails that were set aside
}

// Letters returns how many letters there are in the given states, in all when
// none is given.
func (s Summary) Letters(states ...State) int {
	n := 0
	for st, k := range s.States {
		if len(states) == 0 || slices.Contains(states, st) {
			n += k
		}
	}
	return n
}

// Group is the unresolved letters with one signature.
type Group struct {
	Signature string    `json:"signature"`
	Text      string    `json:"text,omitempty"`
	Count     int       `json:"count"`
	First     time.Time `json:"first"`  // earliest first failure
	Last      time.Time `json:"last"`   // latest last failure
	Sample    string    `json:"sample"` // record id of the oldest by last failure
	Bytes     int64     `json:"bytes"`
	EstTokens int64     `json:"est_tokens"`
}

// StoreConfig is what the stores of this package can be told. The zero value
// is what [NewMemory] and [OpenJournal] use.
type StoreConfig struct {
	MaxPayload int64         // largest payload in bytes; 0 = DefaultMaxPayload, at most 256 MiB
	Segment    int64         // bytes after which a journal begins another file; 0 = 64 MiB
	LockWait   time.Duration // real time a journal waits for another process before ErrLocked; 0 = 10 s
	ReadOnly   bool          // a journal takes no lock and changes nothing
	Clock      Clock         // nil = real time
	Logger     *slog.Logger  // nil = silent; hears of damage and repairs
}
