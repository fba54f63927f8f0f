package deadletter

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// State is where a letter stands.
type State string

// The states. A claim whose lease has run out counts as the state before it.
const (
	Dead        State = "dead"        // waits to be replayed
	Claimed     State = "claimed"     // somebody is replaying it
	Quarantined State = "quarantined" // replayed in vain too often; replayed only when asked for by this state
	Acked       State = "acked"       // done at last; kept until a purge or a compaction
	Discarded   State = "discarded"   // given up by a person; kept until a purge or a compaction
)

func (s State) resolved() bool { return s == Acked || s == Discarded }

// Record is one dead letter: an item that failed, with all that is needed to
// send it again and to see why it failed. A store holds one record per queue
// and item. The JSON form is the one in the journal, in exports and in the
// command's output.
//
// Of the fields a caller of [Writer.Put] sets, a store needs Queue, and ItemID
// or ID; everything from State to FirstFailedAt, and the claim, is kept by the
// store.
type Record struct {
	V      int    `json:"v"`  // schema version, 1
	ID     string `json:"id"` // see ID; "" = made from Queue and ItemID
	Queue  string `json:"queue"`
	ItemID string `json:"item_id,omitempty"`
	RunID  string `json:"run_id,omitempty"` // the run that failed last

	State         State     `json:"state"`
	Failures      int       `json:"failures"`              // how often the item failed: puts and replays that failed
	TotalCalls    int       `json:"total_calls,omitempty"` // calls spent over all failures
	Replays       int       `json:"replays,omitempty"`     // claims that were not released
	FirstFailedAt time.Time `json:"first_failed_at"`       // UTC, to the microsecond, as all times here
	LastFailedAt  time.Time `json:"last_failed_at"`        // zero in a Put = the store's clock

	// The last failure.
	Attempts          int       `json:"attempts,omitempty"`       // calls spent in it
	Status            int       `json:"status,omitempty"`         // HTTP status; 0 = no answer
	Signature         string    `json:"signature,omitempty"`      // signature.ID of the error
	SignatureText     string    `json:"signature_text,omitempty"` // the template behind it, at most 1 KiB
	ErrType           string    `json:"err_type,omitempty"`       // Go type of the innermost error
	Err               string    `json:"err,omitempty"`            // scrubbed, at most 4 KiB; the upstream's own failure first where it is known
	RetryAfter        time.Time `json:"retry_after,omitzero"`     // not worth sending before; zero = not said
	UpstreamRequestID string    `json:"upstream_request_id,omitempty"`
	History           []Failure `json:"history,omitempty"` // the last ten, oldest first

	// What was sent. Header holds the allowlisted headers only, and URL no
	// user information and no secret query values: a replay brings its own
	// credentials.
	Method string      `json:"method,omitempty"`
	URL    string      `json:"url,omitempty"`
	Header http.Header `json:"header,omitempty"`

	Owner     string            `json:"owner,omitempty"`      // who pays
	EstTokens int64             `json:"est_tokens,omitempty"` // in the budget's unit; 0 = not said
	Labels    map[string]string `json:"labels,omitempty"`

	ClaimedBy  string    `json:"claimed_by,omitempty"`
	ClaimSeq   int64     `json:"claim_seq,omitempty"` // the fencing token: grows with every claim in the store
	ClaimUntil time.Time `json:"claim_until,omitzero"`
	Reason     string    `json:"reason,omitempty"` // of the discard or quarantine

	PayloadSize int64  `json:"payload_size,omitempty"` // bytes; set by the store
	PayloadHash string `json:"payload_hash,omitempty"` // hex SHA-256; set by the store
	Payload     []byte `json:"payload,omitempty"`      // nil in a List
}

// Failure is one failure of an item. In a [Record]'s History only the first
// four fields are kept.
type Failure struct {
	At        time.Time `json:"at"`
	Attempts  int       `json:"attempts,omitempty"`
	Status    int       `json:"status,omitempty"`
	Signature string    `json:"signature,omitempty"`

	SignatureText     string    `json:"signature_text,omitempty"`
	ErrType           string    `json:"err_type,omitempty"`
	Err               string    `json:"err,omitempty"`
	RetryAfter        time.Time `json:"retry_after,omitzero"`
	UpstreamRequestID string    `json:"upstream_request_id,omitempty"`
}

