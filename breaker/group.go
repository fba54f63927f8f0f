package breaker

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"strings"
	"sync"

	"github.com/nightfuse/nightfuse/internal/modelapi"
)

// maxUpstreams bounds the breakers of a Group.
const maxUpstreams = 1000

// overflow is the key that all new upstreams share when a Group is full of
// breakers that must not be dropped.
const overflow = "*"

// Group is one breaker per upstream, made as they are met. At most 1,000 are
// kept: beyond that the least recently used closed one with no call out is
// dropped, never an open one. If none can go, new upstreams share one breaker
// under the key "*". Safe for concurrent use.
type Group struct {
	cfg Config
	key func(*http.Request) string

	mu      sync.Mutex
	members map[string]*list.Element // of *member
	used    *list.List               // most recent first
	past    Stats                    // counters of dropped ones
}

type member struct {
	key  string
	once sync.Once
	b    *Breaker // nil until once is done; guarded by Group.mu outside of it
}

// NewGroup returns a group whose breakers are as cfg says, each named
// Config.Name, a slash and its key, shortened if it is too long for a name. key
// tells the upstream of a request and must not consume its body; nil = ByHost.
func NewGroup(cfg Config, key func(*http.Request) string) (*Group, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cfg.Jitter == 0 {
		cfg.Jitter = -1 // the members read it once more
	}
	if cfg.MaxHint == 0 {
		cfg.MaxHint = -1
	}
	if key == nil {
		key = ByHost
	}
	return &Group{cfg: cfg, key: key, members: map[string]*list.Element{}, used: list.New()}, nil
}

// ByHost is the key of an upstream that fails as a whole: the host and port of
// the request's URL, in lower case.
func ByHost(req *http.Request) string {
	host := req.URL.Host
	if host == "" {
		host = req.Host
	}
	return strings.ToLower(host)
}

// maxModelBody is how much of a request's body ByHostAndModel reads.
const maxModelBody = 4 << 20

// ByHostAndModel is the key of an upstream whose models fail one by one: ByHost,
// a slash and the model that the path or a copy of the body names. A body
// without GetBody is not read, and the model is then the path's or nothing.
func ByHostAndModel(req *http.Request) string {
	var body []byte
	if req.GetBody != nil {
		if r, err := req.GetBody(); err == nil {
			body, _ = io.ReadAll(io.LimitReader(r, maxModelBody))
			_ = r.Close()
		}
	}
	model := modelapi.ParseRequest(req.URL.Path, body).Model
	if model == "" {
		return ByHost(req)
	}
	return ByHost(req) + "/" + model
}

// Name returns Config.Name.
func (g *Group) Name() string { return g.cfg.Name }

// Get returns the breaker of the upstream with this key, for Do and for
// operators. The first call for a key reads the store.
func (g *Group) Get(key string) *Breaker {
	g.mu.Lock()
	m := g.member(key)
	g.mu.Unlock()
	m.once.Do(func() {
		cfg := g.cfg
		cfg.Name = memberName(cfg.Name, m.key)
		b, err := New(cfg)
		if err != nil {
			// NewGroup has checked cfg, and memberName makes a name of any key.
			panic(err)
		}
		g.mu.Lock()
		m.b = b
		g.mu.Unlock()
	})
	return m.b
}

func (g *Group) pick(req *http.Request) *Breaker { return g.Get(g.key(req)) }

// member finds or makes the place of a key. The lock is held.
func (g *Group) member(key string) *member {
	if e, ok := g.members[key]; ok {
		g.used.MoveToFront(e)
		return e.Value.(*member)
	}
	if len(g.members) >= maxUpstreams && key != overflow && !g.drop() {
		return g.member(overflow)
	}
	m := &member{key: key}
	g.members[key] = g.used.PushFront(m)
	return m
}

// drop takes out the least recently used breaker that holds nothing worth
// keeping, else the least recently used closed one. The lock is held.
func (g *Group) drop() bool {
	var closed *list.Element
	for e := g.used.Back(); e != nil; e = e.Prev() {
		m := e.Value.(*member)
		b := m.b
		if b == nil || m.key == overflow || !b.idle() {
			continue
		}
		if !b.phase.Load().dirty.Load() {
			closed = e
			break
		}
		if closed == nil {
			closed = e
		}
	}
	if closed == nil {
		return false
	}
	m := g.used.Remove(closed).(*member)
	delete(g.members, m.key)
	last := m.b.stats()
	last.Streak = 0
	if !m.b.private {
		last.TripsTotal = 0 // the store remembers it
	}
	g.past.add(last)
	return true
}

// idle reports whether b is closed with no call out.
func (b *Breaker) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rec.State == Closed && b.flight() == 0 && len(b.pending) == 0
}

func memberName(group, key string) string {
	name := group + "/" + key
	if printable(name) && len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, name)
	tail := "~" + hex.EncodeToString(sum[:8])
	return clean[:min(len(clean), maxName-len(tail))] + tail
}

// All yields the breakers in the order of their last use, by key.
func (g *Group) All() iter.Seq2[string, *Breaker] {
	return func(yield func(string, *Breaker) bool) {
		for _, m := range g.list() {
			if !yield(m.key, m.b) {
				return
			}
		}
	}
}

// list returns the members that are ready, as values.
func (g *Group) list() []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	ready := make([]*member, 0, len(g.members))
	for e := g.used.Front(); e != nil; e = e.Next() {
		if m := e.Value.(*member); m.b != nil {
			ready = append(ready, &member{key: m.key, b: m.b})
		}
	}
	return ready
}

// Stats returns the sums over all breakers, dropped ones included. Its state is
// Open when one is open, else HalfOpen when one is; Until, Reason and Signature
// are those of the one that opens again first, LastTrip is the latest.
func (g *Group) Stats() Stats {
	g.mu.Lock()
	sum := g.past
	g.mu.Unlock()
	sum.Name = g.cfg.Name
	for _, b := range g.All() {
		sum.add(b.Stats())
	}
	return sum
}

// String returns Stats as JSON, which makes a Group an expvar.Var.
func (g *Group) String() string {
	text, err := json.Marshal(g.Stats())
	if err != nil {
		return "{}"
	}
	return string(text)
}