// ID returns the record id of an item of a queue: 32 hex digits.
func ID(queue, item string) string {
	h := sha256.New()
	h.Write([]byte(queue))
	h.Write([]byte{0})
	h.Write([]byte(item))
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// Limits of the texts in a record, in bytes.
const (
	maxErr      = 4 << 10
	maxTemplate = 1 << 10
	maxShort    = 256
	maxHistory  = 10
	maxHead     = 1 << 20 // a record without its payload, as JSON
	maxID       = 64
)

// DefaultMaxPayload is the largest payload a queue and a store keep unless
// told otherwise: 16 MiB.
const DefaultMaxPayload = 16 << 20

// norm makes t what a store keeps, so that every store orders alike.
func norm(t time.Time) time.Time {
	if y := t.Year(); t.IsZero() || y < 1 || y > 9999 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// prepared returns in as a first failure: texts valid and bounded, times set,
// nothing shared with the caller but the payload.
func prepared(in Record, now time.Time) Record {
	r := in
	r.V = 1
	for _, s := range []*string{
		&r.ID, &r.Queue, &r.RunID, &r.Method, &r.URL, &r.Owner,
	} {
		*s = strings.ToValidUTF8(*s, "\uFFFD")
	}
	if r.ID == "" {
		r.ID = ID(r.Queue, r.ItemID)
	}
	r.ItemID = strings.ToValidUTF8(r.ItemID, "\uFFFD")
	r.Signature, r.SignatureText = clip(r.Signature, maxShort), clip(r.SignatureText, maxTemplate)
	r.ErrType, r.Err = clip(r.ErrType, maxShort), clip(r.Err, maxErr)
	r.UpstreamRequestID = clip(r.UpstreamRequestID, maxShort)
	r.Header = validHeader(r.Header)
	r.Labels = validLabels(r.Labels)

	r.LastFailedAt = norm(r.LastFailedAt)
	if r.LastFailedAt.IsZero() {
		r.LastFailedAt = norm(now)
	}
	r.FirstFailedAt = norm(r.FirstFailedAt)
	if r.FirstFailedAt.IsZero() || r.FirstFailedAt.After(r.LastFailedAt) {
		r.FirstFailedAt = r.LastFailedAt
	}
	r.RetryAfter = norm(r.RetryAfter)

	r.State, r.Failures, r.Replays = Dead, 1, 0
	r.TotalCalls = r.Attempts
	r.History = []Failure{r.failure().short()}
	r.ClaimedBy, r.ClaimSeq, r.ClaimUntil, r.Reason = "", 0, time.Time{}, ""

	r.PayloadSize, r.PayloadHash = int64(len(r.Payload)), ""
	if len(r.Payload) > 0 {
		sum := sha256.Sum256(r.Payload)
		r.PayloadHash = hex.EncodeToString(sum[:])
	}
	return r
}

// merged returns what a store keeps when in, a prepared record, comes for an
// item that it holds already.
func merged(old, in Record) Record {
	if old.State.resolved() {
		// The item was finished: this is another life. Only the fencing
		// numbers go on.
		in.ClaimSeq = old.ClaimSeq
		return in
	}
	r := in
	r.FirstFailedAt = old.FirstFailedAt
	r.LastFailedAt = latest(in.LastFailedAt, old.LastFailedAt)
	r.Failures = old.Failures + 1
	r.TotalCalls = old.TotalCalls + in.Attempts
	r.History = remember(old.History, in.failure())
	r.ClaimSeq = old.ClaimSeq
	if in.PayloadHash == old.PayloadHash {
		r.State, r.Replays, r.Reason = old.State, old.Replays, old.Reason
		r.ClaimedBy, r.ClaimUntil = old.ClaimedBy, old.ClaimUntil
	}
	// Another payload is another request. Whoever replays the old one has lost
	// his claim, and an ack of his must not bury the new one.
	return r
}

// returned returns r after a replay of it failed with f.
func returned(r Record, f Failure, to State) Record {
	f.At = norm(f.At)
	r.State = to
	r.LastFailedAt = latest(f.At, r.LastFailedAt)
	r.Failures++
	r.TotalCalls += f.Attempts
	r.Attempts, r.Status = f.Attempts, f.Status
	r.Signature, r.SignatureText = clip(f.Signature, maxShort), clip(f.SignatureText, maxTemplate)
	r.ErrType, r.Err = clip(f.ErrType, maxShort), clip(f.Err, maxErr)
	r.RetryAfter = norm(f.RetryAfter)
	r.UpstreamRequestID = clip(f.UpstreamRequestID, maxShort)
	r.History = remember(r.History, r.failure())
	r.ClaimedBy, r.ClaimUntil = "", time.Time{}
	return r
}

// failure returns the last failure of r.
func (r Record) failure() Failure {
	return Failure{
		At: r.LastFailedAt, Attempts: r.Attempts, Status: r.Status, Signature: r.Signature,
		SignatureText: r.SignatureText, ErrType: r.ErrType, Err: r.Err, RetryAfter: r.RetryAfter,
		UpstreamRequestID: r.UpstreamRequestID,
	}
}

func (f Failure) short() Failure {
	return Failure{At: f.At, Attempts: f.Attempts, Status: f.Status, Signature: f.Signature}
}

func remember(history []Failure, f Failure) []Failure {
	if len(history) >= maxHistory {
		history = history[len(history)-maxHistory+1:]
	}
	return append(slices.Clone(history), f.short())
}

// clone returns r with nothing shared but the payload.
func (r Record) clone() Record {
	r.Header = r.Header.Clone()
	r.Labels = maps.Clone(r.Labels)
	r.History = slices.Clone(r.History)
	return r
}

// clip returns s as valid UTF-8 of at most limit bytes.
func clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

func validHeader(h http.Header) http.Header {
	if len(h) == 0 {
		return nil
	}
	out := make(http.Header, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) { // two may become one
		k := strings.ToValidUTF8(name, "\uFFFD")
		for _, v := range h[name] {
			out[k] = append(out[k], strings.ToValidUTF8(v, "\uFFFD"))
		}
	}
	return out
}

func validLabels(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) { // of two that become one the last counts
		out[strings.ToValidUTF8(k, "\uFFFD")] = strings.ToValidUTF8(m[k], "\uFFFD")
	}
	return out
}
